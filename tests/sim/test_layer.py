"""What lies above a stack: it is shown all that the application is told, and what it lets through is a second run."""

from pathlib import Path
from typing import Any

from covey.kernel.effects import Deliver, Halt, Install, Note, Send
from covey.kernel.ids import ProcessId
from covey.kernel.layer import Passed
from covey.sim.run import run
from covey.sim.scenario import parse
from covey.sim.world import World
from covey.trace import JsonLinesSink, MemorySink, Recorder, read_checked
from tests.sim.probe import Probe, model

ME = ProcessId("a", 1)


class Even:
    """Lets through the configurations of even number; each begins an incarnation, and an odd one ends it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.shown: list[Any] = []
        self.incarnation = 0
        self.is_in = False

    def see(self, effect: Deliver | Install | Note) -> list[Passed]:
        self.shown.append(effect)
        if not isinstance(effect, Install):
            return []
        if effect.seq % 2:
            return self.leave("fail")
        self.is_in = True
        self.incarnation += 1
        members = [f"{self.name}/{self.incarnation}"]
        view = {"config": effect.config, "seq": effect.seq, "members": members}
        return [Passed(self.incarnation, "start", {}), Passed(self.incarnation, "config", view)]

    def end(self, event: str) -> list[Passed]:
        self.shown.append(event)
        return self.leave(event)

    def leave(self, event: str) -> list[Passed]:
        was_in, self.is_in = self.is_in, False
        return [Passed(self.incarnation, event, {"config": "last"})] if was_in else []


LAYERED = model()._replace(layer=("vs", Even))


class Bench:
    def __init__(self) -> None:
        self.sink = MemorySink()
        self.world = World(0, ["a", "b"], LAYERED, recorder=Recorder(self.sink))
        self.world.start()

    def do(self, *effects: Any) -> None:
        self.world.machine("a").submit(effects)

    @property
    def layer(self) -> Even:
        layer = self.world.machine("a").layer
        assert isinstance(layer, Even)
        return layer

    def told(self, run: str) -> list[tuple[str, str]]:
        rows = (row for row in self.sink.rows if row["run"] == run and row["process"] != "b")
        return [(f"{row['process']}/{row['incarnation']}", row["event"]) for row in rows]


def view(seq: int) -> Install:
    return Install(f"v{seq}", seq, ("a",))


def test_a_layer_is_shown_what_the_application_is_told_and_how_the_process_ends() -> None:
    bench = Bench()
    shown = [view(1), Deliver(ME, 1, [b"x"], "v1"), Deliver(ME, 2, [b"y"]), Note("state", {"digest": "d"})]
    bench.do(*shown, Send("b", b"not this"))
    bench.world.crash("a")
    bench.world.start()
    bench.do(Halt("left", restart=False))
    assert bench.layer.shown == [*shown, "fail", "stop"]


def test_what_it_lets_through_has_incarnations_of_its_own_over_those_of_the_process() -> None:
    bench = Bench()
    bench.do(view(1), view(2), view(3), view(4))
    bench.world.crash("a")
    bench.world.start()
    bench.do(view(6), Halt("left", restart=False))
    events = ["start", "config", "fail"]
    assert bench.told("run.vs") == [
        *(("a/1", event) for event in events),
        *(("a/2", event) for event in events),
        *(("a/3", event) for event in ("start", "config", "stop")),
    ]
    assert [pid for pid, event in bench.told("run") if event == "start"] == ["a/1", "a/2"]


def test_a_row_stands_behind_the_one_that_it_comes_from_at_the_same_time() -> None:
    bench = Bench()
    bench.world.run_for(1.5)
    bench.do(view(2), Note("state", {"digest": "d"}))
    bench.world.crash("a")
    rows = [row for row in bench.sink.rows if row["process"] == "a"][1:]
    assert [(row["run"], row["event"]) for row in rows] == [
        ("run", "config"),
        ("run.vs", "start"),
        ("run.vs", "config"),
        ("run", "state"),
        ("run", "fail"),
        ("run.vs", "fail"),
    ]
    assert {row["time_ns"] for row in rows} == {1_500_000_000}
    assert rows[-1]["config"] == "last"


def test_who_comes_back_under_a_fresh_name_has_another_layer() -> None:
    bench = Bench()
    bench.do(view(2))
    bench.world.rob("a")
    bench.world.start()
    bench.do(view(4))
    assert (bench.layer.name, bench.layer.incarnation) == ("a~2", 1)
    assert bench.told("run.vs")[-2:] == [("a~2/1", "start"), ("a~2/1", "config")]


class Viewer(Probe):
    def start(self, now: float) -> None:
        self.out.append(Install(f"{self.me}", 2 * self.me.incarnation, (self.me.name,)))


def test_both_runs_are_whole_traces_with_headers_that_say_the_same(tmp_path: Path) -> None:
    scenario = parse("members a b\n0 start\n1 crash a\n2 rob b\n3 start\n4 settle 10\n")
    with Recorder(JsonLinesSink(tmp_path / "run.jsonl")) as recorder:
        outcome = run(scenario, model(Viewer)._replace(layer=("vs", Even)), recorder, "r")
    assert not outcome.failed
    headers = [row.columns for row in read_checked(tmp_path) if row.event == "run"]
    assert [(header["run"], header["model"]) for header in headers] == [("r", ["evs"]), ("r.vs", ["vs"])]
    for header in headers:
        assert (header["complete"], header["healed"], header["universe"]) == (True, True, ["a", "b"])
