"""Files: where a trace's are, how one is appended to, and how one is replaced whole."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from covey.kernel.errors import MisuseError, WorldError
from covey.trace.errors import TraceError

SUFFIXES = (".jsonl", ".parquet")
"""The encodings of a trace."""

STREAM = ".rows"
"""An append-only stream that is not closed into one of the encodings yet."""


def trace_files(path: Path, *suffixes: str) -> list[Path]:
    """The files of a trace with one of these suffixes, in a fixed order; `path` may be a single file."""
    if path.is_file():
        return [path] if path.suffix in suffixes else []
    if not path.is_dir():
        raise TraceError(path, "no such directory", "give the directory that the members wrote their traces to")
    found = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    return sorted(file for file in found if file.suffix in suffixes)


def with_suffix(path: Path, suffix: str) -> Path:
    """The path under that suffix, which replaces only a suffix of a trace: a stem may hold dots."""
    if path.suffix in (*SUFFIXES, STREAM):
        return path.with_suffix(suffix)
    return path.with_name(path.name + suffix)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file under a temporary name; it takes its own name once it is on the disk, or never."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Force a file, or the names in a directory, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def being_written(path: Path) -> bool:
    """Whether a live process holds this file open to append to it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


class AppendFile:
    """A new file that is appended to without a buffer, all of a piece or not at all.

    It is locked as long as it is open, so that no other program rewrites it meanwhile. It never
    takes the place of a file that is there: evidence is not written over.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except FileExistsError:
            raise already_there(path) from None
        except OSError as error:
            raise WorldError(f"{path}: cannot begin a trace here: {error.strerror}") from error
        fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def append(self, data: bytes) -> None:
        """Hand the bytes to the operating system; on failure the file is as it was before."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._handle, rest) :]
        except OSError as error:
            os.ftruncate(self._handle, self._size)
            raise WorldError(f"{self.path}: cannot write the trace: {error.strerror}") from error
        self._size += len(data)

    def close(self) -> None:
        """Let go of the file and its lock; a second call does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def already_there(path: Path) -> MisuseError:
    """The refusal to write over a file."""
    return MisuseError(f"{path} is already there, and a trace is never written over; choose another name or remove it")
