"""Real processes that look for one another."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]


class Crowd:
    """Members a, b, c, ..., for the length of a `with`; none outlives it."""

    def __init__(self, *wheres: str) -> None:
        self._wheres = wheres
        self._members: dict[str, subprocess.Popen[str]] = {}
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._started:
            member.kill()
            member.communicate()

    def start(self, names: Iterable[str]) -> None:
        for name in names:
            command = [sys.executable, "-m", "tests.discovery.member", name, address(name), *self._wheres]
            self._members[name] = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            self._started.append(self._members[name])

    def send(self, name: str, signal: int) -> None:
        self._members[name].send_signal(signal)

    def wait(self, name: str) -> int:
        """Wait until the member has ended, and return its exit status."""
        return self._members[name].wait(timeout=30)

    def until(self, name: str, others: Iterable[str]) -> None:
        """Wait until the member finds just these; the time limit of the test is the bound."""
        expected = sorted(map(address, others))
        found: Any = None
        while found != expected:
            line = self._members[name].stdout.readline()  # type: ignore[union-attr]
            assert line, f"{name} ended; it found {found} last, and not {expected}"
            found = json.loads(line)


def address(name: str) -> str:
    return f"127.0.0.1:{7000 + ord(name)}"
