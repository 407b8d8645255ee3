"""Close a stream: turn `*.rows` into the file that readers take.

Done by the recorder at the end of a process or when it rotates, and by `covey trace convert` where a
process was killed. The new file is complete and on the disk before it gets its name, and has its
name before the stream is removed; if this process dies in between, doing it again finishes it.
"""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from covey.trace.errors import Place, TraceError
from covey.trace.files import sync
from covey.trace.jsonl import read_lines, write_lines
from covey.trace.parquet import have_arrow, read_parquet, write_parquet
from covey.trace.row import Columns, parse_row
from covey.trace.stream import read_stream, torn_bytes


class Closed(NamedTuple):
    """What became of a stream."""

    source: Path
    target: Path | None
    """None where the stream had no rows: then there is no file."""
    rows: int
    torn_bytes: int
    """What was left out: the unfinished batch of a process that was killed."""
    without_arrow: bool
    """Whether it is JSON Lines because pyarrow is missing."""


def close_stream(path: Path, format: str = "parquet") -> Closed:
    """Close a stream that nobody appends to any more.

    Into Parquet its rows are checked. Into JSON Lines they are not: there a row that some bug made
    can be seen, and mended by hand.
    """
    without_arrow = format == "parquet" and not have_arrow()
    suffix = ".jsonl" if format == "jsonl" or without_arrow else ".parquet"
    target = path.with_suffix(suffix)
    torn = torn_bytes(path)
    rows = _already_closed(path, target) if target.exists() else _write(path, target)
    path.unlink()
    sync(path.parent)
    return Closed(path, target if rows else None, rows, torn, without_arrow)


def _write(path: Path, target: Path) -> int:
    if next(read_stream(path), None) is None:
        return 0
    write = write_lines if target.suffix == ".jsonl" else write_parquet
    return write(target, _rows(path, target))


def _rows(path: Path, target: Path) -> Iterator[Columns]:
    """What the target holds of the stream."""
    for number, columns in enumerate(read_stream(path), start=1):
        yield columns if target.suffix == ".jsonl" else parse_row(columns, path, number).columns


def _already_closed(path: Path, target: Path) -> int:
    """How many rows the target has, which must be those of the stream."""
    read = read_lines if target.suffix == ".jsonl" else read_parquet
    number = 0
    for number, (ours, theirs) in enumerate(zip_longest(_rows(path, target), read(target)), start=1):
        if ours != theirs:
            what = f"{target.name} is there already, and does not have this row there"
            raise TraceError(Place(path, number), what, "move one of the two files elsewhere")
    return number
