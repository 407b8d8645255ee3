"""ISIS sites as real processes under test: started, waited for, killed and judged.

Every wait is for what the processes print. What kills a process adds the `fail` row of its last incarnation, as
a supervisor does; an incarnation that was told that it is dead has written its own.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from covey.trace import Recorder, Row, open_sink, read_checked, read_trace
from covey.trace.amend import add_fail
from covey.trace.convert import close_streams
from tests.host.site import RUN
from tests.isis.judge import judge

ROOT = Path(__file__).parents[2]
WAIT_S = 25.0
T = TypeVar("T")


class Sites:
    """Sites as processes, each under its address; `enter` is the command that puts one where its address is."""

    def __init__(
        self, folder: Path, addresses: Sequence[str], enter: Callable[[str], Sequence[str]] = lambda address: ()
    ) -> None:
        self.folder = folder
        self.addresses = sorted(addresses)
        self.enter = enter
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "trace").mkdir()
        with Recorder(open_sink(folder / "trace" / "header")) as recorder:
            recorder.header(RUN, "isis85", complete=True, healed=True, universe=self.addresses)

    def start(self, *addresses: str) -> None:
        for address in addresses or self.addresses:
            site = [sys.executable, "-m", "tests.host.site", str(self.folder), address, *self.addresses]
            with (self.folder / f"{address}.out").open("ab") as out:
                self.running[address] = subprocess.Popen(
                    [*self.enter(address), *site], cwd=ROOT, stdout=out, stderr=out
                )

    def view(self, address: str) -> str:
        """The last line that a site has printed: the number of a view, and its members."""
        out = self.folder / f"{address}.out"
        text = out.read_text() if out.exists() else ""
        return text[: text.rfind("\n") + 1].rstrip("\n").rpartition("\n")[2]

    def agree(self, *addresses: str, after: int = -1) -> int:
        """Wait until just these have installed one view, one with a higher number than `after`; return its number."""
        return self.wait(lambda: self._agreed(addresses, after))

    def _agreed(self, addresses: Sequence[str], after: int) -> int | None:
        views = {self.view(address) for address in addresses}
        words = views.pop().split() if len(views) == 1 else []
        names = sorted(word.rpartition("/")[0] for word in words[1:])
        return int(words[0]) if names == sorted(addresses) and int(words[0]) > after else None

    def wait(self, find: Callable[[], T | None], every_s: float = 0.02) -> T:
        """Wait until there is something to be found, and return it."""
        end = time.monotonic() + WAIT_S
        while (found := find()) is None:
            assert time.monotonic() < end, {address: self.view(address) for address in self.addresses}
            time.sleep(every_s)
        return found

    def incarnation(self, address: str) -> int:
        """The incarnation of a site that its trace tells of last."""
        return self._rows(address)[-1].incarnation

    def signal(self, address: str, number: int) -> None:
        self.running[address].send_signal(number)

    def kill(self, address: str) -> None:
        """Kill a site, and write that it failed."""
        process = self.running.pop(address)
        process.kill()
        process.wait()
        rows = self._rows(address)
        if rows and rows[-1].event not in ("fail", "stop"):
            last = rows[-1]
            add_fail(self.folder / "trace", RUN, address, last.incarnation, last.columns.get("config"))

    def has_written(self, address: str, size: int) -> None:
        """Wait until the trace of the process there has so many bytes: 1 when it starts, 250 in a view."""
        trace = self.folder / "trace" / f"{address.replace(':', '-')}-{self.running[address].pid}.rows"
        self.wait(lambda: (trace.exists() and trace.stat().st_size >= size) or None, every_s=0.001)

    def _rows(self, address: str) -> list[Row]:
        rows = read_trace(self.folder / "trace", unclosed=True)
        return sorted((row for row in rows if row.process == address), key=lambda row: row.index)

    def freeze(self) -> None:
        """End all where they are, for good: what they rest in stands in the trace."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in self.running.values():
                with suppress(ProcessLookupError):
                    process.send_signal(number)
        for process in self.running.values():
            process.wait()
        self.running.clear()

    def judge(self) -> list[str]:
        self.freeze()
        list(close_streams(self.folder / "trace", "jsonl"))
        return judge([row.columns for row in read_checked(self.folder / "trace")])
