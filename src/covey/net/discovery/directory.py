"""A directory in which each member keeps a file with its address: `<name>.address`.

With each look a member writes its own file anew, under a number that grows, and in one step, so that
nobody reads half of one. Who goes takes its file away. **A file that did not change for more than
`silent_looks_max` looks in a row is that of a dead member: its address is forgotten, and the file
removed.** Whoever lives, and was only paused, writes it again with its next look.

The rule compares no clocks, which on a network file system are several, and a file system that hangs
holds up one thread and nothing else. A file that covey did not write is counted and left alone.
"""

import asyncio
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from heapq import nsmallest
from pathlib import Path
from threading import Lock
from urllib.parse import quote

from msgspec import Struct

from covey.kernel.errors import MisuseError
from covey.net.discovery.source import Around
from covey.net.discovery.where import Directory, read_address

SUFFIX = ".address"
CONTENT_BYTES_MAX = 128
FILE_NAME_BYTES_MAX = 255 - len("..tmp")

# Whatever somebody put there, a link or a pipe: it is not followed, and waits for nobody.
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _File(Struct):
    """What was read of another member's file."""

    content: bytes
    address: str | None
    """None where there was none in it."""
    silent: int = 0
    """For so many looks nothing in it changed."""


class DirectorySource:
    """Keeps this process's own file, and reads those of others."""

    def __init__(self, where: Directory, around: Around) -> None:
        self.every_s = around.options.look_every_s
        self._path = Path(where.path).absolute()
        self._own = file_name(around.name)
        self._around = around
        self._looks = 0
        self._files: dict[str, _File] = {}
        self._at_work = Lock()
        self._gone = False

    async def look(self) -> frozenset[str]:
        self._looks += 1
        dead = {name: file.content for name, file in self._files.items() if self._is_dead(file)}
        contents = await asyncio.to_thread(self._exchange, f"{self._around.address} {self._looks}\n".encode(), dead)
        self._files = {name: self._judge(name, content) for name, content in contents.items()}
        return frozenset(file.address for file in self._files.values() if file.address and not self._is_dead(file))

    async def leave(self) -> None:
        await asyncio.to_thread(self._withdraw)

    def _judge(self, name: str, content: bytes) -> _File:
        before = self._files.get(name)
        if before and before.content == content:
            before.silent += 1
            return before
        address = read_content(content)
        if address is None:
            self._around.drop("directory: not an address")
        return _File(content, address)

    def _is_dead(self, file: _File) -> bool:
        return file.address is not None and file.silent > self._around.options.silent_looks_max

    # --- in a thread

    def _exchange(self, own: bytes, dead: Mapping[str, bytes]) -> dict[str, bytes]:
        """Write this process's file, remove those of the dead, and return what stands in the others."""
        with self._at_work:
            if self._gone:
                return {}
            self._write(own)
            contents = self._read_all()
            for name in [name for name, content in contents.items() if dead.get(name) == content]:
                (self._path / name).unlink(missing_ok=True)
                del contents[name]
            return contents

    def _write(self, content: bytes) -> None:
        fresh = self._path / f".{self._own}.tmp"
        descriptor = os.open(fresh, _OPEN | os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with open(descriptor, "wb") as file:
            file.write(content)
        fresh.replace(self._path / self._own)

    def _read_all(self) -> dict[str, bytes]:
        most = self._around.options.addresses_max
        with os.scandir(self._path) as entries:
            names: Iterable[str] = (entry.name for entry in entries)
            chosen = nsmallest(most + 1, (name for name in names if name.endswith(SUFFIX) and name != self._own))
        if len(chosen) > most:
            self._around.drop("directory: too many files")
        contents = {}
        for name in chosen[:most]:
            with suppress(FileNotFoundError):
                contents[name] = _content(self._path / name)
        return contents

    def _withdraw(self) -> None:
        with self._at_work:
            self._gone = True
            (self._path / self._own).unlink(missing_ok=True)


def file_name(name: str) -> str:
    """Return the name of the file of the member of that name."""
    file = quote(name, safe="") + SUFFIX
    if len(file) > FILE_NAME_BYTES_MAX:
        raise MisuseError(f"no file can be named after {name!r}; give this process a shorter name")
    return file


def _content(path: Path) -> bytes:
    """Return what stands in a file, or nothing where it is none that can be read."""
    try:
        descriptor = os.open(path, _OPEN | os.O_RDONLY)
    except FileNotFoundError:
        raise
    except OSError:
        return b""
    try:
        return os.read(descriptor, CONTENT_BYTES_MAX + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)


def read_content(content: bytes) -> str | None:
    """Return the address that a member wrote, with the number of its look behind it."""
    address, _, number = content.removesuffix(b"\n").partition(b" ")
    if len(content) > CONTENT_BYTES_MAX or not number.isdigit():
        return None
    try:
        return read_address(address.decode())
    except ValueError:  # MisuseError and UnicodeDecodeError are
        return None
