"""A world: time passes in order, what befalls one part leaves the others alone, and rest is noticed."""

from collections.abc import Callable

import pytest

from covey.kernel.effects import Append, Cast, Install, Send, Store
from covey.kernel.errors import BrokenInvariant, MisuseError
from covey.sim.model import Model
from covey.sim.network import NetworkOptions
from covey.sim.world import REST_S, World
from tests.sim.probe import Bench, Probe, model

# ---- time ----


def test_what_is_due_happens_in_the_order_of_time_and_ties_in_the_order_of_asking() -> None:
    world = World(0, ["a"], model())
    happened: list[tuple[str, float]] = []
    for name, time in (("x", 2.0), ("y", 1.0), ("z", 2.0), ("late", 3.5)):
        world.at(time, lambda name=name: happened.append((name, world.now)))  # type: ignore[misc]
    world.run_until(3.0)
    assert happened == [("y", 1.0), ("x", 2.0), ("z", 2.0)]
    assert world.now == 3.0
    world.run_for(0.5)
    assert happened[-1] == ("late", 3.5)


class Restless(Probe):
    def wake(self, now: float) -> None:
        """Leave the deadline where it is."""


def test_a_process_that_never_lets_time_pass_is_an_error_and_not_an_endless_loop() -> None:
    bench = Bench("a", engine=Restless)
    bench.wake_at("a", 1.0)
    with pytest.raises(BrokenInvariant, match=r"seed 0: more than 100000 events at 1.0 s"):
        bench.world.run_for(2)


# ---- packets ----


def test_packets_are_counted_when_an_engine_is_given_them() -> None:
    bench = Bench("a b c")
    bench.do("a", Send("b", b"1"), Send("b", b"2"), Cast(b"3"))
    assert bench.world.packets == 0
    bench.world.run_for(1)
    assert bench.world.packets == 4


@pytest.mark.parametrize("burst", [False, True])
def test_every_packet_is_given_to_an_engine_or_is_counted_under_a_name(burst: bool) -> None:
    bench = Bench("a b c d", burst=burst)
    world = bench.world
    world.weather(NetworkOptions("rough", loss=0.1, reorder=0.2, refuse=0.5, bandwidth=4_000.0))
    world.partition(["a"], ["b"])
    world.pause("c", 3.0)
    world.pause("d", 3.0)
    world.at(1.5, lambda: world.crash("d"))
    sent = 0
    for _ in range(200):
        sends = [Send("b", b"x" * 50), Send("nowhere", b""), Send("d", b""), *[Send("c", b"")] * 15]
        bench.do("a", *sends)
        sent += len(sends)
        world.run_for(0.01)
    world.run_for(10)
    lost = world.network.lost
    assert sent == world.packets + lost.total()
    assert set(lost) == {
        "cut",
        "loss",
        "queue",
        "no such address",
        "process down",
        "socket full",
        "socket of a crashed process",
    }


def test_a_cast_leaves_its_sender_once_whoever_listens() -> None:
    bench = Bench("a b c d")
    bench.world.weather(NetworkOptions("instant", bandwidth=1000.0))
    bench.do("a", Cast(b"x" * 100))
    bench.world.run_for(0.11)
    assert [bench[name].packets for name in "bcd"] == [[b"x" * 100]] * 3


# ---- faults that end ----


def reach(bench: Bench, source: str, to: str) -> bool:
    before = len(bench[to].packets)
    bench.do(source, Send(to, b"?"))
    bench.world.run_for(0.1)
    return len(bench[to].packets) > before


def test_a_partition_keeps_its_sides_apart_and_whom_it_does_not_name_reaches_all() -> None:
    bench = Bench("a b c d e")
    cut = bench.world.partition(["a", "b"], ["c"], ["d"])
    apart = {(source, to) for source in "abcde" for to in "abcde" if source != to and not reach(bench, source, to)}
    assert apart == {(x, y) for x in "abcd" for y in "abcd" if x != y} - {("a", "b"), ("b", "a")}
    bench.world.mend(cut)
    assert all(reach(bench, source, to) for source in "abcde" for to in "abcde" if source != to)


def test_a_one_way_cut_silences_one_direction() -> None:
    bench = Bench("a b c")
    bench.world.cut_one_way(["a"], ["b", "c"])
    assert [reach(bench, *pair) for pair in ("ab", "ac", "ba", "ca", "bc")] == [False, False, True, True, True]


def test_calm_ends_all_faults_and_everybody_is_up() -> None:
    bench = Bench("a b c d e")
    world = bench.world
    world.partition(["a"], ["b", "c"])
    world.weather(NetworkOptions("wan", loss=1.0))
    world.clock("a", 3.0)
    world.pause("b", 1000)
    world.crash("c")
    world.rob("d")
    world.crash("e", after=2)
    world.run_for(1)
    world.calm()
    assert all(reach(bench, source, to) for source in "abcde" for to in "abcde" if source != to)
    assert world.healed
    before = world.machine("a").clock
    world.run_for(1)
    assert world.machine("a").clock - before == pytest.approx(1.0)
    bench.do("e", *[Send("a", b"x")] * 9)
    assert len(world.up) == 5


def test_a_cast_to_some_reaches_just_them_where_the_network_does_not_multicast() -> None:
    for multicast, heard in ((False, [[], [b"1"], []]), (True, [[], [b"1"], [b"1"]])):
        bench = Bench("a b c", multicast=multicast)
        bench.do("a", Cast(b"1", ("a", "b")))
        bench.world.run_for(1)
        assert [bench[name].packets for name in "abc"] == heard


def test_a_cast_to_nobody_by_name_reaches_all_and_one_to_a_stranger_is_counted() -> None:
    bench = Bench("a b c")
    bench.do("a", Cast(b"1"), Cast(b"2", ("z",)))
    bench.world.run_for(1)
    assert [bench[name].packets for name in "abc"] == [[], [b"1"], [b"1"]]
    assert bench.world.network.lost == {"no such address": 1}


# ---- what applications send ----


def test_what_applications_send_is_numbered_and_remembered_as_far_as_it_was_taken() -> None:
    class Half(Probe):
        def submit(self, now: float, batch: object, service: str = "") -> int:
            return 2

    bench = Bench("a b", engine=Half)
    bench.world.send("a", 3)
    bench.world.send("b", 2)
    assert [(str(sender), message) for sender, message in bench.world.sent] == [
        ("a/1", b"0"),
        ("a/1", b"1"),
        ("b/1", b"3"),
        ("b/1", b"4"),
    ]


@pytest.mark.parametrize("fault", [lambda world: world.crash("a"), lambda world: world.pause("a", 9)])
def test_an_application_whose_process_does_not_run_sends_nothing(fault: Callable[[World], None]) -> None:
    bench = Bench()
    fault(bench.world)
    bench.world.send("a", 3)
    assert bench.world.sent == []


# ---- rest ----


def test_a_world_settles_when_it_has_been_at_rest_for_a_while() -> None:
    world = World(0, ["a"], Model("evs", model().build, lambda engines, _: world.now >= 3.0, model().messages))
    world.start()
    world.settle(60)
    assert 3.0 + REST_S - 0.5 <= world.now <= 3.0 + REST_S


def test_a_world_that_does_not_come_to_rest_is_waited_for_no_longer_than_asked() -> None:
    world = World(0, ["a"], Model("evs", model().build, lambda *_: False, model().messages))
    world.start()
    world.settle(7)
    assert (world.now, world.settled, world.is_at_rest()) == (7.0, True, False)


def test_rest_is_asked_of_each_component_of_what_is_up() -> None:
    asked: list[list[str]] = []

    def at_rest(engines: object, names: object) -> bool:
        asked.append([engine.me.name for engine in engines])  # type: ignore[attr-defined]
        assert names == list("abcde")
        return True

    world = World(0, list("abcde"), Model("evs", model().build, at_rest, model().messages))
    world.start()
    world.crash("e")
    world.partition(["a", "b"], ["c", "d", "e"])
    world.cut_one_way(["c"], ["d"])
    assert world.is_at_rest()
    assert asked == [["a", "b"], ["c"], ["d"]]
    assert not world.healed


# ---- looking ----


def test_who_watches_is_told_of_all_but_packets() -> None:
    bench = Bench("a")
    seen: list[object] = []
    bench.world.watchers.append(lambda machine, what: seen.append(what))
    shown = [Store("k", b"v"), Append(b"r"), Install("v1", 1, ("a/1",))]
    bench.do("a", *shown, Send("a", b"x"), Cast(b"y"))
    assert seen == shown
    assert bench.world.configs == {("", "v1")}


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        ([], "different names, not none"),
        (["a", "b", "a"], "different names, not a b a"),
        (["a~2"], "'a~2' is no name"),
        (["a b"], "'a b' is no name"),
        (["for", "b"], "'for' is no name"),
        (["#1"], "'#1' is no name"),
    ],
)
def test_a_world_needs_names_that_differ_and_can_be_written_in_a_scenario(members: list[str], complaint: str) -> None:
    with pytest.raises(MisuseError, match=complaint):
        World(0, members, model())


def test_an_unknown_machine_is_named_with_those_that_there_are() -> None:
    with pytest.raises(MisuseError, match="no machine 'z'; there are a, b"):
        Bench().world.crash("z")


def test_a_clock_that_stands_still_is_refused() -> None:
    with pytest.raises(MisuseError, match="above 0"):
        Bench().world.clock("a", 0.0)
