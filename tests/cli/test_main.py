"""The command as a whole: what it knows, and how it ends."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from covey import __version__
from covey.cli import main as cli
from covey.cli.main import COMMANDS, main
from covey.kernel.errors import WorldError

COVEY = Path(sys.executable).with_name("covey")


def test_the_installed_command_tells_its_version() -> None:
    done = subprocess.run([COVEY, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"covey, version {__version__}\n"


def test_help_says_what_to_do_first_and_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert said.index("covey demo") < said.index("covey simulate --seeds 17 --show") < said.index("Commands:")
    for name, (_, summary) in COMMANDS.items():
        assert f"  {name} " in said
        assert summary.split()[0] in said


def test_help_imports_nothing_that_takes_long() -> None:
    script = "import sys; from covey.cli.main import main; main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "covey.cli.main" in loaded
    assert loaded.isdisjoint(
        {"rich", "pyarrow", "covey.sim", "covey.isis", "covey.trace", *(m for m, _ in COMMANDS.values())}
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_of_itself_what_the_list_of_commands_says(name: str) -> None:
    command = cli.cli.get_command(click.Context(cli.cli), name)
    assert command is not None
    assert (command.help or "").split("\n\n")[0].replace("\n", " ") == COMMANDS[name][1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert "Exit status:" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["fly"], ["--wings"], ["simulate", "--wings"], []])
def test_what_is_not_understood_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert "covey" in said.err
    assert said.out == ""


def ending(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(cli.cli, "invoke", fail)
    return main(["demo"])


def test_an_error_is_one_line_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ending(monkeypatch, WorldError("the disk is full; make room")) == 2
    assert capsys.readouterr().err == "covey: the disk is full; make room\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_ctrl_c_is_quiet(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ending(monkeypatch, error) == 130
    assert capsys.readouterr() == ("", "")


def test_a_bug_shows_where_it_is_and_asks_for_a_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ending(monkeypatch, ZeroDivisionError("oh")) == 70
    said = capsys.readouterr().err
    assert "ZeroDivisionError: oh" in said
    assert said.splitlines()[-1].startswith("covey: this is a bug. Please report it")


@pytest.mark.parametrize("status", [0, 1, 3])
def test_a_command_decides_its_own_status(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ending(monkeypatch, click.exceptions.Exit(status)) == status


WRITE = "import sys; from covey.cli import main as m; m.cli.invoke = lambda _: print(1); sys.exit(m.main(['demo']))"


@pytest.mark.parametrize(
    "command",
    [[COVEY, "demo"], [COVEY, "trace", "cat", "out"], [sys.executable, "-c", WRITE]],
    ids=["rich", "much", "little"],
)
def test_a_reader_that_goes_away_is_no_error(command: list[str], tmp_path: Path) -> None:
    if "out" in command:
        assert main(["simulate", "--seeds", "0:30", "--out", str(tmp_path / "out")]) == 0
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(
        command, cwd=tmp_path, env=buffered, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_what_a_terminal_cannot_show_is_no_error() -> None:
    environment = {"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"}
    command = [COVEY, "simulate", "--seeds", "17", "--show"]
    done = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert b"e starts" in done.stdout
