"""The SQLite file: what survives a killed process, who may open it, and what is said when it cannot be used."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from covey.kernel.errors import WorldError
from covey.kernel.storage import next_incarnation
from covey.kernel.storage_sqlite import SqliteStorage

WRITER = """
import sys
from pathlib import Path
from covey.kernel.storage_sqlite import SqliteStorage

storage = SqliteStorage(Path(sys.argv[1]))
last = len(storage.log())
while True:
    last += 1
    number = str(last).encode()
    storage.put("last", number)
    storage.append(number)
    storage.put("last again", number)
    storage.flush()
    print(last, flush=True)
"""


@contextmanager
def another_process(program: str, path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that runs a program, killed by SIGKILL in the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def lines(process: "subprocess.Popen[str]", count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def test_a_killed_process_finds_all_that_was_flushed_and_nothing_half(tmp_path: Path) -> None:
    path = tmp_path / "storage"
    reported = 0
    for more in (1, 2, 40, 3):
        with another_process(WRITER, path) as process:
            reported = int(lines(process, more)[-1])
        with closing(SqliteStorage(path)) as storage:
            log = storage.log()
            assert log == [b"%d" % number for number in range(1, len(log) + 1)]
            assert len(log) >= reported
            assert storage.get("last") == storage.get("last again") == log[-1]


def test_what_a_flush_wrote_is_synced_before_it_returns(tmp_path: Path) -> None:
    """With these two settings SQLite syncs at every commit; no test can pull the plug of the machine."""
    with closing(SqliteStorage(tmp_path / "storage")) as storage:
        assert storage._run("PRAGMA journal_mode") == [("wal",)]
        assert storage._run("PRAGMA synchronous") == [(2,)]


def test_storage_that_is_closed_and_opened_again_goes_on(tmp_path: Path) -> None:
    for incarnation in (1, 2, 3):
        with closing(SqliteStorage(tmp_path / "storage")) as storage:
            assert next_incarnation(storage, lambda: "a", "here") == ("a", incarnation)
            storage.append(b"lost: no flush follows")
    assert [file.name for file in tmp_path.iterdir()] == ["storage"]


HOLDER = """
import sys
from pathlib import Path
from covey.kernel.storage_sqlite import SqliteStorage

storage = SqliteStorage(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("is_new", [True, False])
def test_a_second_process_is_refused_as_long_as_the_first_one_lives(tmp_path: Path, is_new: bool) -> None:
    path = tmp_path / "storage"
    if not is_new:
        SqliteStorage(path).close()
    with another_process(HOLDER, path) as process:
        assert lines(process, 1) == ["open"]
        with pytest.raises(WorldError, match=f"{path} is in use by another process; stop that one first, or give this"):
            SqliteStorage(path)
    SqliteStorage(path).close()


def test_nobody_can_look_into_storage_that_is_in_use(tmp_path: Path) -> None:
    path = tmp_path / "storage"
    with (
        closing(SqliteStorage(path)),
        closing(sqlite3.connect(path, timeout=0)) as other,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        other.execute("SELECT * FROM pairs")


def test_a_relative_path_is_never_taken_for_a_database_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(SqliteStorage(Path(":memory:"))) as storage:
        storage.put("a", b"1")
        storage.flush()
    with closing(SqliteStorage(Path(":memory:"))) as storage:
        assert storage.get("a") == b"1"


def test_a_crash_while_the_file_is_made_leaves_one_that_opens(tmp_path: Path) -> None:
    path = tmp_path / "storage"
    with closing(SqliteStorage(path)):
        data, log = path.read_bytes(), path.with_name("storage-wal").read_bytes()
    for size in range(0, len(log) + 1, 512):
        path.write_bytes(data)
        path.with_name("storage-wal").write_bytes(log[:size])
        with closing(SqliteStorage(path)) as storage:
            assert next_incarnation(storage, lambda: "a", "here") == ("a", 1)


# --- what cannot be used


def test_a_file_of_another_kind_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 100)
    with pytest.raises(WorldError, match=f"{path} is not a storage file; give the path of one, or of a file that is"):
        SqliteStorage(path)
    assert path.read_text() == "not a database " * 100


def test_the_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    with closing(sqlite3.connect(path)) as theirs:
        theirs.execute("CREATE TABLE pairs (key, value)")
    before = path.read_bytes()
    with pytest.raises(WorldError, match=f"{path} is the database of another program; give another path"):
        SqliteStorage(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["theirs"]


def test_an_empty_file_is_new_storage(tmp_path: Path) -> None:
    path = tmp_path / "storage"
    path.touch()
    with closing(SqliteStorage(path)) as storage:
        assert next_incarnation(storage, lambda: "a", "here") == ("a", 1)


@pytest.mark.parametrize("path", ["missing/storage", "."])
def test_a_path_where_no_file_can_be_says_what_to_look_at(tmp_path: Path, path: str) -> None:
    with pytest.raises(WorldError, match="cannot be opened; see that its directory exists, and that this user may"):
        SqliteStorage(tmp_path / path)


@contextmanager
def without_privilege() -> Iterator[None]:
    """As somebody to whom the rights of files apply: they do not to root."""
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(me)


@pytest.mark.parametrize(
    ("file", "directory", "advice"),
    [
        (0o444, 0o777, "cannot be locked; give this user the right to write it, and keep it on a local disk"),
        (0o666, 0o555, "cannot be written; give this user the right to write the file and its directory"),
        (0o000, 0o777, "cannot be opened; see that its directory exists, and that this user may write there"),
    ],
)
def test_storage_that_may_not_be_written_says_who_must_let_it(file: int, directory: int, advice: str) -> None:
    with TemporaryDirectory() as name:
        path = Path(name) / "storage"
        SqliteStorage(path).close()
        path.chmod(file)
        path.parent.chmod(directory)
        with without_privilege(), pytest.raises(WorldError, match=f"{path} {advice}"):
            SqliteStorage(path)
        path.parent.chmod(0o755)


def test_damage_is_named_when_it_is_met(tmp_path: Path) -> None:
    path = tmp_path / "storage"
    with closing(SqliteStorage(path)) as storage:
        storage.put("a", bytes(20_000))
        storage.flush()
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    with (
        closing(SqliteStorage(path)) as storage,
        pytest.raises(WorldError, match=f"{path} is damaged; set it aside, and this process comes back under a fresh"),
    ):
        storage.get("a")


def test_after_a_failure_nothing_can_seem_durable(tmp_path: Path) -> None:
    """A host that went on after a full disk would send what rests on writes that are lost."""
    path = tmp_path / "storage"
    with closing(SqliteStorage(path)) as storage:
        storage.append(b"kept")
        storage.flush()
        storage._run("PRAGMA max_page_count = 8")
        with pytest.raises(WorldError, match=f"{path} cannot grow; make room on the disk, and start this process"):
            storage.append(bytes(100_000))
        for later in (storage.flush, storage.log, lambda: storage.put("a", b"1"), lambda: storage.get("a")):
            with pytest.raises(WorldError, match="failed: Cannot operate on a closed database"):
                later()
    with closing(SqliteStorage(path)) as storage:
        assert storage.log() == [b"kept"]
