"""The sites of `covey demo`: processes on loopback, what is done to them, and what they say of themselves.

All print into one pipe. A site writes down a view before a packet leaves that tells others of it, so what comes out
of the pipe never shows an effect before its cause.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from covey.cli.site import KEY_FILE, RUN, TRACE_FOLDER
from covey.cli.watch import Event, names, short
from covey.kernel.errors import WorldError
from covey.kernel.ids import ProcessId
from covey.net.keys import new_key_file
from covey.trace import JsonLinesSink, Recorder
from covey.trace.amend import add_fail

if TYPE_CHECKING:
    from covey.cli.network import Pair

LEAVE_S = 6.0
"""Sites that were told to leave have so long for it."""

Row = Mapping[str, Any]


class Rest(NamedTuple):
    """The last view that a site installed."""

    incarnation: int
    number: int
    members: tuple[str, ...]


class Stage:
    """Sites as processes; at the end of the context all are gone, whatever happens."""

    def __init__(self, folder: Path, sites: Sequence[str]) -> None:
        self.folder = folder
        self.trace = folder / TRACE_FOLDER
        self.addresses = dict(zip(sites, _free_addresses(len(sites)), strict=True))
        self.events: list[Event] = []
        self.rests: dict[str, Rest] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._unread = b""
        self._out, self._into = os.pipe()
        os.set_blocking(self._out, False)
        self._began = time.monotonic()
        new_key_file(folder / KEY_FILE)
        with Recorder(JsonLinesSink(self.trace / "header")) as recorder:
            recorder.header(RUN, "isis85", universe=sites)

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for name in self.addresses:
            self._end(name)
        os.close(self._out)
        os.close(self._into)

    @property
    def now(self) -> float:
        return time.monotonic() - self._began

    # ---- what is done to them ----

    def start(self, *sites: str) -> None:
        """Start these, each in a process group of its own: a Ctrl-C in the terminal is for this process alone."""
        for name in sites:
            places = [f"{each}={address}" for each, address in self.addresses.items()]
            command = [sys.executable, "-m", "covey.cli.site", str(self.folder), name, *places]
            with (self.folder / f"{name}.err").open("ab") as errors:
                self._running[name] = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=self._into, stderr=errors, process_group=0
                )

    def kill(self, name: str) -> None:
        """End it as kill -9 does, and write down for it that it failed."""
        self._end(name)
        incarnation = self._read().rests[name].incarnation
        self._add("fail", name, who=short(ProcessId(name, incarnation)))
        add_fail(self.trace, RUN, name, incarnation)

    def pause(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGSTOP)
        self._read()._add("pause", name, who=self._who(name))

    def resume(self, name: str) -> None:
        self._read()._add("resume", name, who=self._who(name))
        self._running[name].send_signal(signal.SIGCONT)

    def cut_off(self, name: str) -> None:
        """Have its host drop all that comes from the others, and all that goes to them."""
        others = [each for each in self.addresses if each != name]
        self._tell(name, "cut", *(self.addresses[each] for each in others))
        cuts: frozenset[Pair] = frozenset((*((name, each) for each in others), *((each, name) for each in others)))
        self._read()._add("cut", text=f"{name} is cut off from all others", cuts=cuts)

    def heal(self, name: str) -> None:
        self._read()._add("mend")
        self._tell(name, "heal")

    def leave(self) -> None:
        """Have all leave, and wait until they have."""
        for process in self._running.values():
            process.terminate()
        end = self.now + LEAVE_S
        for name, process in self._running.items():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(end - self.now, 0.0))
            if process.returncode != 0:
                raise WorldError(f"{name} did not leave as it was told{self._last_words(name)}")
        self._read()

    def _end(self, name: str) -> None:
        process = self._running.pop(name, None)
        if process is not None:
            process.kill()
            with suppress(BrokenPipeError):
                process.communicate()

    def _tell(self, name: str, *words: str) -> None:
        process = self._running[name]
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # that it has ended is noticed elsewhere
            process.stdin.write(f"{' '.join(words)}\n".encode())
            process.stdin.flush()

    # ---- what they say ----

    def wait(self, seconds: float) -> None:
        """Wait until something is said, or for so long."""
        select([self._out], [], [], seconds)
        self._read()
        for name, process in self._running.items():
            if process.poll() is not None:
                raise WorldError(f"{name} has ended by itself{self._last_words(name)}")

    def agree(self, sites: Sequence[str], after: int) -> bool:
        """Whether just these are in one view, one with a higher number than `after`."""
        rests = {self.rests[name] for name in sites if name in self.rests}
        views = {(rest.number, rest.members) for rest in rests}
        if len(views) != 1 or len(sites) != sum(name in self.rests for name in sites):
            return False
        number, members = views.pop()
        pids = {str(ProcessId(name, self.rests[name].incarnation)) for name in sites}
        return number > after and pids == set(members)

    def _read(self) -> "Stage":
        """Take in what has been said so far."""
        with suppress(BlockingIOError):
            while said := os.read(self._out, 1 << 16):
                self._unread += said
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._take(msgspec.json.decode(line))
        return self

    def _take(self, row: Row) -> None:
        name, incarnation = row["process"], row["incarnation"]
        who = short(ProcessId(name, incarnation))
        match row["event"]:
            case "start":
                self.rests[name] = Rest(incarnation, -1, ())
                self._add("start", name, who=who, number=incarnation)
            case "config":
                self.rests[name] = Rest(incarnation, row["seq"], tuple(row["members"]))
                self._add("view", name, who=who, number=row["seq"], members=names(row["members"]))
            case "fail":
                self._add("halt", name, who=who, text="the others went on without it")
            case kind:
                self._add(kind, name, who=who)

    def _add(self, kind: str, member: str = "", **more: Any) -> None:
        self.events.append(Event(self.now, kind, member, **more))

    def _who(self, name: str) -> str:
        return short(ProcessId(name, self.rests[name].incarnation))

    def _last_words(self, name: str) -> str:
        lines = (self.folder / f"{name}.err").read_text(errors="replace").splitlines()
        return f": {lines[-1]}" if lines else ""


def _free_addresses(count: int) -> list[str]:
    """Addresses whose ports were free just now."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = ["{}:{}".format(*each.getsockname()) for each in sockets]
    for each in sockets:
        each.close()
    return addresses
