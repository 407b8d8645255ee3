"""The two stable storages behind one face, so that one suite of tests holds both to the same contract."""

import shutil
from collections.abc import Callable
from pathlib import Path

from covey.kernel.storage import Storage
from covey.kernel.storage_sqlite import SqliteStorage
from covey.sim.disk import Disk


class DiskBox:
    """The simulator's disk."""

    def __init__(self, directory: Path) -> None:
        self.storage = Disk()

    def crash(self, kept: float) -> None:
        """Crash in the middle of a flush, when that share of what it writes is on the disk."""
        self.storage.crash(kept)

    def close(self) -> None:
        """Nothing is open."""


class SqliteBox:
    """The SQLite file; after a crash there is a copy of it, with the end of SQLite's own log cut off.

    For less than a thousand pages: then SQLite begins its log anew.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._life = 0
        self._open(directory / "0")

    def _open(self, home: Path) -> None:
        home.mkdir(exist_ok=True)
        self._file = home / "storage"
        self.storage = SqliteStorage(self._file)

    def crash(self, kept: float) -> None:
        """Crash in the middle of a flush, when that share of what it writes is on the disk."""
        log = self._file.with_name("storage-wal")
        durable = log.stat().st_size
        self.storage.flush()
        written = log.stat().st_size - durable
        self._life += 1
        home = self._directory / str(self._life)
        shutil.copytree(self._file.parent, home)
        with (home / log.name).open("r+b") as copy:
            copy.truncate(durable + int(kept * written))
        self.close()
        self._open(home)

    def close(self) -> None:
        self.storage.close()


Box = DiskBox | SqliteBox
BOXES: dict[str, Callable[[Path], Box]] = {"disk": DiskBox, "sqlite": SqliteBox}


class PulledPlug(Exception):
    """The process ended here."""


class Fused:
    """A storage whose process ends just before so many writes and flushes have been done."""

    def __init__(self, storage: Storage, calls: int) -> None:
        self._storage = storage
        self._calls = calls

    def get(self, key: str) -> bytes | None:
        return self._storage.get(key)

    def log(self) -> list[bytes]:
        return self._storage.log()

    def put(self, key: str, value: bytes) -> None:
        self._burn()
        self._storage.put(key, value)

    def append(self, record: bytes) -> None:
        self._burn()
        self._storage.append(record)

    def flush(self) -> None:
        self._burn()
        self._storage.flush()

    def _burn(self) -> None:
        if not self._calls:
            raise PulledPlug
        self._calls -= 1
