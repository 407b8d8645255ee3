"""One run: what it says of itself, and that its trace is whole."""

from collections.abc import Sequence
from typing import Any

import pytest

from covey.kernel.effects import Install
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.errors import BrokenInvariant
from covey.sim.model import Model
from covey.sim.run import Outcome, play, run
from covey.sim.scenario import parse
from covey.sim.world import World
from covey.trace import JsonLinesSink, MemorySink, Recorder, check_trace
from tests.sim.probe import Probe, model


class Viewer(Probe):
    """Installs a view at its start."""

    def start(self, now: float) -> None:
        self.out.append(Install(f"v{self.me.incarnation}", self.me.incarnation, (str(self.me),)))


class Breaks(Viewer):
    def check(self) -> None:
        raise BrokenInvariant("the state is one that the paper forbids")


class Fails(Viewer):
    def start(self, now: float) -> None:
        raise KeyError("nobody")


def restless(engines: Sequence[Engine], names: Sequence[str]) -> bool:
    return False


SCENARIO = parse("members a b\nseed 9\n0 start\n1 crash a\n2 start a\n3 settle 10\n")


def header(sink: MemorySink) -> dict[str, Any]:
    (found,) = (row for row in sink.rows if row["event"] == "run")
    return found


def test_a_good_run_says_what_it_was() -> None:
    sink = MemorySink()
    outcome = run(SCENARIO, model(Viewer), Recorder(sink), "r")
    assert outcome == Outcome(seed=9, packets=0, seconds=5.0, views=2)
    assert (outcome.failed, outcome.why) == (False, "")
    assert header(sink) == {
        "run": "r",
        "process": "",
        "incarnation": 1,
        "index": 0,
        "time_ns": 0,
        "group": "",
        "event": "run",
        "model": ["evs"],
        "complete": True,
        "healed": True,
        "universe": ["a", "b"],
    }


def test_a_broken_invariant_ends_the_run_and_its_trace_is_not_complete() -> None:
    sink = MemorySink()
    outcome = run(SCENARIO, model(Breaks), Recorder(sink))
    assert (outcome.failed, outcome.why) == (True, "the state is one that the paper forbids")
    assert header(sink)["complete"] is False
    assert [row["event"] for row in sink.rows if row["process"]] == ["start", "config"]


def test_with_checking_off_no_invariant_is_asked() -> None:
    assert not run(SCENARIO, model(Breaks), checking=False).failed


def test_an_error_of_an_engine_is_told_with_its_place() -> None:
    outcome = run(SCENARIO, model(Fails))
    assert outcome.failed
    assert outcome.why.startswith("KeyError: 'nobody' at test_run.py:")


def test_a_run_that_was_let_come_to_rest_and_did_not_has_failed() -> None:
    sink = MemorySink()
    outcome = run(SCENARIO, Model("evs", model(Viewer).build, restless, model().messages), Recorder(sink))
    assert (outcome.failed, outcome.why) == (True, "did not come to rest")
    assert header(sink)["complete"] is True


@pytest.mark.parametrize(
    ("steps", "complete", "healed"),
    [
        ("0 start\n9 settle 9\n", True, True),
        ("0 start\n9 cut a | b\n9 settle 9\n", True, False),
        ("0 start\n9 settle 9\n9 crash a\n", False, False),
        ("0 start\n9 calm\n", False, False),
    ],
)
def test_the_header_says_whether_liveness_may_be_judged(steps: str, complete: bool, healed: bool) -> None:
    sink = MemorySink()
    run(parse(f"members a b\n{steps}"), model(Viewer), Recorder(sink))
    assert (header(sink)["complete"], header(sink)["healed"]) == (complete, healed)


def test_a_function_is_a_scenario_too() -> None:
    def script(world: World) -> None:
        world.start()
        world.run_for(3)
        world.crash("a")
        world.settle(10)

    sink = MemorySink()
    outcome = play(script, World(4, ["a", "b"], model(Viewer), recorder=Recorder(sink)))
    assert outcome == Outcome(seed=4, seconds=5.0, views=1)
    assert header(sink)["complete"] is True


def test_a_run_that_breaks_after_it_settled_is_not_complete() -> None:
    def script(world: World) -> None:
        world.start()
        world.settle(10)
        raise BrokenInvariant("later")

    sink = MemorySink()
    assert play(script, World(4, ["a", "b"], model(Viewer), recorder=Recorder(sink))).why == "later"
    assert header(sink)["complete"] is False


def test_who_watches_sees_the_world_before_anything_happens() -> None:
    seen = []
    run(SCENARIO, model(Viewer), watch=lambda world: seen.append((world.now, world.up)))
    assert seen == [(0.0, [])]


def test_the_trace_of_a_run_can_be_trusted(tmp_path: Any) -> None:
    with Recorder(JsonLinesSink(tmp_path / "run.jsonl")) as recorder:
        for number, text in enumerate(("1 crash a\n2 start a\n", "1 rob b\n2 start b\n", "1 leave a\n")):
            scenario = parse(f"members a b c\n0 start\n{text}3 settle 10\n")
            run(scenario, model(Viewer), recorder, f"run {number}")
    check_trace(tmp_path)


def test_engines_are_built_with_the_options_of_the_run_on_a_network_that_multicasts_or_not() -> None:
    built = []
    usual = model()

    def build(around: Surroundings, addresses: Sequence[str], options: Sequence[str]) -> Engine:
        built.append((around.address, list(addresses), tuple(options)))
        return usual.build(around, addresses, options)

    worlds: list[World] = []
    for line, multicasts in (("", False), ("multicast on\n", True)):
        scenario = parse(f"members a b\nwith dynamic\n{line}0 start b\n")
        run(scenario, usual._replace(build=build), watch=worlds.append)
        assert (built.pop(), worlds.pop().multicast) == (("b", ["a", "b"], ("dynamic",)), multicasts)
