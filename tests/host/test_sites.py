"""Real processes, killed, stopped and told to go, live through one sequence of views; their traces are judged.

Every wait is for what the processes print. What kills a process adds the `fail` row of its last incarnation, as
a supervisor does; an incarnation that was told that it is dead has written its own.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from covey.net.keys import new_key_file
from covey.trace import Recorder, open_sink, read_checked, read_trace
from covey.trace.amend import add_fail
from covey.trace.convert import close_streams
from tests.host.site import RUN
from tests.host.things import free_addresses
from tests.isis.judge import judge

ROOT = Path(__file__).parents[2]
WAIT_S = 25.0


class Sites:
    """Sites as processes, each under its address."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.addresses = sorted(free_addresses(count))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "trace").mkdir()
        with Recorder(open_sink(folder / "trace" / "header")) as recorder:
            recorder.header(RUN, "isis85", complete=True, healed=True, universe=self.addresses)

    def start(self, *addresses: str) -> None:
        for address in addresses or self.addresses:
            command = [sys.executable, "-m", "tests.host.site", str(self.folder), address, *self.addresses]
            with (self.folder / f"{address}.out").open("ab") as out:
                self.running[address] = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)

    def view(self, address: str) -> str:
        """The last line that a site has printed: the number of a view, and its members."""
        text = (self.folder / f"{address}.out").read_text()
        return text[: text.rfind("\n") + 1].rstrip("\n").rpartition("\n")[2]

    def agree(self, *addresses: str, after: int = -1) -> int:
        """Wait until just these have installed one view, one with a higher number than `after`; return its number."""
        end = time.monotonic() + WAIT_S
        while True:
            views = {self.view(address) for address in addresses}
            words = views.pop().split() if len(views) == 1 else []
            names = sorted(word.rpartition("/")[0] for word in words[1:])
            if names == sorted(addresses) and int(words[0]) > after:
                return int(words[0])
            assert time.monotonic() < end, {one: self.view(one) for one in addresses}
            time.sleep(0.02)

    def signal(self, address: str, number: int) -> None:
        self.running[address].send_signal(number)

    def kill(self, address: str) -> None:
        """Kill a site, and write that it failed."""
        process = self.running.pop(address)
        process.kill()
        process.wait()
        rows = [row for row in read_trace(self.folder / "trace", unclosed=True) if row.process == address]
        last = max(rows, key=lambda row: row.index, default=None)
        if last is not None and last.event not in ("fail", "stop"):
            add_fail(self.folder / "trace", RUN, address, last.incarnation, last.columns.get("config"))

    def has_written(self, address: str, size: int) -> None:
        """Wait until the trace of the process there has so many bytes: 1 when it starts, 250 in a view."""
        trace = self.folder / "trace" / f"{address.replace(':', '-')}-{self.running[address].pid}.rows"
        end = time.monotonic() + WAIT_S
        while not trace.exists() or trace.stat().st_size < size:
            assert time.monotonic() < end, f"{trace} does not grow to {size} bytes"
            time.sleep(0.001)

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


@pytest.fixture
def sites(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sites]:
    count, is_sealed = request.param
    if is_sealed:
        new_key_file(tmp_path / "group.key")
    sites = Sites(tmp_path, count)
    try:
        yield sites
    finally:
        sites.freeze()


@pytest.mark.parametrize("sites", [(5, False), (5, True)], indirect=True, ids=["plain", "sealed"])
def test_a_killed_and_a_stopped_site_come_back_into_one_view(sites: Sites) -> None:
    killed, stopped, *others = sites.addresses
    sites.start()
    first = sites.agree(*sites.addresses)
    sites.kill(killed)
    second = sites.agree(stopped, *others, after=first)
    sites.signal(stopped, signal.SIGSTOP)
    sites.start(killed)
    third = sites.agree(killed, *others, after=second)
    sites.signal(stopped, signal.SIGCONT)
    sites.agree(*sites.addresses, after=third)
    assert sites.judge() == []


@pytest.mark.parametrize("sites", [(3, False), (3, True)], indirect=True, ids=["plain", "sealed"])
def test_a_site_that_is_stopped_for_seconds_is_told_and_comes_again(sites: Sites) -> None:
    """It wakes up to find that the others went on without it: the same process, the next incarnation."""
    stopped, *others = sites.addresses
    sites.start()
    first = sites.agree(*sites.addresses)
    sites.signal(stopped, signal.SIGSTOP)
    second = sites.agree(*others, after=first)
    sites.signal(stopped, signal.SIGCONT)
    sites.agree(*sites.addresses, after=second)
    assert f"{stopped}/2" in sites.view(stopped).split()
    assert sites.judge() == []


@pytest.mark.parametrize("sites", [(3, True)], indirect=True)
def test_a_site_told_to_go_leaves_at_once_and_finishes_its_trace(sites: Sites) -> None:
    leaving, *others = sites.addresses
    sites.start()
    first = sites.agree(*sites.addresses)
    sites.signal(leaving, signal.SIGTERM)
    assert sites.running.pop(leaving).wait(WAIT_S) == 0
    sites.agree(*others, after=first)
    assert sites.judge() == []
    rows = [row for row in read_checked(sites.folder / "trace") if row.process == leaving]
    assert max(rows, key=lambda row: row.index).event == "stop"


@pytest.mark.parametrize("sites", [(5, True)], indirect=True)
def test_all_killed_at_once_go_on_where_their_storage_ends(sites: Sites) -> None:
    sites.start()
    first = sites.agree(*sites.addresses)
    for address in sites.addresses:
        sites.signal(address, signal.SIGSTOP)
    for address in sites.addresses:
        sites.kill(address)
    sites.start()
    sites.agree(*sites.addresses, after=first)
    assert sites.judge() == []


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("sites", [(5, True)], indirect=True)
def test_sites_killed_and_stopped_at_any_moment_end_up_in_one_view(sites: Sites, seed: int) -> None:
    """Also while they start, and while the others are about to take them in or to leave them out."""
    random = Random(seed)
    sites.start()
    last = sites.agree(*sites.addresses)
    for _ in range(8):
        one, other = random.sample(sites.addresses, 2)
        sites.signal(other, signal.SIGSTOP)
        sites.kill(one)
        sites.start(one)
        sites.has_written(one, random.choice([0, 1, 1, 250]))
        sites.signal(other, signal.SIGCONT)
    sites.agree(*sites.addresses, after=last)
    assert sites.judge() == []
