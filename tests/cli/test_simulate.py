"""`covey simulate`: runs and their traces, in one process or many."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from covey.cli import runs
from covey.cli.main import main
from covey.cli.models import MODELS
from covey.isis.scenarios import at_rest, build, messages
from covey.isis.sites import Sites
from covey.kernel.engine import Surroundings
from covey.kernel.errors import BrokenInvariant
from covey.sim.model import Model
from covey.sim.run import Outcome
from covey.sim.scenario import Scenario, parse
from covey.trace import read_checked


def rows(trace: Path) -> list[dict[str, Any]]:
    return [row.columns for row in read_checked(trace)]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "CHUNK", 3)


# ---- what is written ---------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_each_seed_is_a_run_of_its_name(format: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["simulate", "--model", "isis85", "--seeds", "3:6", "--out", str(out), "--format", format]) == 0
    assert {row["run"] for row in rows(out)} == {"seed-3", "seed-4", "seed-5"}
    assert [file.name for file in out.iterdir()] == [f"seeds-000003-000005.{format}"]


def test_a_single_number_is_one_seed(tmp_path: Path) -> None:
    assert main(["simulate", "--seeds", "17", "--out", str(tmp_path)]) == 0
    assert {row["run"] for row in rows(tmp_path)} == {"seed-17"}


def test_site_views_are_rows_of_no_group_with_their_numbers(tmp_path: Path) -> None:
    assert main(["simulate", "--seeds", "5", "--out", str(tmp_path)]) == 0
    views = [row for row in rows(tmp_path) if row["event"] == "config"]
    assert views
    assert {row["group"] for row in views} == {""}
    assert all(row["config"] == f"v{row['seq']}" for row in views)


def test_at_least_half_of_the_runs_have_more_than_three_views(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "0:60", "--json", "--workers", "1"]) == 0
    totals = json.loads(capsys.readouterr().out)
    assert totals["runs"] == 60
    assert totals["with_more_than_three_views"] >= 30


@pytest.mark.usefixtures("small_chunks")
def test_the_bytes_do_not_depend_on_the_number_of_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for workers in ("1", "2", "5"):
        out = tmp_path / workers
        arguments = ["--seeds", "0:8", "--out", str(out), "--format", "jsonl", "--workers", workers, "--json"]
        assert main(["simulate", *arguments]) == 0
        said.append({**json.loads(capsys.readouterr().out), "out": ""})
    written = [{file.name: file.read_bytes() for file in (tmp_path / n).iterdir()} for n in "125"]
    assert len(written[0]) == 3
    assert written[0] == written[1] == written[2]
    assert said[0] == said[1] == said[2]


@pytest.mark.usefixtures("small_chunks")
def test_files_are_bounded_and_not_one_for_each_seed(tmp_path: Path) -> None:
    assert main(["simulate", "--seeds", "10:17", "--out", str(tmp_path), "--format", "jsonl"]) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "seeds-000010-000012.jsonl",
        "seeds-000013-000015.jsonl",
        "seeds-000016-000016.jsonl",
    ]


def test_without_pyarrow_the_trace_is_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert main(["simulate", "--seeds", "1", "--out", str(tmp_path)]) == 0
    assert [file.suffix for file in tmp_path.iterdir()] == [".jsonl"]


# ---- size and cases ----------------------------------------------------------------------------


def cases(rows: Sequence[dict[str, Any]]) -> set[str]:
    """Every run begins; some crash."""
    assert {row["run"] for row in rows} == {rows[0]["run"]}
    return {"begins"} | {"crash" for row in rows if row["event"] == "fail"}


def of_size(seed: int, size: str) -> Scenario:
    return parse(f"members a b c\nseed {seed}\n0 start\n" + ("1 crash a\n" if size == "large" and seed % 4 else ""))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, small_chunks: None) -> None:
    monkeypatch.setitem(MODELS, "isis85", MODELS["isis85"]._replace(cases=cases, generate=of_size))


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize(("size", "crashed"), [("usual", {}), ("large", {"crash": 6})])
def test_a_program_is_told_how_many_runs_reached_a_case(
    size: str, crashed: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--seeds", "0:8", "--size", size, "--stat", "--json", "--workers", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["cases"] == {"begins": 8, **crashed}


@pytest.mark.usefixtures("counted")
def test_a_person_is_told_which_share_of_the_runs_that_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "0:8", "--size", "large", "--stat", "--workers", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == ["case    runs  share", "begins     8   100%", "crash      6    75%"]


@pytest.mark.usefixtures("counted")
def test_cases_of_one_run_are_counted_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("members a b\n0 start\n1 crash a\n")
    assert main(["simulate", "--scenario", str(file), "--stat", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cases"] == {"begins": 1, "crash": 1}


def test_totals_of_several_workers_add_up_and_the_most_frequent_case_stands_first() -> None:
    totals, part = runs.Totals(), runs.Totals()
    totals.count("x", Outcome(1), ["b", "c"])
    part.count("y", Outcome(2), ["a", "c"])
    part.count("z", Outcome(3), ["d", "c"])
    totals.add(part)
    assert list(totals.cases.items()) == [("c", 3), ("a", 1), ("b", 1), ("d", 1)]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--seeds", "0:2", "--stat"], "--stat counts cases, and isis85 names none"),
        (["--seeds", "0:2", "--size", "large"], "the random runs of isis85 have one size: leave large out"),
        (["--scenario", __file__, "--size", "large"], "--size is that of random runs: give --seeds A:B"),
    ],
)
def test_what_a_model_does_not_have_is_refused(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["simulate", *arguments, "--out", str(out)]) == 2
    assert complaint in capsys.readouterr().err
    assert not out.exists()


# ---- what is said ------------------------------------------------------------------------------


def test_a_person_is_told_the_totals_and_where_the_trace_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "0:2", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("2 runs of isis85: ")
    assert f"covey trace stat {tmp_path}" in said
    assert "no invariant broke" in said


def test_a_program_is_told_the_totals_as_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--seeds", "0:2", "--out", str(tmp_path), "--format", "jsonl", "--json"]
    assert main(["simulate", *arguments]) == 0
    totals = json.loads(capsys.readouterr().out)
    views = {(row["run"], row["config"]) for row in rows(tmp_path) if row["event"] == "config"}
    numbers = {name: totals.pop(name) for name in ("packets", "virtual_seconds", "with_more_than_three_views")}
    assert min(numbers["packets"], numbers["virtual_seconds"]) > 0
    assert totals == {
        "model": "isis85",
        "runs": 2,
        "views": len(views),
        "failed": {},
        "out": str(tmp_path),
        "format": "jsonl",
    }


def broken(why: str) -> Model:
    """The site layer, with an invariant that forbids any view."""

    def build_broken(around: Surroundings, addresses: Sequence[str], options: Sequence[str]) -> Sites:
        site = build(around, addresses)

        def check() -> None:
            if site.memory.number >= 0:
                raise BrokenInvariant(why)

        site.check = check  # type: ignore[method-assign]
        return site

    return Model("isis85", build_broken, at_rest, messages)


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "isis85", broken("there is a view"))


@pytest.mark.usefixtures("breaks")
def test_seeds_that_break_an_invariant_are_named_and_the_status_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--seeds", "0:4", "--out", str(tmp_path), "--workers", "1"]) == 1
    said = capsys.readouterr().out
    assert "seed-0: there is a view\n" in said
    assert "4 failed: seed-0 seed-1 seed-2 seed-3\n" in said
    assert {row["run"] for row in rows(tmp_path)} == {f"seed-{seed}" for seed in range(4)}


@pytest.mark.usefixtures("breaks")
def test_a_program_is_told_what_broke(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "0:2", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failed"] == {"seed-0": "there is a view", "seed-1": "there is a view"}


def test_a_run_that_does_not_come_to_rest_has_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(MODELS, "isis85", Model("isis85", build, lambda *_: False, messages))
    assert main(["simulate", "--seeds", "0"]) == 1
    assert "seed-0: did not come to rest\n" in capsys.readouterr().out


# ---- scenarios ---------------------------------------------------------------------------------

SCENARIO = "members a b c\n0 start\n2 crash b\n4 settle 20\n"


def test_a_scenario_is_played_as_a_run_of_the_name_of_its_file(tmp_path: Path) -> None:
    file, out = tmp_path / "one-crash.txt", tmp_path / "out"
    file.write_text(SCENARIO)
    assert main(["simulate", "--scenario", str(file), "--out", str(out)]) == 0
    assert {row["run"] for row in rows(out)} == {"one-crash"}
    assert {row["process"] for row in rows(out) if row["event"] == "fail"} == {"b"}


def test_a_run_is_drawn_with_a_legend_and_its_trace_is_kept_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "mine.txt", tmp_path / "out"
    file.write_text(SCENARIO)
    assert main(["simulate", "--scenario", str(file), "--show", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("     time  a     b     c\n    0.000  ▲     ▲     ▲     a b c start\n")
    assert "\n    2.000  │     ✗     │     b crashes\n" in said
    assert "✗     crashes" in said
    assert "\x1b" not in said
    assert rows(out)


@pytest.mark.usefixtures("breaks")
def test_a_run_that_breaks_is_drawn_up_to_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "0", "--show"]) == 1
    said = capsys.readouterr().out
    assert "     there is a view" in said
    assert said.endswith("seed-0: there is a view\n1 failed: seed-0\n")


WRONG = [
    ("start", "line 3: '0 start z': no machine 'z'; there are a, b"),
    (
        "fly a",
        "line 3: '0 fly a': expected members, model, seed, weather, drain, multicast, with, or a time and one of start",
    ),
    ("crash", "expected a time and crash NAME [after EFFECTS] [keep SHARE]"),
    ("crash a after x", "'x' is not a number from 0 on"),
    ("crash a before 3", "before? expected after or keep and a number"),
    ("rob", "expected a time and rob NAME ..."),
    ("leave", "expected a time and leave NAME ..."),
    ("send a", "expected a time and send NAME MESSAGES"),
    ("send a -3", "'-3' is not a number from 0 on"),
    ("pause a 3", "expected a time and pause NAME [for SECONDS]"),
    ("pause a for inf", "'inf' is not a number from 0 on"),
    ("cut a b", "expected a time and cut NAME ... | NAME ... [for SECONDS], or cut NAME ... > NAME ..."),
    ("cut a | b for", "expected a time and cut NAME ... | NAME ... [for SECONDS], or"),
    ("cut | b", "a cut has somebody on each side"),
    ("cut a > ", "a cut has somebody on each side"),
    ("clock a 0", "a clock's rate is above 0, not 0.0"),
    ("jump a", "expected a time and jump NAME SECONDS"),
    ("weather foul", "expected weather DELAYS"),
    ("weather lan loss", "expected weather DELAYS"),
    ("weather lan luck 3", "expected weather DELAYS"),
    ("calm now", "expected a time and calm"),
    ("settle nan", "'nan' is not a number from 0 on"),
]


@pytest.mark.parametrize(("step", "complaint"), WRONG, ids=[step for step, _ in WRONG])
def test_a_step_that_cannot_be_done_is_named_before_anything_is_played(
    step: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.txt"
    file.write_text(f"members a b\nseed 7\n0 {step}{' z' if step == 'start' else ''}\n")
    assert main(["simulate", "--scenario", str(file)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"covey: {file}: line 3: ")
    assert complaint in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0 start\n", "a scenario needs a line `members` with their names"),
        ("members a a\n", "members with different names"),
        ("members\n", "line 1: 'members': expected members NAME ..."),
        ("seed x\n", "line 1: 'seed x': expected seed NUMBER"),
        ("drain sometimes\n", "line 1: 'drain sometimes': expected drain burst, or drain packet"),
        ("weather\n", "line 1: 'weather': expected weather DELAYS"),
        ("-1 start\n", "line 1: '-1 start': '-1' is not a number from 0 on"),
        ("soon start\n", "line 1: 'soon start': 'soon' is not a number from 0 on"),
        ("\udcff\n", "utf-8"),
    ],
)
def test_a_text_that_is_no_scenario_says_what_is_wrong(
    text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.txt"
    file.write_text(text, errors="surrogateescape")
    assert main(["simulate", "--scenario", str(file)]) == 2
    assert complaint in capsys.readouterr().err


# ---- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["old.jsonl", "deep/old.parquet", "old.rows"])
def test_a_directory_that_holds_a_trace_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"old")
    assert main(["simulate", "--seeds", "1", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"covey: {tmp_path} holds a trace already")
    assert "give another directory" in said
    assert (tmp_path / name).read_bytes() == b"old"


def test_parquet_without_pyarrow_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert main(["simulate", "--seeds", "1", "--out", str(tmp_path), "--format", "parquet"]) == 2
    assert "give --format jsonl" in capsys.readouterr().err


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "out"
    assert main(["simulate", "--seeds", "1", "--out", str(out)]) == 2
    assert f"covey: {out}: cannot write a trace there: Not a directory\n" == capsys.readouterr().err


def test_a_disk_that_is_full_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(path: Path, rows: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runs, "write_lines", fail)
    assert main(["simulate", "--seeds", "1", "--out", str(tmp_path), "--format", "jsonl"]) == 2
    assert "cannot write the trace: No space left on device" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("", "either --seeds A:B or --scenario FILE"),
        ("--seeds 1 --scenario pyproject.toml", "either --seeds A:B or --scenario FILE"),
        ("--seeds 0:2 --show", "--show draws one run"),
        ("--seeds 1 --show --json", "--show draws one run"),
        ("--seeds 1 --format jsonl", "give --out DIR, too"),
        ("--seeds x", "'x' is not a range of seeds"),
        ("--seeds 3:3", "'3:3' is not a range of seeds"),
        ("--seeds 3:", "'3:' is not a range of seeds"),
        ("--seeds -1", "'-1' is not a range of seeds"),
        ("--seeds 1 --workers 0", "0 is not in the range"),
        ("--seeds 1 --model totem", "'totem' is not one of 'isis85', 'evs', 'vs'"),
        ("--scenario nowhere.txt", "'nowhere.txt' does not exist"),
    ],
)
def test_arguments_that_make_no_sense_are_explained(
    arguments: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *arguments.split()]) == 2
    assert complaint in capsys.readouterr().err


# ---- processes ---------------------------------------------------------------------------------


class Endless:
    """Starts `covey simulate` with far too many seeds, and sees to it that it ends."""

    DRIVER = "import sys; from covey.cli import main, runs; runs.CHUNK = {}; sys.exit(main.main(sys.argv[1:]))"

    def __init__(self, out: Path) -> None:
        self.out = out
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int, chunk: int) -> subprocess.Popen[bytes]:
        arguments = ["simulate", "--seeds", "0:200000", "--out", str(self.out), "--format", "jsonl"]
        process = subprocess.Popen(
            [sys.executable, "-c", self.DRIVER.format(chunk), *arguments, "--workers", str(workers)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def after_a_file(self, workers: int) -> subprocess.Popen[bytes]:
        process = self.start(workers, chunk=2)
        until(process, lambda: any(self.out.glob("*.jsonl")))
        return process

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


def until(process: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    while not condition():
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
            raise AssertionError(process.communicate())


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Endless]:
    endless = Endless(tmp_path / "out")
    yield endless
    endless.end()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("to_all", [False, True], ids=["to-it", "to-its-group"])
def test_ctrl_c_ends_it_quietly_and_leaves_whole_files(endless: Endless, workers: int, to_all: bool) -> None:
    process = endless.after_a_file(workers)
    if to_all:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == (b"", b"")
    assert process.returncode == 130
    files = list(endless.out.iterdir())
    assert {file.suffix for file in files} == {".jsonl"}
    assert len({row["run"] for row in rows(endless.out) if row["event"] == "run"}) == 2 * len(files)


def children(process: subprocess.Popen[bytes]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@pytest.mark.parametrize(("sign", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_does_not_wait_for_what_its_workers_are_at(endless: Endless, sign: signal.Signals, status: int) -> None:
    process = endless.start(workers=2, chunk=100_000)
    until(process, lambda: len(children(process)) == 3)
    process.send_signal(sign)
    assert process.communicate(timeout=30) == (b"", b"")
    assert process.returncode == status


def test_workers_leave_ctrl_c_to_the_process_that_they_work_for(endless: Endless) -> None:
    process = endless.after_a_file(workers=2)
    for child in children(process):
        lines = Path(f"/proc/{child}/status").read_text().splitlines()
        deaf = [int(line.split()[1], 16) for line in lines if line.startswith(("SigBlk:", "SigIgn:"))]
        assert (deaf[0] | deaf[1]) & 1 << (signal.SIGINT - 1)


def test_a_worker_that_is_killed_is_an_error_with_advice(endless: Endless) -> None:
    process = endless.after_a_file(workers=2)
    os.kill(children(process)[-1], signal.SIGKILL)
    _, complaint = process.communicate(timeout=30)
    assert complaint == b"covey: a worker process was killed, perhaps for want of memory; try fewer --workers\n"
    assert process.returncode == 2


def test_workers_end_with_the_process_that_they_work_for(endless: Endless) -> None:
    process = endless.after_a_file(workers=2)
    process.kill()
    # Returns when all have ended that hold its standard output.
    process.communicate(timeout=30)


def test_the_model_that_a_scenario_names_is_played_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("members a b\nmodel isis85\n0 start\n")
    assert main(["simulate", "--scenario", str(file)]) == 0
    file.write_text("members a b\nmodel chess\n0 start\n")
    assert main(["simulate", "--scenario", str(file)]) == 2
    assert "no model 'chess'; there are isis85" in capsys.readouterr().err
