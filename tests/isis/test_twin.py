"""The engine does what the protocol in its fewest lines does, step for step, whatever the schedule.

Both run without links: a schedule says who hears whom or doubts that it lives, who reviews, whose oldest
message arrives, and who restarts. After each step both have sent the same, remember the same and have
installed the same.
"""

from collections import defaultdict, deque
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.isis.links import VIEWS, Links, Peer, Ticket
from covey.isis.messages import VIEW_MESSAGE
from covey.isis.sites import Sites
from covey.kernel.effects import Append, Halt, Install, Store
from covey.kernel.engine import Surroundings
from covey.kernel.ids import ProcessId
from covey.sim.disk import Disk
from tests.isis.twin import Twin

FAR = 1000.0
"""Between two steps: no hold-off lasts so long."""


def plain(value: Any) -> Any:
    """A value as lists and numbers, so that tuples, structs and named tuples compare."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value))


class NoLinks(Links):
    """Stands where the links are: messages go out at once, and who is alive is what the schedule says."""

    def send(self, dest: ProcessId, port: int, message: bytes) -> Ticket:
        assert port == VIEWS
        self.went.append((dest, message))
        return Ticket(dest, port, 0)

    def bury(self, pid: ProcessId) -> None:
        self.dead.add(pid)

    def alive(self, now: float) -> list[Peer]:
        return self.trusted


class Pair:
    """An engine and its twin, on disks of their own."""

    def __init__(self, name: str, configured: list[str]) -> None:
        self.name, self.configured = name, configured
        self.incarnation = 0
        self.disk, self.twin_disk = Disk(), {}
        self.restart()

    def restart(self) -> None:
        self.incarnation += 1
        self.pid = ProcessId(self.name, self.incarnation)
        self.site = Sites(Surroundings(self.pid, self.name, self.disk, Random(0)), self.configured, self.configured)
        links = self.site.links
        self.site.links = NoLinks(self.site, [], links.options, links.is_member)
        self.site.links.went, self.site.links.dead, self.site.links.trusted = [], set(), []
        self.twin = Twin(tuple(self.pid), self.configured, self.twin_disk)

    def trust(self, views: dict[ProcessId, int]) -> dict[Any, int]:
        """Let the engine know who is alive; return it as the twin takes it."""
        self.site.links.trusted = [Peer(pid, pid.name, 0.0) for pid in views]
        for peer in self.site.links.trusted:
            peer.view = views[peer.pid]
        return {tuple(pid): view for pid, view in views.items()}

    def carry_out(self) -> bool:
        """Do what the engine wants of its disk; whether it has halted."""
        halted = False
        for effect in self.site.take():
            match effect:
                case Store(key, value):
                    self.disk.put(key, value)
                case Append(record):
                    self.disk.append(record)
                case Halt():
                    halted = True
        self.disk.flush()
        return halted

    def compare(self) -> None:
        memory, twin = self.site.memory, self.twin
        assert plain(memory.promised) == plain(twin.disk["promised"])
        assert plain(memory.accepted) == plain(twin.disk["accepted"])
        assert plain(memory.view) == plain(twin.view)
        assert plain(memory.committed) == plain(twin.disk["committed"])
        assert self.site.links.dead == {ProcessId(*pid) for pid in twin.dead}
        assert (self.site.reign is None) == (twin.reign is None)
        installed = [effect.seq for effect in self.site.out if isinstance(effect, Install)]
        assert installed == [number for number, _ in twin.installed]
        assert [(pid, msgspec.msgpack.decode(packed)) for pid, packed in self.site.links.went] == [
            (pid, plain(message)) for pid, message in twin.sent
        ]


class Play:
    """Some pairs, and the channels between them."""

    def __init__(self, names: str) -> None:
        self.pairs = [Pair(name, list(names)) for name in names]
        self.heard: dict[tuple[int, int], tuple[ProcessId, int]] = {}
        """What i knows of j by its last hello, unless it doubts that j lives."""
        self.channels: defaultdict[tuple[int, int], deque[tuple[bytes, Any]]] = defaultdict(deque)
        self.now = 0.0
        self.views: dict[int, Any] = {}

    def step(self, verb: str, i: int, j: int) -> None:
        self.now += FAR
        pair = self.pairs[i]
        match verb:
            case "deliver":
                waiting = sorted(pair for pair, channel in self.channels.items() if channel)
                if waiting:
                    self.deliver(*waiting[(i * len(self.pairs) + j) % len(waiting)])
            case "hello" if i != j:
                self.heard[i, j] = (self.pairs[j].pid, self.pairs[j].site.memory.number)
            case "doubt":
                self.heard.pop((i, j), None)
            case "review":
                alive = pair.trust(self.alive(i))
                pair.site._review(self.now)
                pair.twin.review(alive)
                self.after(i)
            case "restart":
                self.restart(i)

    def alive(self, i: int) -> dict[ProcessId, int]:
        heard = (self.heard[i, j] for j in range(len(self.pairs)) if (i, j) in self.heard)
        return {pid: view for pid, view in heard if pid not in self.pairs[i].site.links.dead}

    def deliver(self, i: int, j: int) -> None:
        """The oldest message from i arrives at j, or i learns that it is dead."""
        sender, pair = self.pairs[i], self.pairs[j]
        if sender.pid in pair.site.links.dead:
            self.restart(i)
        else:
            packed, message = self.channels[i, j].popleft()
            alive = pair.trust(self.alive(j))
            pair.site._on_view_message(self.now, sender.pid, packed)
            if pair.site.reign is not None:
                pair.site.reign.advance(pair.site._alive(self.now))
            pair.twin.receive(tuple(sender.pid), message, alive)
            self.after(j)

    def after(self, i: int) -> None:
        pair = self.pairs[i]
        pair.compare()
        pair.site.memory.check(pair.site.quorum)
        for (dest, packed), (_, message) in zip(pair.site.links.went, pair.twin.sent, strict=True):
            j = next(j for j, other in enumerate(self.pairs) if other.name == dest.name)
            if self.pairs[j].pid == dest:
                self.channels[i, j].append((packed, message))
        pair.site.links.went.clear()
        pair.twin.sent.clear()
        for number, members in pair.twin.installed:
            assert self.views.setdefault(number, members) == members
        pair.twin.installed.clear()
        if pair.carry_out():
            assert pair.twin.is_halted
            self.restart(i)

    def restart(self, i: int) -> None:
        self.pairs[i].carry_out()
        self.pairs[i].restart()
        for j in range(len(self.pairs)):
            self.channels[i, j].clear()
            self.channels[j, i].clear()
            self.heard.pop((i, j), None)


VERBS = ("deliver",) * 40 + ("hello",) * 24 + ("review",) * 8 + ("doubt", "restart")
steps = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 3), st.integers(0, 3)), max_size=400)


@given(steps)
def test_the_engine_does_what_its_twin_does(schedule: list[tuple[str, int, int]]) -> None:
    play = Play("abcd")
    for verb, i, j in schedule:
        play.step(verb, i, j)


@pytest.mark.parametrize("names", ["abc", "abcd"])
def test_long_schedules_install_views_in_both(names: str) -> None:
    """Random rather than drawn by Hypothesis: long enough for many views to come."""
    chance = Random(1985)
    views = 0
    for _ in range(60):
        play = Play(names)
        for _ in range(1500):
            play.step(chance.choice(VERBS), chance.randrange(len(names)), chance.randrange(len(names)))
        views += len(play.views)
    assert views > 300


def test_what_the_wire_carries_is_what_the_twin_says() -> None:
    """The twin's tuples are valid messages of view management, field for field."""
    twin = Twin(("a", 1), "ab", {})
    twin.review({("b", 1): -1})
    twin.review({("b", 1): -1})
    ((_, message),) = twin.sent
    assert plain(VIEW_MESSAGE.decode(msgspec.msgpack.encode(message))) == plain(message)
