"""`covey demo`: real processes, drawn as it happens, and all gone at the end."""

import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from covey.cli import demo, stage
from covey.cli.demo import SITES, disagreements
from covey.cli.main import main
from covey.cli.watch import Event

COVEY = Path(sys.executable).with_name("covey")
WAIT_S = 20.0


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What one run printed, without any of the extras in all of its processes."""
    folder = tmp_path_factory.mktemp("demo")
    for extra in ("pyarrow", "uvloop", "hypothesis", "pytest"):
        (folder / f"{extra}.py").write_text("raise ImportError('not installed')\n")
    environment = {**os.environ, "PYTHONPATH": str(folder), "TMPDIR": str(folder)}
    done = subprocess.run([COVEY, "demo"], capture_output=True, text=True, env=environment, check=True)
    assert done.stderr == ""
    assert not list(folder.glob("covey-demo-*")), "it leaves nothing behind"
    assert sites_of(folder) == []
    return done.stdout


def sites_of(folder: Path) -> list[int]:
    """The processes whose folder is in that one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it has ended meanwhile
            continue
        if "covey.cli.site" in words and any(word.startswith(str(folder)) for word in words):
            found.append(int(process.name))
    return found


def in_order(text: str, *parts: str) -> bool:
    return re.search(".*".join(map(re.escape, parts)), text, flags=re.DOTALL) is not None


def test_it_draws_every_act_and_what_came_of_it(shown: str) -> None:
    acts = ("a crashes", "a/2 starts", "c is paused", "c goes on", "e is cut off from all others", "mended: all reach")
    assert in_order(shown, "view 0: ", *acts, "leave\n")
    assert "●─────●─────●─────●  ╎  ●" in shown
    assert "\x1b" not in shown


def test_each_view_is_drawn_as_led_once(shown: str) -> None:
    led = re.findall(r"◆(\d+)", shown.partition("     time  ")[2])
    assert led == [str(number) for number in range(len(led))]
    assert len(led) >= 7


def test_it_ends_with_the_views_that_were_agreed_on(shown: str) -> None:
    table = [line.split() for line in shown.partition("──\n")[2].splitlines() if re.match(r" \d", line)]
    assert [int(row[0]) for row in table] == list(range(len(table)))
    members = [{word.partition("/")[0] for word in row} & set(SITES) for row in table]
    without = [set(SITES) - present for present in members]
    assert without[-1] == set()
    assert in_order(" ".join(str(*each) for each in without if len(each) < 2), "a", "c", "e"), "each act leaves one out"


@pytest.mark.parametrize(
    ("number", "when", "status"),
    [(signal.SIGINT, "is paused", 130), (signal.SIGTERM, "is cut off", 143), (signal.SIGKILL, "is paused", -9)],
    ids=["Ctrl-C", "kill", "kill -9"],
)
def test_no_process_outlives_it_however_it_ends(number: signal.Signals, when: str, status: int, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([COVEY, "demo"], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if when in line and line.strip()[0].isdigit())
        assert len(sites_of(tmp_path)) == len(SITES)
        process.send_signal(number)
    assert process.returncode == status
    end = time.monotonic() + WAIT_S
    while sites_of(tmp_path):
        assert time.monotonic() < end
        time.sleep(0.02)
    if number != signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []


def test_an_act_without_end_is_a_failure_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system="standard", width=80, highlight=False)
    monkeypatch.setattr(demo, "open_console", lambda: console)
    monkeypatch.setattr(demo, "BOUND_S", 0.0)
    monkeypatch.setattr(demo.tempfile, "tempdir", str(tmp_path))
    assert main(["demo"]) == 1
    assert "This run failed: all start, and a b c d e did not agree on that in time" in screen.getvalue()
    assert sites_of(tmp_path) == []


def test_a_site_that_ends_by_itself_is_named_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stage, "new_key_file", lambda path: path.write_text("no key\n"))
    assert main(["demo"]) == 2
    assert re.fullmatch(r"covey: [a-e] has ended by itself: .*group\.key.*\n", capsys.readouterr().err)


def test_sites_that_do_not_agree_are_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo.Show, "play", lambda show: None)
    monkeypatch.setattr(demo, "installed", lambda rows: views("0 a: a c", "0 c: a c e"))
    assert main(["demo"]) == 1
    assert "This run failed: view 0: c saw a c e, and a saw a c\n" in capsys.readouterr().out


def views(*lines: str) -> list[Event]:
    """Of lines such as `3 b: a b`."""
    words = [line.replace(":", "").split() for line in lines]
    return [Event(0.0, "view", who, who, int(number), members=tuple(rest)) for number, who, *rest in words]


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (["0 a: a b", "1 a: a", "0 b: a b", "2 b/2: b/2"], []),
        (["0 a: a b", "0 b: b"], ["view 0: b saw b, and a saw a b"]),
        (["0 a: a b", "0 b: a b", "2 b: a b"], ["b went from view 0 to 2"]),
        (["1 a: a", "0 a: a"], ["a went from view 1 to 0"]),
        (["0 a: b", "0 b: b"], ["view 0: a installed it, and is not in it"]),
    ],
)
def test_every_disagreement_is_told(lines: Sequence[str], wrong: Sequence[str]) -> None:
    assert disagreements(views(*lines)) == wrong
