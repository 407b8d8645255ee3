"""Files of a trace are found, never written over, and left alone while a process writes them."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from covey.kernel.errors import MisuseError, WorldError
from covey.trace import TraceError
from covey.trace.files import AppendFile, being_written, held, replacing, trace_files, with_suffix


def test_a_trace_is_searched_through_its_folders_in_a_fixed_order(tmp_path: Path) -> None:
    names = ["b/c/1.jsonl", "b/2.parquet", "3.jsonl", "b/note.txt", "4.rows", "5.jsonl.tmp"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [path.relative_to(tmp_path).as_posix() for path in trace_files(tmp_path, ".jsonl", ".parquet")]
    assert found == ["3.jsonl", "b/2.parquet", "b/c/1.jsonl"]


def test_a_trace_may_be_one_file(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.touch()
    assert trace_files(file, ".jsonl") == [file]
    assert trace_files(file, ".rows") == []


def test_a_trace_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere: no such directory; give the directory"):
        trace_files(tmp_path / "nowhere", ".jsonl")


def test_a_folder_that_cannot_be_listed_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refusing(path: Any) -> Any:
        if Path(path).name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(PermissionError, match="closed"):
        trace_files(tmp_path, ".jsonl")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("p", "p.rows"), ("p.jsonl", "p.rows"), ("p.1.parquet", "p.1.rows"), ("host.example", "host.example.rows")],
)
def test_a_suffix_replaces_only_one_of_a_trace(name: str, expected: str) -> None:
    assert with_suffix(Path("out", name), ".rows") == Path("out", expected)


# --- appending


def test_what_is_appended_is_in_the_file_at_once(tmp_path: Path) -> None:
    file = AppendFile(tmp_path / "a/b/p.jsonl")
    file.append(b"one")
    file.append(b"two")
    assert file.path.read_bytes() == b"onetwo"


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("evidence")
    with pytest.raises(MisuseError, match="already there, and a trace is never written over; choose another name"):
        AppendFile(path)
    assert path.read_text() == "evidence"


def test_a_place_that_cannot_be_written_to_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorldError, match=r"file/p\.jsonl: cannot begin a trace here: "):
        AppendFile(tmp_path / "file/p.jsonl")


def test_a_write_that_fails_halfway_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = AppendFile(tmp_path / "p.jsonl")
    file.append(b"before")
    write, calls = os.write, []

    def filling_up(handle: int, data: bytes) -> int:
        calls.append(bytes(data))
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data[:3])

    monkeypatch.setattr(os, "write", filling_up)
    with pytest.raises(WorldError, match=r"p\.jsonl: cannot write the trace: No space left on device"):
        file.append(b"after")
    assert calls == [b"after", b"er"]
    assert file.path.read_bytes() == b"before"
    monkeypatch.undo()
    file.append(b" and after")
    assert file.path.read_bytes() == b"before and after"


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = AppendFile(tmp_path / "p.jsonl")
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:2]))
    file.append(b"abcde")
    assert file.path.read_bytes() == b"abcde"


def test_a_closed_file_refuses_more_and_may_be_closed_again(tmp_path: Path) -> None:
    file = AppendFile(tmp_path / "p.jsonl")
    file.close()
    file.close()
    with pytest.raises(MisuseError, match="is closed, and rows are still written to it"):
        file.append(b"late")


# --- who is at work on a file


def test_a_file_is_being_written_until_it_is_closed(tmp_path: Path) -> None:
    file = AppendFile(tmp_path / "p.jsonl")
    assert being_written(file.path)
    file.close()
    assert not being_written(file.path)


def test_only_one_closes_a_file_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "p.rows"
    path.touch()
    with held(path) as first, held(path) as second:
        assert (first, second) == (True, False)
        assert being_written(path)
    with held(path) as again:
        assert again


def test_a_new_file_that_is_taken_for_abandoned_before_it_is_locked_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.rows"
    flock, removed = fcntl.flock, []

    def removing(handle: int, lock: int) -> None:
        if not removed:
            removed.append(path.unlink())
        flock(handle, lock)

    monkeypatch.setattr(fcntl, "flock", removing)
    file = AppendFile(path)
    file.append(b"seen")
    assert removed
    assert path.read_bytes() == b"seen"
    assert being_written(path)


# --- replacing


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert [*tmp_path.iterdir()] == [path]


def replace_halfway(path: Path) -> None:
    with replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError("stop")


def test_a_replacement_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="stop"):
        replace_halfway(path)
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]
