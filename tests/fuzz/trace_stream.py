"""An append-only stream: its rows are read, or an error names the file; and only a torn end is passed over."""

import struct
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from covey.trace.errors import TraceError
from covey.trace.stream import MAGIC, frame, read_stream, torn_bytes
from tests.fuzz import fuzz
from tests.fuzz.trace_row import ROWS

MEMORY = Path("/dev/shm")
_home = TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
FILE = Path(_home.name) / "a.rows"

STRANGE = [b"\xdd\xff\xff\xff\xff", b"\x91\x81\xa1\xff\x01", b"\x91\x81\xa1a" + b"\x91" * 2000 + b"\x01"]
"""Payloads that hold no rows: a length that is not there, a name that is no text, lists too deep."""
BATCHES = [msgspec.msgpack.encode(ROWS[:3]), msgspec.msgpack.encode(ROWS[3:])]


def seeds() -> list[bytes]:
    """The first byte says how to take the rest: as it is, or as payloads that are to be framed rightly."""
    whole = MAGIC + b"".join(map(frame, BATCHES))
    return [
        b"\0" + whole,
        b"\0" + whole[:-5],
        b"\0" + whole + bytes(20),
        b"\0" + MAGIC[:-1] + b"\x09",
        b"\0" + MAGIC[:3],
        b"\1" + b"".join(map(sized, BATCHES)),
        *(b"\1" + sized(payload) for payload in STRANGE),
    ]


def sized(payload: bytes) -> bytes:
    return struct.pack("<H", len(payload)) + payload


def stream(data: bytes) -> bytes:
    if data[:1] != b"\1":
        return data[1:]
    at, whole = 1, MAGIC
    while at + 2 <= len(data):
        (size,) = struct.unpack_from("<H", data, at)
        whole += frame(data[at + 2 : at + 2 + size])
        at += 2 + size
    return whole


def read(data: bytes) -> tuple[list[dict[str, Any]], int] | str:
    """The rows of a stream and how many bytes of it are torn, or what is wrong."""
    FILE.write_bytes(data)
    try:
        return list(read_stream(FILE)), torn_bytes(FILE)
    except TraceError as error:
        return str(error)


def one_input(data: bytes) -> None:
    whole = stream(data)
    found = read(whole)
    if isinstance(found, str):
        assert found.startswith(f"{FILE}: ")
        return
    rows, torn = found
    assert 0 <= torn <= len(whole)
    complete = whole[: len(whole) - torn]
    if complete.startswith(MAGIC):
        assert repr(read(complete)) == repr((rows, 0))
        next_batch = frame(BATCHES[0])
        assert repr(read(complete + next_batch[:-1])) == repr((rows, len(next_batch) - 1))


if __name__ == "__main__":
    fuzz(seeds, one_input)
