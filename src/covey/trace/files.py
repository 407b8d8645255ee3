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
    found = [Path(folder, name) for folder, _, names in os.walk(path, onerror=_raise) for name in names]
    return sorted(file for file in found if file.suffix in suffixes)


def _raise(error: OSError) -> None:
    """A folder that cannot be listed may hold files of the trace."""
    raise error


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


@contextmanager
def held(path: Path, lock: int = fcntl.LOCK_EX) -> Iterator[bool]:
    """Keep others off a file meanwhile; false if a live process appends to it, or another closes it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        yield _locks(handle, lock | fcntl.LOCK_NB)
    finally:
        os.close(handle)


def being_written(path: Path) -> bool:
    """Whether a live process holds this file open to append to it."""
    with held(path, fcntl.LOCK_SH) as ours:
        return not ours


def _locks(handle: int, lock: int) -> bool:
    try:
        fcntl.flock(handle, lock)
    except BlockingIOError:
        return False
    return True


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
            self._handle = _create_locked(path)
        except OSError as error:
            if path.exists():
                raise already_there(path) from None
            raise WorldError(f"{path}: cannot begin a trace here: {error.strerror}") from error

    def append(self, data: bytes) -> None:
        """Hand the bytes to the operating system; on failure the file is as it was before."""
        if self._handle < 0:
            raise MisuseError(f"{self.path} is closed, and rows are still written to it; close it after its members")
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


def _create_locked(path: Path) -> int:
    """A new file, which nobody can take for one that a crash left behind."""
    while True:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)  # it was removed, being empty, before it was locked


def already_there(path: Path) -> MisuseError:
    """The refusal to write over a file."""
    return MisuseError(f"{path} is already there, and a trace is never written over; choose another name or remove it")
