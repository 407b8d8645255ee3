"""Stable storage in one SQLite file: write-ahead log, every commit synced to the disk.

The file is held exclusively, so that two processes cannot live under one identity. SQLite syncs the
names of its files into their directory, but not that of the directory itself: whoever makes it does.

A storage that failed once is closed, and every later call fails: what it was given since the last flush
is lost, and nothing more may rest on it.
"""

import sqlite3
from pathlib import Path
from typing import Any

from covey.kernel.errors import WorldError

_COVEY = 0x636F7679
"""Stands in the head of the file: whose it is."""

_CREATE = (
    "BEGIN",
    f"PRAGMA application_id = {_COVEY}",
    "CREATE TABLE pairs (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE log (position INTEGER PRIMARY KEY, record BLOB NOT NULL)",
    "COMMIT",
)

_TROUBLES = {
    sqlite3.SQLITE_BUSY: "is in use by another process; stop that one first, or give this one storage of its own",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; see that its directory exists, and that this user may write there",
    sqlite3.SQLITE_IOERR_LOCK: "cannot be locked; give this user the right to write it, and keep it on a local disk",
    sqlite3.SQLITE_READONLY: "cannot be written; give this user the right to write the file and its directory",
    sqlite3.SQLITE_FULL: "cannot grow; make room on the disk, and start this process again",
    sqlite3.SQLITE_NOTADB: "is not a storage file; give the path of one, or of a file that is yet to be made",
    sqlite3.SQLITE_CORRUPT: "is damaged; set it aside, and this process comes back under a fresh name",
}


class SqliteStorage:
    """A `Storage` on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()  # SQLite takes some relative ones, `:memory:`, for something else
        self._dirty = False
        try:
            # A host writes in a thread of its own: one thread at a time, though not always the same.
            self._file = sqlite3.connect(self._path, isolation_level=None, timeout=0, check_same_thread=False)
        except sqlite3.Error as error:
            raise self._trouble(error) from error
        try:
            self._open()
        except WorldError:
            self.close()
            raise

    def _open(self) -> None:
        self._run("PRAGMA locking_mode = EXCLUSIVE")
        is_covey = self._run("PRAGMA application_id") == [(_COVEY,)]
        if not is_covey and self._run("SELECT 1 FROM sqlite_master"):
            raise WorldError(f"stable storage {self._path} is the database of another program; give another path")
        self._run("PRAGMA journal_mode = WAL")
        self._run("PRAGMA synchronous = FULL")
        if not is_covey:
            for statement in _CREATE:
                self._run(statement)

    def get(self, key: str) -> bytes | None:
        rows = self._run("SELECT value FROM pairs WHERE key = ?", key)
        return bytes(rows[0][0]) if rows else None

    def log(self) -> list[bytes]:
        return [bytes(record) for (record,) in self._run("SELECT record FROM log ORDER BY position")]

    def put(self, key: str, value: bytes) -> None:
        self._write("INSERT OR REPLACE INTO pairs VALUES (?, ?)", key, value)

    def append(self, record: bytes) -> None:
        self._write("INSERT INTO log (record) VALUES (?)", record)

    def flush(self) -> None:
        if self._dirty:
            self._run("COMMIT")
            self._dirty = False

    def close(self) -> None:
        """Give the file back; writes that no flush followed are lost."""
        self._file.close()

    def _write(self, statement: str, *values: str | bytes) -> None:
        if not self._dirty:
            self._run("BEGIN")
            self._dirty = True
        self._run(statement, *values)

    def _run(self, statement: str, *values: str | bytes) -> list[Any]:
        try:
            return self._file.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            self.close()
            raise self._trouble(error) from error

    def _trouble(self, error: sqlite3.Error) -> WorldError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        trouble = _TROUBLES.get(code) or _TROUBLES.get(code & 0xFF) or f"failed: {error}"  # the low byte is the kind
        return WorldError(f"stable storage {self._path} {trouble}")
