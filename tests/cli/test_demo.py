"""`covey demo`: one run, drawn as it goes."""

import io
import subprocess
import sys

import pytest
from rich.console import Console

from covey.cli import demo
from covey.cli.main import main
from covey.cli.models import MODELS
from covey.isis.scenarios import DEMO
from covey.sim.run import run
from covey.sim.scenario import parse
from covey.trace import MemorySink, Recorder


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    naps: list[float] = []
    monkeypatch.setattr(demo, "sleep", naps.append)
    return naps


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system="standard", width=80, highlight=False)
    monkeypatch.setattr(demo, "open_console", lambda: console)
    return screen


def test_it_draws_the_run_and_says_what_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(DEMO.splitlines()[0].removeprefix("# ") + "\n")
    for line in ("▲     ▲     ▲     ▲     ▲", "●─────●  ╎  ●─────●─────●", "✗     ✗     ✗     ✗     ✗"):
        assert f"  {line}     " in said
    assert "\x1b" not in said


def test_it_ends_with_the_views_that_all_went_through(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    _, _, table = capsys.readouterr().out.partition("──\n")
    shown = [line.split() for line in table.splitlines() if "all of them" in line]
    sink = MemorySink()
    run(parse(DEMO), MODELS["isis85"], Recorder(sink))
    views = {row["seq"]: row["members"] for row in sink.rows if row["event"] == "config"}
    assert [int(line[0]) for line in shown] == sorted(views)
    for number, *members in shown:
        assert members[: len(views[int(number)])] == [each.removesuffix("/1") for each in views[int(number)]]


def test_in_a_terminal_a_person_can_follow_it(naps: list[float], terminal: io.StringIO) -> None:
    assert main(["demo"]) == 0
    assert 15 <= sum(naps) <= 20
    assert max(naps) < 1.5
    assert "\x1b[36m◆0" in terminal.getvalue()


@pytest.mark.usefixtures("terminal")
def test_fast_does_not_wait(naps: list[float]) -> None:
    assert main(["demo", "--fast"]) == 0
    assert sum(naps) == 0


def test_in_a_pipe_it_does_not_wait(naps: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    assert sum(naps) == 0
    assert capsys.readouterr().out


def test_it_needs_nothing_but_the_core() -> None:
    extras = ["pyarrow", "pyarrow.parquet", "hypothesis", "pytest"]
    script = f"import sys; sys.modules.update(dict.fromkeys({extras})); from covey.cli.main import main; main(['demo'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "all of them" in done.stdout
    assert done.stderr == ""


def test_a_run_that_fails_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(MODELS, "isis85", MODELS["isis85"]._replace(at_rest=lambda *_: False))
    assert main(["demo"]) == 1
    assert "This run failed: did not come to rest\n" in capsys.readouterr().out
