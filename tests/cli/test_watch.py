"""What is seen of a run: everything that a picture shows, and without a trace in the run itself."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from covey.cli.models import MODELS
from covey.cli.picture import MARKS
from covey.cli.show import play_watched
from covey.cli.watch import Event
from covey.kernel.effects import Install
from covey.sim.generate import generate
from covey.sim.run import run
from covey.sim.scenario import Scenario, parse
from covey.trace import MemorySink, Recorder
from tests.sim.probe import Probe, model

ISIS = MODELS["isis85"]


def watched(steps: str, members: str = "a b c") -> list[Event]:
    return play_watched(parse(f"members {members}\n0 start\n{steps}"), ISIS).events


def told(events: Sequence[Event], *kinds: str) -> list[tuple[float, str, str]]:
    return [(event.at, event.kind, event.who or event.text) for event in events if event.kind in kinds]


MERGE = (Path(__file__).parents[1] / "scenarios" / "partition-and-merge.txt").read_text()


@pytest.mark.parametrize("scenario", [parse(MERGE), *map(generate, range(12))], ids=lambda scenario: str(scenario.seed))
def test_a_watched_run_is_the_same_run(scenario: Scenario) -> None:
    alone, watched = MemorySink(), MemorySink()
    outcome = run(scenario, ISIS, Recorder(alone))
    assert play_watched(scenario, ISIS, Recorder(watched)).outcome == outcome
    assert watched.rows == alone.rows


@pytest.mark.parametrize("seed", range(8))
def test_views_lives_and_deaths_are_those_of_the_trace(seed: int) -> None:
    sink = MemorySink()
    events = play_watched(generate(seed), ISIS, Recorder(sink)).events
    for kind, name in {"view": "config", "start": "start", "fail": "fail", "stop": "stop"}.items():
        rows = [row["process"] for row in sink.rows if row["event"] == name]
        assert sorted(event.who.partition("/")[0] for event in events if event.kind == kind) == sorted(rows)


def test_a_member_is_called_by_its_incarnation_from_its_second_life_on() -> None:
    events = watched("2 crash b\n3 start b\n4 settle 20")
    assert told(events, "fail") == [(2.0, "fail", "b")]
    assert told(events, "start")[-1] == (3.0, "start", "b/2")
    last = [event for event in events if event.kind == "view"][-1]
    assert last.members == ("a", "b/2", "c")


def test_a_view_manager_proposes_and_the_others_save_it() -> None:
    events = watched("2 settle 20")
    manager, *others = told([event for event in events if event.number == 0], "propose", "accept")
    assert manager[1:] == ("propose", "a")
    assert sorted(other[1:] for other in others) == [("accept", "b"), ("accept", "c")]


def test_a_cut_is_told_when_it_begins_and_when_it_ends() -> None:
    events = watched("2 cut a | b c for 1.5")
    assert told(watched("2 cut a | b c for 1.5\n4 calm"), "cut", "mend") == [
        (2.0, "cut", "cut: a | b c for 1.5"),
        (3.5, "mend", ""),
    ]
    cut = next(event for event in events if event.kind == "cut")
    assert cut.cuts == {("a", "b"), ("a", "c"), ("b", "a"), ("c", "a")}


def test_a_cut_that_changes_nothing_is_told_all_the_same() -> None:
    assert told(watched("2 cut a | b c\n3 cut a > b for 2\n9 calm"), "cut", "note", "mend") == [
        (2.0, "cut", "cut: a | b c"),
        (3.0, "note", "cut: a > b for 2"),
        (9.0, "note", "calm: all faults end"),
        (9.0, "mend", ""),
        (9.0, "note", "the scenario ends"),
    ]


def test_a_site_that_was_given_up_is_seen_to_halt_and_to_start_again() -> None:
    events = watched("2 cut a | b c for 4\n7 settle 20")
    assert [event.text for event in events if event.kind == "halt"] == ["you are dead"]
    assert told(events, "start")[-1][2] == "a/2"


STEPS = [
    ("2 pause b for 0.5\n9 settle 9", [(2.0, "pause", "b"), (2.5, "resume", "b")]),
    ("2 pause b for 7\n3 calm", [(2.0, "pause", "b"), (3.0, "resume", "b"), (3.0, "note", "calm: all faults end")]),
    ("2 leave b", [(2.0, "stop", "b")]),
    ("2 rob b", [(2.0, "fail", "b"), (2.0, "rob", "b")]),
    ("2 clock b 1.5", [(2.0, "clock", "the clock of b runs at 1.5 times the speed")]),
    ("2 jump b 3", [(2.0, "clock", "the clock of b jumps 3 s ahead")]),
    ("2 weather wan loss 0.1", [(2.0, "note", "weather: wan loss 0.1")]),
    ("2 send b 40", [(2.0, "send", "b")]),
    ("2 crash b\n3 send b 40", [(2.0, "fail", "b")]),
]


@pytest.mark.parametrize(("steps", "expected"), STEPS, ids=[steps for steps, _ in STEPS])
def test_each_step_is_told(steps: str, expected: list[tuple[float, str, str]]) -> None:
    kinds = {*MARKS, "note"} - {"start", "view", "propose", "accept", "deliver", "halt"}
    events = [event for event in watched(steps) if event.text not in ("the scenario ends", "all have come to rest")]
    assert told(events, *kinds) == expected


def test_messages_are_seen_to_arrive() -> None:
    events = watched("2 send b 40\n3 settle 20")
    assert {event.member for event in events if event.kind == "deliver"} == {"a", "c"}


def test_the_weather_of_the_scenario_is_told_first() -> None:
    events = play_watched(parse("members a\nweather wan loss 0.1\n0 start"), ISIS).events
    assert told(events, "note")[0] == (0.0, "note", "weather: wan loss 0.1")


@pytest.mark.parametrize(
    ("steps", "kind", "text"),
    [
        ("5 settle 20", "rest", "all have come to rest"),
        ("1 weather lan loss 1\n5 settle 9", "broken", "did not come to rest"),
        ("5 crash a", "note", "the scenario ends"),
    ],
)
def test_a_run_ends_with_how_it_ended(steps: str, kind: str, text: str) -> None:
    last = watched(steps)[-1]
    assert (last.kind, last.text) == (kind, text)


class Ring(Probe):
    """Installs a transitional configuration between two regular ones, whose members are names."""

    def start(self, now: float) -> None:
        self.out.append(Install("2.a", 2, ("a", "b")))
        self.out.append(Install("2.a>4.a", 3, ("a", "b"), kind="transitional", previous="2.a"))
        self.out.append(Install("4.a", 4, ("a", "b")))


def test_views_are_the_regular_configurations_also_where_members_are_called_by_their_names() -> None:
    events = play_watched(parse("members a b\n0 start a\n1 ask a what\n"), model(Ring)).events
    views = [(event.number, event.members) for event in events if event.kind == "view"]
    assert views == [(2, ("a", "b")), (4, ("a", "b"))]
    assert told(events, "note")[0] == (1.0, "note", "ask a what")
