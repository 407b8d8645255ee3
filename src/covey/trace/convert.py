"""Convert a trace, and put in order what a crash left behind."""

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from covey.kernel.errors import MisuseError, WorldError
from covey.trace.closing import Closed, close_stream
from covey.trace.errors import TraceError
from covey.trace.files import STREAM, SUFFIXES, being_written, held, trace_files
from covey.trace.jsonl import CUT_SHORT, decode_line, write_lines
from covey.trace.parquet import write_parquet
from covey.trace.reader import closed_files, read_file
from covey.trace.row import Columns
from covey.trace.stream import torn_bytes


class Converted(NamedTuple):
    """One file and what was made of it."""

    source: Path
    target: Path
    rows: int
    torn_bytes: int


def close_streams(path: Path, format: str) -> Iterator[Closed | Path]:
    """Close every stream of a directory where it is; the path of one whose process still runs is yielded instead."""
    for stream in trace_files(path, STREAM):
        with held(stream) as ours:
            closed = close_stream(stream, format) if ours else stream
        yield closed


def convert_trace(source: Path, target: Path, format: str) -> Iterator[Converted]:
    """Write every file of a trace in another encoding, below `target`; the source stays as it is."""
    if target.resolve().is_relative_to(source.resolve()):
        raise MisuseError(f"{target} lies in {source}; converting into it would mix the two: choose another place")
    if target.exists() and trace_files(target, *SUFFIXES, STREAM):
        raise MisuseError(f"{target} holds a trace already; converting into it would mix the two: choose another place")
    files = closed_files(source, unclosed=True)
    refuse_live(files)
    taken: set[Path] = set()
    for file in files:
        place = target / (file.relative_to(source) if source.is_dir() else file.name)
        destination = place.with_suffix(f".{format}")
        while destination in taken:
            destination = destination.with_name(f"{destination.stem}{file.suffix}.{format}")
        taken.add(destination)
        destination.parent.mkdir(parents=True, exist_ok=True)
        write = write_parquet if format == "parquet" else write_lines
        rows = write(destination, _columns(file))
        yield Converted(file, destination, rows, torn_bytes(file) if file.suffix == STREAM else 0)


def trim(path: Path) -> Iterator[tuple[Path, int]]:
    """Cut the unfinished last line off the JSON Lines files that have one; yields file and bytes."""
    for file in trace_files(path, ".jsonl"):
        if size := _unfinished(file):
            refuse_live([file])
            with file.open("r+b") as handle:
                handle.truncate(file.stat().st_size - size)
            yield file, size


def refuse_live(files: list[Path]) -> None:
    """Raise unless all processes that write these files have ended."""
    for file in files:
        if being_written(file):
            raise WorldError(f"{file} is still being written; wait until its process has ended")


def _columns(file: Path) -> Iterator[Columns]:
    return (row.columns for row in read_file(file))


def _unfinished(file: Path) -> int:
    """The size of the last line, if the file ends in the middle of it."""
    with file.open("rb") as handle:
        line = next(iter(deque(handle, maxlen=1)), b"")
    if not line or line.endswith(b"\n"):
        return 0
    try:
        decode_line(line, file, 0)
    except TraceError as error:
        return len(line) if error.remedy == CUT_SHORT else 0
    return 0
