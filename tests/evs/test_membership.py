"""Processes that find each other, lose each other and rest, in a simulated world that does not judge them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from random import Random
from unittest.mock import patch

import pytest

from covey.cli.models import EVS
from covey.evs.engine import Evs
from covey.evs.membership import ATTEMPTS_MAX, COMMIT_S, CONSENSUS_S, Membership, State
from covey.evs.messages import CODEC, Join
from covey.evs.passing import LOSS_S
from covey.kernel.effects import Cast, Deliver, Effect, Install
from covey.kernel.wire import Packet
from covey.sim.machine import Life, Machine
from covey.sim.network import NetworkOptions
from covey.sim.world import World

DELAY_S = 0.003
"""The longest on the simulated network."""


class Watched(World):
    """A world that counts: configurations, packets, and what is said in Joins."""

    def __init__(self, names: Sequence[str], seed: int = 1) -> None:
        super().__init__(seed, list(names), EVS)
        self.installed: defaultdict[str, list[Install]] = defaultdict(list)
        """The regular configurations at each address."""
        self.delivered: defaultdict[str, list[tuple[float, bytes]]] = defaultdict(list)
        self.joins: list[tuple[str, Join]] = []
        self.out: Counter[str] = Counter()
        self.watchers.append(self.look)

    def look(self, machine: Machine, what: Effect | Life) -> None:
        match what:
            case Install(kind="regular"):
                self.installed[machine.address].append(what)
            case Deliver():
                self.delivered[machine.address] += [(self.now, message) for message in what.messages]
            case Cast(packet):
                read = CODEC.decode(packet)
                if isinstance(read, Packet) and isinstance(read.body, Join):
                    self.joins.append((machine.address, read.body))

    def carry(self, source: str, to: str, packet: bytes) -> None:
        self.out[source] += 1
        super().carry(source, to, packet)

    def cast(self, source: str, packet: bytes, to: Sequence[str] = ()) -> None:
        self.out[source] += len(to)
        super().cast(source, packet, to)

    def members(self, name: str) -> tuple[str, ...]:
        """Of the configuration that a process is in."""
        return self.installed[name][-1].members

    def process(self, name: str) -> Evs:
        engine = self.machines[name].engine
        assert isinstance(engine, Evs)
        return engine

    def count(self) -> list[int]:
        return [len(self.installed[name]) for name in self.machines]


def formed(names: Sequence[str], seed: int = 1) -> Watched:
    """Processes that have formed a configuration, and let the token rest."""
    world = Watched(names, seed)
    world.start()
    world.run_for(2.0)
    assert {world.members(name) for name in names} == {tuple(names)}
    return world


# --- coming together

TWENTY = [f"p{number:02}" for number in range(20)]


@pytest.mark.parametrize("within", [0.0, 0.05])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_twenty_that_start_together_form_one_configuration_at_once(seed: int, within: float) -> None:
    world = Watched(TWENTY, seed)
    for name in TWENTY:
        world.at(world.random.random() * within, lambda name=name: world.start(name))
    world.run_for(1.0)
    assert {world.members(name) for name in TWENTY} == {tuple(TWENTY)}
    assert max(world.count()) <= 3, "each alone, and then all; some perhaps in between"
    world.run_for(5.0)
    assert max(world.count()) <= 3, "and there they stay"


def test_rings_that_were_apart_merge_into_one() -> None:
    world = Watched("abcdef")
    cut = world.partition("abc", "def")
    world.start()
    world.run_for(2.0)
    assert [world.members(name) for name in "af"] == [("a", "b", "c"), ("d", "e", "f")]
    before = world.count()
    world.mend(cut)
    world.run_for(2.0)
    assert {world.members(name) for name in "abcdef"} == {tuple("abcdef")}
    assert [after - count for after, count in zip(world.count(), before, strict=True)] == [1] * 6


def test_a_process_that_crashes_is_given_up_and_comes_back() -> None:
    world = formed("abcd")
    world.crash("b")
    world.run_for(3.0)
    assert {world.members(name) for name in "acd"} == {("a", "c", "d")}
    world.start("b")
    world.run_for(2.0)
    assert {world.members(name) for name in "abcd"} == {tuple("abcd")}


def test_a_process_that_leaves_is_not_waited_for() -> None:
    world = formed("abc")
    world.machines["b"].leave()
    world.run_for(0.1)
    assert {world.members(name) for name in "ac"} == {("a", "c")}


# --- not there for a while


@pytest.mark.parametrize("pause", [0.5, 1.0, 5.0])
def test_who_was_paused_suspects_nobody(pause: float) -> None:
    world = formed("abcd")
    for name in "abcd":
        world.send(name, 5)
    world.pause("b", pause)
    world.run_for(pause)
    world.joins.clear()
    world.run_for(3.0)
    assert all(not join.failed for name, join in world.joins if name == "b")
    assert {world.members(name) for name in "abcd"} == {tuple("abcd")}


def test_a_pause_shorter_than_the_loss_of_the_token_changes_nothing() -> None:
    world = formed("abcd")
    before = world.count()
    for name in "abcd":
        world.pause(name, 0.6 * LOSS_S)
        world.run_for(2.0)
    assert world.count() == before


# --- in one direction only

UNREST_MAX_S = ATTEMPTS_MAX * (CONSENSUS_S + COMMIT_S)
"""A process that finds no configuration with others is in one by itself after that time at the latest."""


def longest_unrest(world: World, seconds: float) -> dict[str, float]:
    """Let time pass; return how long each process was without a configuration at most.

    It may be in one for a moment only: others ask it to gather again.
    """
    longest = dict.fromkeys(world.machines, 0.0)
    since = dict.fromkeys(world.machines, world.now)
    set_out = Membership._set_out

    def note(membership: Membership, now: float) -> None:
        since[membership.engine.address] = world.now
        set_out(membership, now)

    end = world.now + seconds
    with patch.object(Membership, "_set_out", note):
        while world.now < end:
            world.run_for(0.05)
            for name, machine in world.machines.items():
                assert isinstance(machine.engine, Evs)
                if machine.engine.membership.state is State.OPERATIONAL:
                    since[name] = world.now
                longest[name] = max(longest[name], world.now - since[name])
    return longest


Cut = tuple[str, str]


def all_cuts(names: str) -> list[tuple[Cut, ...]]:
    pairs = [(a, b) for a in names for b in names if a != b]
    return [cuts for count in range(len(pairs) + 1) for cuts in combinations(pairs, count)]


def cut_all(world: World, cuts: Iterable[Cut]) -> list[int]:
    return [world.cut_one_way([a], [b]) for a, b in cuts]


def check_unrest(names: str, cuts: Sequence[Cut], seconds: float, before: bool) -> None:
    """Whoever cannot reach whom: nobody is without a configuration for long, and when the cuts end all are in one."""
    world = Watched(names) if before else formed(names)
    made = cut_all(world, cuts)
    world.start()
    unrest = longest_unrest(world, seconds)
    assert max(unrest.values()) <= UNREST_MAX_S, unrest
    for cut in made:
        world.mend(cut)
    world.run_for(4.0)
    assert {world.members(name) for name in names} == {tuple(names)}


@pytest.mark.parametrize("before", [True, False], ids=["from the beginning", "later"])
def test_nobody_is_without_a_configuration_for_long_whichever_of_three_hears_whom(before: bool) -> None:
    for cuts in all_cuts("abc"):
        check_unrest("abc", cuts, 20.0, before)


@pytest.mark.parametrize("cuts", [["ab", "bc", "ca"], ["bc", "cb"], ["bc"]], ids="".join)
def test_nor_for_long_times(cuts: list[str]) -> None:
    check_unrest("abc", [(cut[0], cut[1]) for cut in cuts], 150.0, before=True)


def test_nor_among_four_that_hear_each_other_at_random() -> None:
    chance = Random(1994)
    pairs = [(a, b) for a in "abcd" for b in "abcd" if a != b]
    for _ in range(60):
        cuts = [pair for pair in pairs if chance.random() < chance.choice((0.2, 0.5))]
        check_unrest("abcd", cuts, 20.0, before=chance.random() < 0.5)


def test_a_member_that_does_not_hear_another_gets_its_messages_from_a_third() -> None:
    """a reaches b, b reaches c, c reaches a: the token goes round, and c hears nothing that a sends, or sends again."""
    world = formed("abc")
    world.cut_one_way(["a"], ["c"])
    for _ in range(20):
        world.send("a", 5, "safe")
        world.run_for(1.0)
    assert all(len(world.delivered[name]) == 100 for name in "abc")
    assert {world.members(name) for name in "abc"} == {tuple("abc")}


def test_there_is_an_end_in_bad_weather_too() -> None:
    world = Watched("abcde")
    world.weather(NetworkOptions(delay="rough", loss=0.3, duplicate=0.2, reorder=0.2))
    world.start()
    assert max(longest_unrest(world, 60.0).values()) <= UNREST_MAX_S
    world.weather(NetworkOptions())
    world.run_for(4.0)
    assert {world.members(name) for name in "abcde"} == {tuple("abcde")}


# --- nothing to do


@pytest.mark.parametrize("count", [2, 3, 7])
def test_a_quiet_ring_is_nearly_silent(count: int) -> None:
    world = formed("abcdefg"[:count])
    world.out.clear()
    world.run_for(60.0)
    assert max(world.out.values()) / 60 <= 12, world.out
    assert max(world.count()) == 2, "and stays the same"


def test_a_process_that_is_alone_is_nearly_silent() -> None:
    world = Watched("abc")
    world.start("a")
    world.run_for(1.0)
    world.out.clear()
    world.run_for(60.0)
    assert world.out["a"] / 60 <= 3


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("service", ["agreed", "safe"])
def test_after_a_long_silence_a_message_of_anyone_is_there_within_a_few_delays(count: int, service: str) -> None:
    """An agreed one: ask for the token, have it come, send. A safe one: the token goes round twice besides."""
    names = "abcdefg"[:count]
    world = formed(names)
    delays = 3 if service == "agreed" else 3 + 2 * count
    for name in names:
        for quiet in (5.0, 0.77, 0.3):
            world.run_for(quiet)
            world.delivered.clear()
            begin = world.now
            world.send(name, 1, service)
            world.run_for(delays * DELAY_S)
            assert len(world.delivered) == count, f"from {name} after {quiet} s, at {world.now - begin}"


def test_bursts_of_all_at_once_are_there_soon() -> None:
    names = "abcdefg"
    world = formed(names)
    for _ in range(5):
        world.run_for(1.3)
        world.delivered.clear()
        for name in names:
            world.send(name, 100)
        world.run_for(0.25)
        assert [len(world.delivered[name]) for name in names] == [700] * 7
