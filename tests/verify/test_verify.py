"""`covey verify` as a user calls it: on Spark, on traces in files."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from covey.trace.jsonl import write_lines
from tests.verify.test_judges import HERE, judge_of, random_trace, runs

MODELS = ("evs", "vs")
SEEDS = range(150)
FEW = [
    {"run": "r", "process": "", "incarnation": 1, "index": 0, "time_ns": 0, "group": "", "event": "run",
     "model": "evs", "complete": True, "healed": True},
    {"run": "r", "process": "p", "incarnation": 1, "index": 0, "time_ns": 0, "group": "", "event": "config",
     "config": "1.p", "kind": "regular", "members": ["p"], "seq": 1},
    {"run": "r", "process": "p", "incarnation": 1, "index": 1, "time_ns": 0, "group": "", "event": "send",
     "message": "p/1/1", "config": "1.p", "service": "safe"},
]  # fmt: skip


def verify(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from covey.cli.main import main; sys.exit(main())", "verify"]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, check=False)


def write(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


@pytest.mark.timeout(240)
def test_one_job_judges_hand_made_and_random_traces_of_all_models_like_the_plain_judges(tmp_path: Path) -> None:
    expected = {}
    for model in MODELS:
        for name, rows in runs(model).items():
            expected[name] = next(row for row in rows if row["event"] == "run")["violates"]
        (tmp_path / f"{model}.jsonl").write_bytes((HERE / "traces" / f"{model}.jsonl").read_bytes())
        for seed in SEEDS:
            name = f"{model} {seed}"
            rows = [{**row, "run": name} for row in random_trace(model, seed)]
            expected[name] = sorted({violation.property for violation in judge_of(model).judge(rows)})
            write_lines(tmp_path / f"{name}.jsonl", rows)
    done = verify(tmp_path, "--json", "-")
    assert done.returncode == 1, done.stderr
    verdicts = json.loads(done.stdout)
    assert verdicts["failing"] == {name: sorted(ids) for name, ids in expected.items() if ids}
    assert verdicts["runs"] == len(expected)
    for name, verdict in verdicts["properties"].items():
        failing = sum(name in ids for ids in expected.values())
        assert verdict["status"] == ("fail" if failing else "pass"), name
        assert min(failing, 20) <= len(verdict["witnesses"]) <= 20 or not failing
        assert verdict["violations"] >= failing
        for witness in verdict["witnesses"]:
            assert name in expected[witness["run"]]
            assert witness["why"]


@pytest.mark.timeout(120)
def test_a_good_trace_passes_and_what_it_has_no_evidence_for_is_skipped_with_the_reason(tmp_path: Path) -> None:
    deliver = {**FEW[2], "index": 2, "event": "deliver", "ordinal": 1}
    deliver.pop("service")
    done = verify(write(tmp_path / "out", [*FEW, deliver]), "--json", tmp_path / "verdicts.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 events in 1 run: every property that applies holds" in done.stdout
    verdicts = json.loads((tmp_path / "verdicts.json").read_text())
    assert verdicts["properties"]["EVS-3"] == {"status": "pass", "checked": 1, "violations": 0, "witnesses": []}
    skipped = {name for name, verdict in verdicts["properties"].items() if verdict["status"] == "skipped"}
    assert skipped == {"PC-1", "PC-2"}
    assert verdicts["properties"]["PC-1"] == {"status": "skipped", "why": "the trace has nothing that it is about"}


@pytest.mark.timeout(120)
def test_a_violation_is_explained_in_words(tmp_path: Path) -> None:
    done = verify(write(tmp_path / "out", FEW), "--property", "EVS-3")
    assert done.returncode == 1
    assert "p sends p/1/1 in 1.p, and never delivers it there" in done.stdout
    assert "events: p 1" in done.stdout
    assert "a property is violated in 1 run" in done.stdout


@pytest.mark.parametrize(
    ("rows", "arguments", "told"),
    [
        (FEW[1:], (), "trace.jsonl, line 1: run 'r' has no header"),
        ([*FEW, FEW[1]], (), "trace.jsonl, line 4: index 0 of process 'p' in run 'r' is used again"),
        ([*FEW, {**FEW[1], "event": "dance"}], (), "trace.jsonl, line 4: unknown event 'dance'"),
        ([], (), "the trace has no rows"),
        (FEW, ("--property", "EVS-9"), "no property EVS-9"),
        (FEW, ("--model", "totem"), "no properties for model totem; there are some for evs, vs"),
    ],
)
def test_a_trace_that_cannot_be_used_is_refused_before_spark_starts(
    tmp_path: Path, rows: list[dict[str, Any]], arguments: tuple[str, ...], told: str
) -> None:
    done = verify(write(tmp_path / "out", rows), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_an_empty_folder_is_no_trace(tmp_path: Path) -> None:
    done = verify(tmp_path)
    assert done.returncode == 2
    assert "no trace here" in done.stderr


@pytest.mark.parametrize(("arguments", "status", "told"), [((".",), 2, "needs PySpark"), (("--help",), 0, "")])
def test_without_the_extra_one_is_told_what_to_install(arguments: tuple[str, ...], status: int, told: str) -> None:
    code = "import sys; sys.modules['pyspark'] = None; from covey.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "verify", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    assert told in done.stderr
    assert "Traceback" not in done.stderr
