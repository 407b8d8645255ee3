"""What a stream gives back after a crash or damage: complete batches, or an error, never wrong rows."""

import zlib
from io import BytesIO
from itertools import accumulate
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.trace import TraceError
from covey.trace.stream import MAGIC, VERSION, frame, read_stream, torn_bytes
from tests.trace.rows import Columns, row, send

BATCHES = [
    [row("start", 1)],
    [send(2, 1, count=3), row("deliver", 5, message="p/1/1", count=3, ordinal=4)],
    [row("stop", 8, config="v1")],
]
FRAMES = [frame(msgspec.msgpack.encode(batch)) for batch in BATCHES]
WHOLE = MAGIC + b"".join(FRAMES)
ENDS = [*accumulate(map(len, FRAMES), initial=len(MAGIC))]
"""Where each batch ends, after 0, 1, 2 and 3 of them."""


def rows_of(batches: int) -> list[Columns]:
    return [columns for batch in BATCHES[:batches] for columns in batch]


class InMemory(type(Path())):  # type: ignore[misc]
    """A file that takes no disk: the tests below read thousands."""

    data: bytes

    def open(self, mode: str = "rb") -> BytesIO:  # type: ignore[override]
        return BytesIO(self.data)


@pytest.fixture
def path() -> InMemory:
    return InMemory("out/p.rows")


def read(path: InMemory, data: bytes) -> list[Columns]:
    path.data = data
    return list(read_stream(path))


def test_a_whole_stream_gives_all_its_rows(path: InMemory) -> None:
    assert (read(path, WHOLE), torn_bytes(path)) == (rows_of(3), 0)


def test_a_stream_torn_at_any_byte_gives_its_complete_batches(path: InMemory) -> None:
    for size in range(len(WHOLE) + 1):
        complete = sum(end <= size for end in ENDS[1:])
        assert read(path, WHOLE[:size]) == rows_of(complete)
        assert torn_bytes(path) == max(0, size - ENDS[complete])


@pytest.mark.parametrize("more", [0, 1, 70_000])
def test_a_stream_whose_end_a_power_cut_made_zeros_gives_its_complete_batches(path: InMemory, more: int) -> None:
    for size in range(len(MAGIC), len(WHOLE) + 1):
        torn = WHOLE[:size] + bytes(len(WHOLE) - size + more)
        complete = sum(torn.startswith(WHOLE[:end]) for end in ENDS[1:])
        assert read(path, torn) == rows_of(complete)


def test_a_flipped_bit_is_an_error_and_never_gives_wrong_rows(path: InMemory) -> None:
    for at in range(len(WHOLE)):
        for bit in range(8):
            damaged = bytearray(WHOLE)
            damaged[at] ^= 1 << bit
            with pytest.raises(TraceError, match=r"^out/p\.rows: "):
                read(path, bytes(damaged))


@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=20), st.integers(0, 20))
def test_whatever_becomes_of_a_stream_it_gives_no_wrong_rows(at: int, put: bytes, taken: int) -> None:
    path = InMemory("out/p.rows")
    try:
        found = read(path, WHOLE[:at] + put + WHOLE[at + taken :])
    except TraceError:
        return
    assert found in [rows_of(batches) for batches in range(4)]


def test_damage_is_told_with_file_and_byte(path: InMemory) -> None:
    damaged = bytearray(WHOLE)
    damaged[ENDS[1] + 15] ^= 1
    with pytest.raises(TraceError, match=rf"p\.rows: the batch at byte {ENDS[1]} is damaged; .*restore it"):
        read(path, bytes(damaged))


def test_the_rows_before_the_damage_are_read(path: InMemory) -> None:
    path.data = WHOLE[:-1] + b"?"
    rows = read_stream(path)
    assert [next(rows) for _ in rows_of(2)] == rows_of(2)
    with pytest.raises(TraceError, match="damaged"):
        next(rows)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"PAR1", "it is not a stream of trace rows"),
        (MAGIC[:-1] + b"\0", "it is not a stream of trace rows"),
        (MAGIC[:-1] + bytes([VERSION + 1]), "it has version 2 of the stream format; read it with a newer covey"),
        (MAGIC + frame(b"\xc1"), "a batch of it is not a list of rows"),
        (MAGIC + frame(msgspec.msgpack.encode({"a": 1})), "a batch of it is not a list of rows"),
        (MAGIC + frame(msgspec.msgpack.encode([1])), "a batch of it is not a list of rows"),
        (MAGIC + frame(msgspec.msgpack.encode([{1: 1}])), "a batch of it is not a list of rows"),
        (MAGIC + frame(b""), "the batch at byte 8 is damaged"),
    ],
)
def test_what_is_no_stream_of_rows_is_an_error(path: InMemory, data: bytes, complaint: str) -> None:
    with pytest.raises(TraceError, match=rf"p\.rows: {complaint}"):
        read(path, data)


def with_good_checksums(length: int, payload: bytes) -> bytes:
    lengths = length.to_bytes(4, "little") + zlib.crc32(payload).to_bytes(4, "little")
    return lengths + zlib.crc32(lengths).to_bytes(4, "little") + payload


def test_a_frame_is_what_the_module_says_it_is() -> None:
    assert frame(b"rows") == with_good_checksums(4, b"rows")
