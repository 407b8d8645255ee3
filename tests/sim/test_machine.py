"""The simulated host keeps the duties of a host (`covey.kernel.engine`), and ends a process wherever it is told to."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from covey.kernel.effects import Append, Cast, Deliver, Effect, Halt, Install, Note, Send, Store
from covey.kernel.errors import BrokenInvariant
from covey.kernel.ids import ProcessId
from covey.sim.machine import BURST_S, INBOX_MAX, PAUSE_S, RESTART_S, Life, Machine
from covey.sim.network import NetworkOptions
from covey.sim.world import World
from tests.sim.probe import Bench, Probe

ME = ProcessId("a", 1)
VIEW = Install("v1", 1, ("a/1", "b/1"))
WHOLE_LIST = [
    Store("k", b"1"),
    Append(b"r1"),
    Send("b", b"1"),
    Deliver(ME, 1, [b"m"], "v1"),
    Store("k", b"2"),
    VIEW,
    Send("b", b"2"),
    Append(b"r2"),
    Note("flush", {}),
    Store("k", b"3"),
]


class Log:
    """What happened to one process, in order: what it did, and what reached the others."""

    def __init__(self, bench: Bench) -> None:
        self.seen: list[Effect | Life] = []
        bench.world.watchers.append(self._saw)
        carry = bench.world.carry

        def carried(source: str, to: str, packet: bytes) -> None:
            self.seen.append(Send(to, packet))
            carry(source, to, packet)

        bench.world.carry = carried  # type: ignore[method-assign]

    def _saw(self, machine: Machine, what: Effect | Life) -> None:
        self.seen.append(what)


# ---- effects ----


def test_effects_are_carried_out_in_their_order() -> None:
    bench = Bench()
    log = Log(bench)
    bench.do("a", *WHOLE_LIST)
    assert log.seen == WHOLE_LIST


@pytest.mark.parametrize("at_once", [True, False], ids=["in one list", "each in a list of its own"])
@pytest.mark.parametrize("position", range(len(WHOLE_LIST) + 1))
@pytest.mark.parametrize("kept", [0.0, 0.6, 1.0])
def test_between_any_two_effects_a_process_can_crash_and_keeps_all_that_it_told_of(
    position: int, kept: float, at_once: bool
) -> None:
    """A Store before a Send is durable once the Send is done; of what no other effect followed, a beginning may be."""
    bench = Bench()
    log = Log(bench)
    bench.world.crash("a", after=position, kept=kept)
    effects = [*WHOLE_LIST, Send("b", b"never")]
    for part in [effects] if at_once else [[effect] for effect in effects]:
        if bench.world.machine("a").engine is not None:
            bench.do("a", *part)
    assert log.seen == [*WHOLE_LIST[:position], Life("fail")]
    done = WHOLE_LIST[:position]
    told = max((place for place, effect in enumerate(done) if not isinstance(effect, Store | Append)), default=-1)
    disk = bench.world.machine("a").disk
    found = disk.get("k"), disk.log()
    assert found in [contents(done[:upto]) for upto in range(told + 1, len(done) + 1)]
    if at_once and kept in (0.0, 1.0):
        assert found == contents(done if kept else done[: told + 1])
    elif not at_once:
        assert found == contents(done), "a list that is done is durable"


def contents(effects: list[Effect]) -> tuple[bytes | None, list[bytes]]:
    """What these effects leave on a disk."""
    values = [effect.value for effect in effects if isinstance(effect, Store)]
    return values[-1] if values else None, [effect.record for effect in effects if isinstance(effect, Append)]


class Opening(Probe):
    opening = (Store("k", b"1"), Send("b", b"1"), Send("b", b"2"))


@pytest.mark.parametrize("position", [1, 2])
def test_a_process_can_crash_among_the_effects_of_its_start(position: int) -> None:
    bench = Bench(engine=Opening)
    bench.world.crash("a")
    bench.world.crash("a", after=position)
    log = Log(bench)
    bench.world.start("a")
    assert log.seen == [Life("start"), *Opening.opening[:position], Life("fail")]


def test_a_fuse_burns_over_several_lists_and_only_while_the_process_lives() -> None:
    bench = Bench()
    bench.world.crash("a", after=3)
    bench.do("a", Send("b", b"1"), Send("b", b"2"))
    bench.do("a", Send("b", b"3"))
    assert [machine.address for machine in bench.world.up] == ["a", "b"]
    bench.do("a", Send("b", b"4"))
    bench.world.run_for(1)
    assert sorted(bench["b"].packets) == [b"1", b"2", b"3"]
    bench.world.start("a")
    bench.do("a", Send("b", b"5"))
    bench.world.run_for(1)
    assert bench["b"].packets[3:] == [b"5"], "the fuse is burnt"


def test_an_application_that_sends_while_it_is_delivered_to_waits_its_turn() -> None:
    bench = Bench()
    bench.world.watchers.append(
        lambda machine, what: bench.do("a", Send("b", b"reply")) if isinstance(what, Deliver) else None
    )
    log = Log(bench)
    first = [Deliver(ME, 1, [b"m"]), Store("k", b"promised"), Send("b", b"promise")]
    bench.do("a", *first)
    assert log.seen == [*first, Send("b", b"reply")]


def test_an_engine_is_not_called_any_more_once_its_halt_is_taken() -> None:
    bench = Bench()
    taken = []

    def reply(machine: Machine, what: Any) -> None:
        if isinstance(what, Deliver):
            taken.append(machine.submit([Send("b", b"reply")]))
            machine.leave()
            machine.jump(9.0)

    bench.world.watchers.append(reply)
    engine = bench["a"]
    bench.do("a", Deliver(ME, 1, [b"m"]), Halt("enough", restart=False), Send("b", b"after it"))
    bench.world.run_for(1)
    assert taken == [0]
    assert engine.names == ["start", "submit"]
    assert bench["b"].packets == []


def test_a_process_that_a_watcher_crashes_and_starts_does_nothing_of_its_former_life() -> None:
    bench = Bench(engine=Opening)
    bench.world.run_for(1)
    bench["b"].calls.clear()

    def restart(machine: Machine, what: Any) -> None:
        if isinstance(what, Note):
            bench.world.crash("a")
            bench.world.start("a")

    bench.world.watchers.append(restart)
    bench.do("a", Note("flush", {}), Store("k", b"former"), Send("b", b"former"))
    bench.world.run_for(1)
    assert sorted(bench["b"].packets) == [b"1", b"2"]
    assert bench.world.machine("a").disk.get("k") == b"1"


def test_a_cast_goes_to_all_others_that_listen() -> None:
    bench = Bench("a b c d")
    bench.world.crash("c")
    bench.do("a", Cast(b"hello"))
    bench.world.run_for(1)
    assert [bench[name].packets for name in "abd"] == [[], [b"hello"], [b"hello"]]


def test_an_unknown_effect_is_an_error() -> None:
    with pytest.raises(TypeError, match="no such effect: 'dance'"):
        Bench().do("a", "dance")  # type: ignore[arg-type]


@pytest.mark.parametrize("checking", [True, False])
def test_invariants_are_checked_after_every_input_unless_that_is_off(checking: bool) -> None:
    bench = Bench(checking=checking)
    for _ in range(3):
        bench.do("b", Send("a", b"x"))
    bench.world.run_for(1)
    assert bench["a"].checks == (4 if checking else 0)
    bench["a"].check = lambda: fail()  # type: ignore[method-assign]
    if checking:
        with pytest.raises(BrokenInvariant):
            bench.do("a")
    else:
        bench.do("a")


def fail() -> None:
    raise BrokenInvariant("a bug")


# ---- the trace ----


def test_what_a_process_went_through_is_in_the_trace() -> None:
    bench = Bench("a")
    bench.do("a", VIEW, Deliver(ME, 4, [b"x", b"y"], "v1"), Deliver(ME, 6, [b"z"]), Note("state", {"digest": "d"}))
    bench.world.crash("a")
    bench.world.start()
    bench.do("a", Halt("left", restart=False))
    rows = bench.sink.rows
    assert bench.events == [
        ("a/1", "start"),
        ("a/1", "config"),
        ("a/1", "deliver"),
        ("a/1", "state"),
        ("a/1", "fail"),
        ("a/2", "start"),
        ("a/2", "stop"),
    ]
    view, delivery, state, crash = rows[1:5]
    assert (view["config"], view["seq"], view["kind"], view["members"]) == ("v1", 1, "regular", ["a/1", "b/1"])
    assert (delivery["message"], delivery["count"], delivery["config"]) == ("a/1/4", 2, "v1")
    assert state["digest"] == "d"
    assert crash["config"] == "v1"
    assert [row["recovered"] for row in rows if row["event"] == "start"] == [False, True]
    assert "config" not in rows[6], "its second life was in no configuration"
    assert all(one["index"] < other["index"] for one, other in pairwise(rows))


def test_a_configuration_and_a_delivery_are_written_with_what_their_protocol_has() -> None:
    bench = Bench("a")
    old, new = Install("2.a", 2, ("a",), primary=True, since={"a": 2}), Install("4.a", 4, ("a",), primary=False)
    between = Install("2.a>4.a", 3, ("a",), kind="transitional", previous="2.a")
    bench.do("a", old, Deliver(ME, 4, [b"x", b"y"], "2.a", ordinal=17), between, new)
    first, delivery, transitional, last = bench.sink.rows[1:]
    assert (delivery["ordinal"], delivery["count"]) == (17, 2)
    assert (transitional["kind"], transitional["previous"], "primary" in transitional) == ("transitional", "2.a", False)
    assert [(row["primary"], "previous" in row) for row in (first, last)] == [(True, False), (False, False)]


# ---- halt, restart, loss of the disk ----


def test_a_halt_that_asks_for_it_is_followed_by_the_next_incarnation() -> None:
    bench = Bench()
    bench.do("a", Store("k", b"kept"), Halt("you are dead", restart=True))
    bench.world.run_for(RESTART_S / 2)
    assert bench.world.machine("a").engine is None
    bench.world.run_for(RESTART_S)
    assert str(bench["a"].me) == "a/2"
    assert bench["a"].around.stable.get("k") == b"kept"
    assert bench.events[2:] == [("a/1", "fail"), ("a/2", "start")]


def test_a_crash_in_the_moment_before_a_restart_is_final() -> None:
    bench = Bench()
    bench.do("a", Halt("you are dead", restart=True))
    bench.world.crash("a")
    bench.world.run_for(1)
    assert [machine.address for machine in bench.world.up] == ["b"]


def test_a_halt_without_restart_is_the_end() -> None:
    bench = Bench()
    bench.do("a", Halt("left", restart=False))
    bench.world.run_for(1)
    assert [machine.address for machine in bench.world.up] == ["b"]


def test_a_robbed_machine_comes_back_under_a_name_that_nobody_had_and_keeps_it() -> None:
    bench = Bench()
    bench.do("a", Store("k", b"lost"), Send("b", b"told"))
    for _ in range(2):
        bench.world.rob("a")
        bench.world.start("a")
        assert bench["a"].around.stable.get("k") is None
    bench.world.crash("a")
    bench.world.start("a")
    starts = [
        (f"{row['process']}/{row['incarnation']}", row["recovered"]) for row in bench.sink.rows if "recovered" in row
    ]
    assert starts == [("a/1", False), ("b/1", False), ("a~2/1", False), ("a~3/1", False), ("a~3/2", True)]
    assert bench["a"].around.address == "a"


def test_what_is_up_is_not_started_and_what_is_down_does_not_crash_again() -> None:
    bench = Bench()
    bench.world.start("a")
    bench.world.crash("a")
    bench.world.crash("a")
    assert bench.events == [("a/1", "start"), ("b/1", "start"), ("a/1", "fail")]


def test_packets_to_a_process_that_is_down_are_lost_and_counted() -> None:
    bench = Bench()
    bench.world.crash("b")
    bench.do("a", Send("b", b"1"), Send("nowhere", b"2"))
    bench.world.run_for(1)
    assert bench.world.network.lost == {"process down": 1, "no such address": 1}
    assert bench.world.packets == 0


# ---- pauses ----


def test_a_paused_process_is_told_before_it_is_given_what_came_meanwhile() -> None:
    bench = Bench()
    bench.wake_at("a", 1.5)
    bench.world.run_for(1)
    bench.world.pause("a", 2.0)
    bench.do("b", Send("a", b"x"))
    bench.world.run_for(0.1)
    bench.do("b", Send("a", b"y"))
    bench.world.run_for(1.8)
    bench["a"].calls.clear()
    bench.world.run_for(1)
    assert bench["a"].calls == [
        ("paused", 3.0, 2.0),
        ("receive", 3.0, "b", b"x"),
        ("receive", 3.0, "b", b"y"),
        ("wake", 3.0),
    ]


def test_a_process_is_not_told_of_a_short_pause() -> None:
    bench = Bench()
    bench.world.pause("a", PAUSE_S / 2)
    bench.do("b", Send("a", b"x"))
    bench.world.run_for(1)
    assert bench["a"].names == ["start", "receive"]


def test_a_pause_within_a_pause_does_not_end_it() -> None:
    bench = Bench()
    bench.world.pause("a", 3.0)
    bench.world.run_for(1)
    bench.world.pause("a", 1.0)
    bench.world.run_for(5)
    assert bench["a"].calls[1:] == [("paused", 3.0, 3.0)]


def test_the_pause_of_an_earlier_life_does_not_end_a_later_one() -> None:
    bench = Bench()
    bench.world.pause("a", 2.0)
    bench.world.run_for(1)
    bench.world.crash("a")
    bench.world.start("a")
    bench.world.pause("a", 4.0)
    bench.world.run_for(9)
    assert bench["a"].calls[1:] == [("paused", 5.0, 4.0)]


def test_the_pause_of_an_earlier_life_does_not_make_a_later_one_longer() -> None:
    bench = Bench()
    bench.world.pause("a", 9.0)
    bench.world.run_for(1)
    bench.world.crash("a")
    bench.world.start("a")
    bench.world.pause("a", 2.0)
    bench.world.run_for(3)
    assert bench["a"].calls[1:] == [("paused", 3.0, 2.0)]


def test_a_socket_that_nobody_empties_fills_up_and_counts_what_is_lost() -> None:
    bench = Bench()
    bench.world.pause("a", 1.0)
    bench.do("b", *[Send("a", b"x")] * (INBOX_MAX + 7))
    bench.world.run_for(2)
    assert len(bench["a"].packets) == INBOX_MAX
    assert bench.world.packets == INBOX_MAX
    assert bench.world.network.lost == {"socket full": 7}


def test_what_was_in_the_socket_of_a_process_that_crashes_is_lost_and_counted() -> None:
    bench = Bench()
    bench.world.pause("a", 1.0)
    bench.do("b", *[Send("a", b"x")] * 3)
    bench.world.run_for(0.5)
    bench.world.crash("a")
    bench.world.start("a")
    bench.world.run_for(2)
    assert bench["a"].packets == []
    assert bench.world.network.lost == {"socket of a crashed process": 3}


def test_a_process_that_halts_when_it_is_told_of_its_pause_is_given_nothing_more() -> None:
    bench = Bench()
    engine = bench["a"]
    engine.paused = lambda now, seconds: engine.out.append(Halt("too late", restart=False))  # type: ignore[method-assign]
    bench.world.pause("a", 1.0)
    bench.do("b", Send("a", b"x"))
    bench.world.run_for(2)
    assert engine.packets == []


# ---- clocks ----


@pytest.mark.parametrize(("rate", "expected"), [(0.5, 3.0), (1.0, 2.0), (2.0, 1.5)])
def test_a_deadline_comes_by_the_clock_of_its_own_machine(rate: float, expected: float) -> None:
    """One second of its clock after the first second of the world."""
    bench = Bench()
    bench.world.run_for(1)
    bench.world.clock("a", rate)
    bench.wake_at("a", 2.0)
    woken: list[float] = []
    engine = bench["a"]
    engine.wake = lambda now: (woken.append(bench.world.now), setattr(engine, "deadline", None))  # type: ignore[assignment, method-assign, func-returns-value]
    bench.world.run_for(5)
    assert woken == [pytest.approx(expected)]


def test_the_two_processes_of_a_world_see_their_own_clocks() -> None:
    bench = Bench()
    bench.world.clock("a", 2.0)
    bench.world.run_for(3)
    bench.world.clock("a", 0.5)
    bench.world.run_for(2)
    bench.do("a")
    bench.do("b")
    assert (bench["a"].calls[-1], bench["b"].calls[-1]) == (("submit", 7.0), ("submit", 5.0))


def test_a_deadline_that_was_set_under_another_rate_is_met_all_the_same() -> None:
    bench = Bench()
    bench.wake_at("a", 4.0)
    bench.world.clock("a", 4.0)
    bench.world.run_for(0.5)
    bench.world.clock("a", 0.5)
    bench.world.run_for(3.9)
    assert bench["a"].names == ["start", "submit"]
    bench.world.run_for(0.2)
    assert bench["a"].calls[-1] == ("wake", 4.0)


@pytest.mark.parametrize(
    ("fault", "woken"),
    [(lambda world: world.clock("a", 4.0), 1.25), (lambda world: world.jump("a", PAUSE_S / 2), 2.0 - PAUSE_S / 2)],
)
def test_a_deadline_comes_sooner_when_the_clock_is_ahead(fault: Callable[[World], None], woken: float) -> None:
    bench = Bench()
    bench.wake_at("a", 2.0)
    bench.world.run_for(1)
    fault(bench.world)
    bench.world.run_until(woken - 0.001)
    assert "wake" not in bench["a"].names
    bench.world.run_until(woken + 0.001)
    assert bench["a"].calls[-1] == ("wake", 2.0)


def test_a_jump_of_the_clock_is_told_as_a_pause_and_makes_deadlines_due() -> None:
    bench = Bench()
    bench.wake_at("a", 2.0)
    bench.world.jump("a", 5.0)
    bench.world.run_for(0.1)
    assert bench["a"].calls[2:] == [("paused", 5.0, 5.0), ("wake", 5.0)]


@pytest.mark.parametrize("rates", [(3.0, 0.1, 1.0), (0.1, 7.0, 0.3)])
def test_a_clock_never_goes_back(rates: tuple[float, ...]) -> None:
    bench = Bench()
    for rate in rates:
        bench.world.clock("a", rate)
        for _ in range(20):
            bench.world.run_for(0.013)
            bench.wake_at("a", bench.world.machine("a").clock + 0.005)
    times = [call[1] for call in bench["a"].calls]
    assert times == sorted(times)


# ---- wake-ups and hints ----


def test_an_engine_is_woken_at_its_deadline_and_only_then() -> None:
    bench = Bench()
    bench.wake_at("a", 5.0)
    bench.wake_at("a", 1.0)
    bench.world.run_for(9)
    assert bench["a"].calls[3:] == [("wake", 1.0)]


def test_a_deadline_that_was_given_up_does_not_wake() -> None:
    bench = Bench()
    bench.wake_at("a", 1.0)
    bench.wake_at("a", None)
    bench.world.run_for(9)
    assert "wake" not in bench["a"].names


def test_a_deadline_that_was_put_off_wakes_at_its_new_time() -> None:
    bench = Bench()
    bench.wake_at("a", 1.0)
    bench.wake_at("a", 2.0)
    bench.world.run_for(9)
    assert bench["a"].calls[-1] == ("wake", 2.0)


def test_a_sender_is_given_a_hint_where_a_port_refuses() -> None:
    bench = Bench()
    bench.world.weather(NetworkOptions(refuse=1.0))
    bench.world.crash("b")
    bench.do("a", Send("b", b"x"))
    bench.world.run_for(1)
    assert [call[0::2] for call in bench["a"].calls if call[0] == "hint"] == [("hint", "b")]


def test_leaving_is_up_to_the_engine() -> None:
    bench = Bench()
    bench.world.machine("a").leave()
    assert bench["a"].names == ["start", "leave"]


# ---- bursts ----


def test_in_burst_mode_an_engine_is_given_all_that_came_and_drained_once() -> None:
    bench = Bench(burst=True)
    bench.do("b", *[Send("a", b"%d" % number) for number in range(5)])
    checks = bench["a"].checks
    bench.world.run_for(1)
    assert sorted(bench["a"].packets) == [b"0", b"1", b"2", b"3", b"4"]
    moments = {call[1] for call in bench["a"].calls if call[0] == "receive"}
    assert bench["a"].checks - checks == len(moments) < 5


def test_in_burst_mode_a_socket_is_looked_into_so_long_after_the_first_packet_came() -> None:
    bench = Bench(burst=True)
    bench.world.weather(NetworkOptions("instant"))
    for number, gap in enumerate((0.5, 0.7, 5)):
        bench.do("b", Send("a", b"%d" % number))
        bench.world.run_for(gap * BURST_S)
    times = [call[1] for call in bench["a"].calls if call[0] == "receive"]
    assert times == pytest.approx([BURST_S, BURST_S, 2.2 * BURST_S], rel=0.02)


def test_in_burst_mode_what_waits_in_the_socket_of_a_process_dies_with_it() -> None:
    bench = Bench(burst=True)
    bench.do("b", Send("a", b"x"))
    while not bench.world.machine("a").inbox:
        bench.world.run_for(BURST_S / 10)
    bench.world.crash("a")
    bench.world.start("a")
    bench.world.run_for(1)
    assert bench["a"].packets == []


def test_in_burst_mode_an_engine_may_be_woken_before_its_deadline() -> None:
    bench = Bench(burst=True)
    bench.wake_at("a", 100.0)
    bench.do("b", Send("a", b"x"))
    bench.world.run_for(1)
    assert bench["a"].names == ["start", "submit", "receive", "wake"]
