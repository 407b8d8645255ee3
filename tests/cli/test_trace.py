"""`covey trace`: what each command prints, and its exit status."""

import errno
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from covey.cli.trace import trace
from covey.kernel.errors import CoveyError, MisuseError, WorldError
from covey.trace import JsonLinesSink, Recorder, StreamSink, TraceError, check_trace
from covey.trace.stream import frame

ALONE = [sys.executable, "-c", "from covey.cli.trace import trace; trace()"]


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two members in a view; p sends three messages, both deliver them. The tests stand beside the trace."""
    monkeypatch.chdir(tmp_path)
    for at, name in enumerate("pq"):
        with Recorder(JsonLinesSink(f"out/{name}")) as recorder:
            recorder.header("r", "evs", universe=["p", "q"])
            member = recorder.member("r", name, 1)
            member.write(1_000_000 + at, "start")
            member.write(2_000_000 + at, "config", "g", config="v1", kind="regular", members=["p", "q"], seq=1)
            if name == "p":
                member.write(3_000_000, "send", "g", message="p/1/1", count=3, config="v1", service="safe")
            member.write(4_500_000 + at, "deliver", "g", message="p/1/1", count=3, config="v1", ordinal=7)
    return Path("out")


def crash(path: str, torn: bytes = b"") -> StreamSink:
    """What a process killed in the middle leaves behind."""
    sink = StreamSink(path)
    recorder = Recorder(sink)
    recorder.header("r", "evs", universe=["p", "q"])
    recorder.member("r", Path(path).name, 1).write(0, "start")
    recorder.flush()
    sink._file.append(torn)
    sink._file.close()  # as the system does
    return sink


def run(*args: object, **options: Any) -> Result:
    return CliRunner().invoke(trace, [str(arg) for arg in args], **options)


def printed(*args: object) -> str:
    """What a command prints that does what it was asked for."""
    result = run(*args)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def refusal(*args: object) -> CoveyError:
    """The error that a command ends with; covey.cli.main makes it one line, and exit status 2."""
    result = run(*args)
    assert isinstance(result.exception, CoveyError), result.output
    assert "\n" not in str(result.exception)
    return result.exception


# --- cat


def test_cat_prints_the_rows_as_lines_in_the_order_of_the_files(out: Path) -> None:
    assert printed("cat", out) == (out / "p.jsonl").read_text() + (out / "q.jsonl").read_text()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--process q", ["start", "config", "deliver"]),
        ("--process p --process q --event start", ["start", "start"]),
        ("--event send --event run", ["run", "send", "run"]),
        ("--run r --process p --event deliver", ["deliver"]),
        ("--run s", []),
    ],
)
def test_cat_prints_only_what_was_asked_for(out: Path, options: str, expected: list[str]) -> None:
    lines = printed("cat", out, *options.split()).splitlines()
    assert [json.loads(line)["event"] for line in lines] == expected


def test_cat_of_parquet_prints_the_same_lines(out: Path) -> None:
    printed("convert", out, "other")
    assert sorted(os.listdir("other")) == ["p.parquet", "q.parquet"]
    assert printed("cat", "other") == printed("cat", out)


def test_cat_reads_open_streams_only_when_asked(out: Path) -> None:
    crash("out/z")
    assert str(refusal("cat", out)) == (
        "out/z.rows: a stream that is not closed; its process still runs, or was killed; run covey trace convert out"
    )
    assert '"process":"z"' in printed("cat", out, "--unclosed")


def test_cat_prints_the_rows_before_a_wrong_one(out: Path) -> None:
    with (out / "q.jsonl").open("a") as file:
        file.write("{}\n")
    result = run("cat", out)
    assert len(result.stdout.splitlines()) == 9
    assert isinstance(result.exception, TraceError)
    assert str(result.exception).startswith("out/q.jsonl, line 5: the column event is missing; ")


def test_cat_prints_the_rows_before_the_damage_in_a_stream(out: Path) -> None:
    stream = crash("out/z", torn=frame(b"damaged")[:-1] + b"?").path
    result = run("cat", out, "--unclosed")
    assert json.loads(result.stdout.splitlines()[-1])["process"] == "z"
    assert isinstance(result.exception, TraceError)
    assert "take what covey trace cat --unclosed prints before the damage as incomplete" in str(result.exception)
    assert stream.exists()


# --- stat


def test_stat_counts_messages(out: Path) -> None:
    assert printed("stat", out) == (
        "run  models  state  rows  events  messages  deliveries  processes  incarnations  views\n"
        "r    evs               9      15         3           6          2             2      1\n"
    )


def test_stat_lists_the_first_runs_and_sums_all(out: Path) -> None:
    with Recorder(JsonLinesSink("out/more")) as recorder:
        for n in range(3):
            recorder.header(f"s{n}", ["evs", "vs"], complete=True, healed=n > 0)
            recorder.member(f"s{n}", "p", 1).write(0, "start")
    lines = printed("stat", out, "--show", "2").splitlines()
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "r evs 9 15 3 6 2 2 1",
        "s0 evs vs complete 2 2 0 0 1 1 0",
        "4 runs 15 21 3 6 5 5 1",
        "not listed: 2 runs; --show 0 lists them all",
    ]
    assert "s2 evs vs complete healed 2" in " ".join(printed("stat", out, "--show", "0").split())
    assert len(json.loads(printed("stat", out, "--json", "--show", "1"))["runs"]) == 4


def test_stat_as_json_has_every_event(out: Path) -> None:
    found = json.loads(printed("stat", out, "--json"))
    assert found["runs"]["r"]["by_event"] == {"config": 2, "deliver": 6, "run": 2, "send": 3, "start": 2}
    assert (found["messages"], found["deliveries"]) == (3, 6)


def test_a_name_of_control_characters_stays_on_its_line(tmp_path: Path) -> None:
    with Recorder(JsonLinesSink(tmp_path / "p")) as recorder:
        recorder.header("a\nb\x1b[31m", "evs")
    assert printed("stat", tmp_path).splitlines()[1].startswith("a\\nb\\x1b[31m  evs")


def test_stat_checks_across_rows(out: Path) -> None:
    (out / "copy.jsonl").write_bytes((out / "p.jsonl").read_bytes())
    assert "index 4294967296 of process 'p' in run 'r' is used again" in str(refusal("stat", out))


# --- convert


def test_convert_closes_what_a_crash_left(out: Path) -> None:
    crash("out/z", torn=b"torn")
    crash("out/y")
    assert printed("convert", out) == (
        "out/y.rows -> out/y.parquet: 2 rows\n"
        "out/z.rows -> out/z.parquet: 2 rows; 4 bytes of an unfinished batch left out, which nobody has seen\n"
    )
    assert printed("convert", out) == "out: no stream to close\n"
    check_trace(out)


def test_convert_removes_a_stream_without_rows(out: Path) -> None:
    (out / "z.rows").touch()
    assert printed("convert", out) == "out/z.rows removed: it has no rows\n"


def test_convert_leaves_a_live_stream_alone_and_says_so(out: Path) -> None:
    with Recorder(StreamSink("out/live")):
        crash("out/z")
        result = run("convert", out)
    assert result.exit_code == 1
    assert result.stdout == "out/live.rows: still being written, left alone\nout/z.rows -> out/z.parquet: 2 rows\n"


def test_convert_writes_a_whole_trace_in_another_encoding(out: Path) -> None:
    assert printed("convert", out, "new") == (
        "out/p.jsonl -> new/p.parquet: 5 rows\nout/q.jsonl -> new/q.parquet: 4 rows\n"
    )
    assert printed("convert", "new", "again", "--format", "jsonl").endswith("again/q.jsonl: 4 rows\n")
    assert Path("again/p.jsonl").read_bytes() == (out / "p.jsonl").read_bytes()


def test_convert_trims_a_line_that_was_cut(out: Path) -> None:
    with (out / "q.jsonl").open("a") as file:
        file.write('{"run":"r"')
    assert "q.jsonl, line 5: the file ends in the middle of this row" in str(refusal("stat", out))
    assert printed("convert", out, "--trim") == "out/q.jsonl: cut off 10 bytes of an unfinished row\n"
    assert printed("convert", out, "--trim") == ""
    check_trace(out)


def test_convert_trims_only_in_place(out: Path) -> None:
    result = run("convert", out, "new", "--trim")
    assert result.exit_code == 2
    assert "--trim changes SOURCE: run it without TARGET" in result.stderr


@pytest.mark.usefixtures("out")
def test_convert_without_pyarrow_says_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    crash("out/z")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert printed("convert", "out") == (
        "out/z.rows -> out/z.jsonl: 2 rows\n"
        'pyarrow is not installed, so this is JSON Lines; for Parquet: pip install "covey[trace]"\n'
    )
    assert "Parquet needs pyarrow, which is not installed" in str(refusal("convert", "out", "new"))


# --- seal and fail


def test_seal_says_what_it_sealed(out: Path) -> None:
    assert (
        printed("seal", out, "--complete", "--healed") == "out/p.jsonl: 1 header sealed\nout/q.jsonl: 1 header sealed\n"
    )
    assert "complete healed" in printed("stat", out)
    printed("seal", out, "--no-healed", "--run", "r")
    assert "complete   " in printed("stat", out)


def test_seal_of_nothing_is_refused(out: Path) -> None:
    assert isinstance(refusal("seal", out), MisuseError)
    assert str(refusal("seal", out, "--complete", "--run", "s")) == "out: no header of run 's'"


def test_fail_adds_a_row(out: Path) -> None:
    said = printed("fail", out, "--run", "r", "--process", "q", "--incarnation", "1", "--config", "v1")
    path, _, what = said.rstrip().partition(": ")
    assert what == "q/1 failed"
    assert json.loads(Path(path).read_text())["config"] == "v1"
    check_trace(out)
    assert "q/1 has ended already" in str(refusal("fail", out, "--run", "r", "--process", "q", "--incarnation", "1"))


# --- story


def test_the_story_of_a_message(out: Path) -> None:
    assert printed("story", out, "--message", "p/1/2") == (
        "      +0.000 ms  p/1  sends p/1/2 as safe in v1 [group g]\n"
        "      +1.500 ms  p/1  delivers p/1/2 in v1 at ordinal 8 [group g]\n"
        "      +1.500 ms  q/1  delivers p/1/2 in v1 at ordinal 8 [group g]\n"
    )


def test_the_story_of_a_view(out: Path) -> None:
    assert printed("story", out, "--view", "v1").splitlines() == [
        "      +0.000 ms  p/1  installs regular v1 {p q} [group g]",
        "      +0.000 ms  q/1  installs regular v1 {p q} [group g]",
        "      +1.000 ms  p/1  sends p/1/1 to p/1/3 as safe in v1 [group g]",
        "      +2.500 ms  p/1  delivers p/1/1 to p/1/3 in v1 at ordinal 7 [group g]",
        "      +2.500 ms  q/1  delivers p/1/1 to p/1/3 in v1 at ordinal 7 [group g]",
    ]


def test_stories_of_several_runs_have_a_heading_each(out: Path) -> None:
    with Recorder(JsonLinesSink("out/other")) as recorder:
        recorder.header("s", "evs")
        recorder.member("s", "x", 1).write(0, "send", message="p/1/2")
    lines = printed("story", out, "--message", "p/1/2").splitlines()
    assert (lines[0], lines[4], len(lines)) == ("run r", "run s", 6)
    assert len(printed("story", out, "--message", "p/1/2", "--run", "s").splitlines()) == 1


def test_a_story_as_json_is_rows_with_the_time_since_the_first(out: Path) -> None:
    steps = [json.loads(line) for line in printed("story", out, "--message", "p/1/2", "--json").splitlines()]
    assert [(step["since_ns"], step["event"], step["message"]) for step in steps] == [
        (0, "send", "p/1/2"),
        (1_500_000, "deliver", "p/1/2"),
        (1_500_001, "deliver", "p/1/2"),
    ]


@pytest.mark.parametrize("asked", [("--message", "p/1/9"), ("--view", "v2"), ("--view", "v1", "--run", "s")])
def test_a_story_that_is_not_there_has_exit_status_1(out: Path, asked: tuple[str, ...]) -> None:
    result = run("story", out, *asked)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"out: nothing about {asked[1]}\n"


@pytest.mark.parametrize("asked", [(), ("--message", "p/1/1", "--view", "v1")])
def test_a_story_is_of_a_message_or_of_a_view(out: Path, asked: tuple[str, ...]) -> None:
    result = run("story", out, *asked)
    assert result.exit_code == 2
    assert "give either --message or --view" in result.stderr


def test_a_message_id_of_another_form_is_refused(out: Path) -> None:
    assert "'p-1' is not a message id" in str(refusal("story", out, "--message", "p-1"))


# --- all of them

COMMANDS = [
    ["cat"],
    ["stat"],
    ["convert"],
    ["convert", "new"],
    ["seal", "--complete"],
    ["fail", "--run", "r", "--process", "p", "--incarnation", "1"],
    ["story", "--view", "v1"],
]


def on(path: str, command: list[str]) -> list[str]:
    return [command[0], path, *command[1:]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_trace_that_is_not_there_is_a_covey_error(tmp_path: Path, command: list[str]) -> None:
    assert isinstance(refusal(*on(str(tmp_path / "nowhere"), command)), CoveyError)


@pytest.mark.parametrize("command", [each for each in COMMANDS if each != ["convert"]], ids=" ".join)
def test_a_wrong_row_is_a_covey_error_with_file_and_line(out: Path, command: list[str]) -> None:
    (out / "bad.jsonl").write_text("\n")
    assert str(refusal(*on("out", command))).startswith("out/bad.jsonl, line 1: the line is empty")


@pytest.mark.parametrize("command", [each for each in COMMANDS if each != ["convert"]], ids=" ".join)
def test_what_the_disk_refuses_is_a_covey_error(out: Path, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Any, *args: Any) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    error = refusal(*on("out", command))
    assert isinstance(error, WorldError)
    assert str(error) == "out/p.jsonl: Permission denied"


@pytest.mark.parametrize("name", sorted(trace.commands))
def test_every_command_has_help_with_an_example(name: str) -> None:
    assert f"covey trace {name}" in printed(name, "--help")


def test_the_help_says_the_exit_status() -> None:
    assert "Exit status: 0 when done; 1 when" in printed("--help")


# --- as a process


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    with Recorder(JsonLinesSink(tmp_path / "p")) as recorder:
        recorder.header("r", "evs")
        member = recorder.member("r", "p", 1)
        for n in range(20_000):
            member.write(n, "start")
    with subprocess.Popen([*ALONE, "cat", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"run":"r"')
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize("command", ["cat", "stat"])
def test_a_reader_that_was_never_there_ends_it_quietly(out: Path, command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [*ALONE, command, str(out)], stdout=writing, stderr=subprocess.PIPE, env=buffered, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_terminal_gets_a_table_in_a_frame(out: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    subprocess.run([*ALONE, "stat", str(out)], stdout=theirs, stderr=theirs, env=environment, check=True)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "┃" in shown
    assert "deliveries" in shown


@pytest.mark.parametrize(
    ("command", "status", "complaint"),
    [
        (["stat", "nowhere"], 2, "covey: nowhere: no such directory; give the directory that"),
        (["story", "out", "--message", "p-1"], 2, "covey: 'p-1' is not a message id"),
        (["story", "out", "--view", "v9"], 1, "out: nothing about v9"),
        (["stat"], 2, "Usage: "),
    ],
)
def test_covey_itself_ends_with_one_line_and_a_status(
    out: Path, command: list[str], status: int, complaint: str
) -> None:
    pytest.importorskip("covey.cli.main")
    script = "import sys; from covey.cli.main import main; sys.argv[0] = 'covey'; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", script, "trace", *command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith(complaint)
    assert "Traceback" not in done.stderr
