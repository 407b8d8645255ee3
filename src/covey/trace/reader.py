"""Read a trace, strictly: the first thing that is wrong ends it, named by file and line.

`read_trace` checks each row by itself, `read_checked` the rules across rows too, which it can only
say at the end: who draws conclusions uses the second, or does that check on its own.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from covey.trace.crosscheck import CrossCheck
from covey.trace.errors import TraceError
from covey.trace.files import STREAM, SUFFIXES, trace_files
from covey.trace.jsonl import read_lines
from covey.trace.parquet import read_parquet
from covey.trace.row import Columns, Row, parse_row
from covey.trace.stream import read_stream

_READERS: dict[str, Callable[[Path], Iterator[Columns]]] = {
    ".jsonl": read_lines,
    ".parquet": read_parquet,
    STREAM: read_stream,
}


def read_trace(path: str | Path, unclosed: bool = False) -> Iterator[Row]:
    """Every row of a trace, a directory or one file of it, each checked by itself.

    With `unclosed`, streams that are still written or were left behind are read as far as their
    batches are complete; otherwise they are an error, because rows would be missing.
    """
    files = closed_files(Path(path), unclosed)
    return (row for file in files for row in read_file(file))


def read_checked(path: str | Path) -> Iterator[Row]:
    """Every row of a trace; a TraceError at the end if they contradict one another."""
    check = CrossCheck()
    for row in read_trace(path):
        check.see(row)
        yield row
    check.finish(Path(path), read_file)


def check_trace(path: str | Path) -> None:
    """Raise a TraceError unless the trace can be trusted."""
    for _ in read_checked(path):
        pass


def read_file(file: Path) -> Iterator[Row]:
    """The rows of one file of a trace."""
    for number, columns in enumerate(_READERS[file.suffix](file), start=1):
        yield parse_row(columns, file, number)


def closed_files(path: Path, unclosed: bool = False) -> list[Path]:
    """The files of a trace; an error if there are none, or if a stream among them is not closed."""
    if not unclosed and (streams := trace_files(path, STREAM)):
        closing = f"run covey trace convert {path if path.is_dir() else path.parent}"
        raise TraceError(streams[0], "a stream that is not closed; its process still runs, or was killed", closing)
    files = trace_files(path, *SUFFIXES, *((STREAM,) if unclosed else ()))
    if not files:
        raise TraceError(path, "no trace here", "give a directory with *.jsonl or *.parquet files")
    return files
