"""JSON Lines: one row a line.

Reading is strict where JSON libraries are generous. A line that msgspec gives back byte for byte is
what it says. Any other (spaces, escapes, another way to write a number) is read a second time by
a parser that sees every key, because most parsers keep the last of two equal keys without a word.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from covey.kernel.errors import MisuseError
from covey.trace.errors import MEND, Place, TraceError
from covey.trace.files import replacing
from covey.trace.row import Columns, ordered

CUT_SHORT = (
    "such a file cannot be trusted; where its writer was killed by SIGKILL, nothing had seen that row, "
    "and `covey trace convert --trim` cuts it off"
)

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def encode_lines(rows: Iterable[Columns]) -> Iterator[bytes]:
    """Each row as a line; columns in the order of the format."""
    for row in rows:
        yield _encoder.encode(ordered(row)) + b"\n"


def write_lines(path: Path, rows: Iterable[Columns]) -> int:
    """Write a whole file, or none; returns how many rows it has."""
    count = 0
    with replacing(path) as temporary, temporary.open("wb") as file:
        for line in encode_lines(rows):
            file.write(line)
            count += 1
    return count


def read_lines(path: Path) -> Iterator[Columns]:
    """The columns of each line, unchecked but for being one JSON object without repeated keys."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield decode_line(line, path, number)


def decode_line(line: bytes, path: Path, number: int) -> Columns:
    """The columns of one line, which ends in a newline unless it is the last."""
    place = Place(path, number)
    text = line.rstrip(b"\r\n")
    try:
        columns = _decoder.decode(text)
        if _encoder.encode(columns) != text:
            json.loads(text, object_pairs_hook=_without_repeats)
    except MisuseError as error:
        raise TraceError(place, str(error), MEND) from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        if not line.endswith(b"\n"):
            raise TraceError(place, "the file ends in the middle of this row", CUT_SHORT) from None
        raise TraceError(place, _what_is_wrong(text, error), MEND) from None
    if not isinstance(columns, dict):
        raise TraceError(place, f"a row is a JSON object, not {text[:20].decode(errors='replace')}", MEND)
    return columns


def _what_is_wrong(text: bytes, error: Exception) -> str:
    if not text.strip():
        return "the line is empty"
    if text.startswith(b"\xef\xbb\xbf"):
        return "the file begins with a byte order mark"
    return f"it is not JSON: {error}"


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    columns = dict(pairs)
    if len(columns) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise MisuseError(f"the key {repeated!r} stands there twice")
    return columns
