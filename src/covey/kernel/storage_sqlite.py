"""Stable storage in one SQLite file: write-ahead log, every commit synced to the disk.

The file is held exclusively, so that two processes cannot live under one identity.
"""

import sqlite3
from pathlib import Path

from covey.kernel.errors import WorldError

_TABLES = """
CREATE TABLE IF NOT EXISTS pairs (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (position INTEGER PRIMARY KEY AUTOINCREMENT, record BLOB NOT NULL);
"""


class SqliteStorage:
    """A `Storage` on disk."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = sqlite3.connect(path, isolation_level=None, timeout=0)
            self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.executescript(_TABLES)
        except sqlite3.OperationalError as error:
            what = "is in use by another process" if "locked" in str(error) else f"cannot be opened: {error}"
            raise WorldError(f"stable storage {path} {what}") from error
        except sqlite3.DatabaseError as error:
            raise WorldError(f"stable storage {path} is not a covey storage file: {error}") from error

    def get(self, key: str) -> bytes | None:
        row = self._file.execute("SELECT value FROM pairs WHERE key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def log(self) -> list[bytes]:
        return [bytes(row[0]) for row in self._file.execute("SELECT record FROM log ORDER BY position")]

    def put(self, key: str, value: bytes) -> None:
        self._begin()
        self._file.execute("INSERT OR REPLACE INTO pairs VALUES (?, ?)", (key, value))

    def append(self, record: bytes) -> None:
        self._begin()
        self._file.execute("INSERT INTO log (record) VALUES (?)", (record,))

    def flush(self) -> None:
        if self._file.in_transaction:
            self._file.execute("COMMIT")

    def close(self) -> None:
        """Give the file back; writes that no flush followed are lost."""
        self._file.close()

    def _begin(self) -> None:
        if not self._file.in_transaction:
            self._file.execute("BEGIN")
