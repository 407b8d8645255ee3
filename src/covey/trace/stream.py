"""The append-only stream, `*.rows`: what a live member writes, and what a crash leaves behind.

    magic and version, 8 bytes | batch | batch | ...
    batch: length of the payload, its CRC-32, CRC-32 of these 8 bytes (each 4 bytes, little-endian),
           then the payload: a msgpack array of rows, each a map from column to value

A batch is what one flush handed over. A process killed by SIGKILL leaves all its complete batches
and at most one torn one, at the end: nothing of that can have been seen by anyone, as the flush had
not returned. The checksum of the length is there so that a flipped bit in it reads as damage and
not as a torn end, which would lose the batches behind it without a word. After a power cut the
last batch may also end in zeros: that counts as torn, any other batch with a wrong checksum is damage.
"""

import struct
import zlib
from collections.abc import Iterator
from io import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from covey.trace.errors import TraceError

VERSION = 1
MAGIC = b"COVEYRS" + bytes([VERSION])

_LENGTHS = struct.Struct("<II")
_CHECK = struct.Struct("<I")
_HEAD = _LENGTHS.size + _CHECK.size

DAMAGED = "restore it from a copy, or take what covey trace cat --unclosed prints before the damage as incomplete"


def frame(payload: bytes) -> bytes:
    """A batch as it is appended to a stream."""
    lengths = _LENGTHS.pack(len(payload), zlib.crc32(payload))
    return lengths + _CHECK.pack(zlib.crc32(lengths)) + payload


def read_stream(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of all complete batches."""
    with path.open("rb") as file:
        for payload in _batches(path, file):
            try:
                yield from msgspec.msgpack.decode(payload, type=list[dict[str, Any]])
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                raise TraceError(path, f"a batch of it is not a list of rows: {error}", DAMAGED) from None


def torn_bytes(path: Path) -> int:
    """How much stands behind the last complete batch: 0 when the stream ends with a whole one."""
    end = len(MAGIC)
    with path.open("rb") as file:
        for _ in _batches(path, file):
            end = file.tell()
        return max(0, file.seek(0, SEEK_END) - end)


def _batches(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Each complete batch; the file stands at its end meanwhile."""
    magic = file.read(len(MAGIC))
    if magic[:-1] == MAGIC[:-1] and magic[-1] > VERSION:
        raise TraceError(path, f"it has version {magic[-1]} of the stream format", "read it with a newer covey")
    if magic != MAGIC:
        if MAGIC.startswith(magic):
            return
        raise TraceError(path, "it is not a stream of trace rows", "remove it from the trace")
    while payload := _batch(path, file):
        yield payload


def _batch(path: Path, file: BinaryIO) -> bytes:
    """The next batch; empty at the end of the stream, torn or not."""
    start = file.tell()
    head = file.read(_HEAD)
    if len(head) < _HEAD:
        return b""
    length, checksum = _LENGTHS.unpack_from(head)
    found = head
    if zlib.crc32(head[: _LENGTHS.size]) == _CHECK.unpack_from(head, _LENGTHS.size)[0]:
        found = file.read(length)
        if len(found) < length:
            return b""
        if found and zlib.crc32(found) == checksum:
            return found
    if found.endswith(b"\0") and _only_zeros(file):
        return b""
    raise TraceError(path, f"the batch at byte {start} is damaged", DAMAGED)


def _only_zeros(file: BinaryIO) -> bool:
    """Whether nothing but zeros follows: what a power cut leaves of data that had not reached the disk."""
    return all(not chunk.strip(b"\0") for chunk in iter(lambda: file.read(1 << 16), b""))
