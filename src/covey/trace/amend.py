"""What is added to a trace from outside, by someone who knows what its members could not.

`seal` says of whole runs that they came to rest (`complete`) and that all that was up could then
reach each other (`healed`). `add_fail` says that a process was killed.
"""

import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from covey.kernel.errors import MisuseError
from covey.trace.convert import refuse_live
from covey.trace.errors import TraceError
from covey.trace.files import replacing
from covey.trace.jsonl import decode_line
from covey.trace.parquet import rewrite_parquet
from covey.trace.reader import closed_files, read_trace
from covey.trace.recorder import INDEX_BITS, Recorder
from covey.trace.row import Row, ordered, parse_row
from covey.trace.sinks import JsonLinesSink


class Seal(NamedTuple):
    """What to write into the headers; None leaves a column as it is."""

    complete: bool | None
    healed: bool | None
    run: str | None = None
    """The only run to seal; None for all."""

    @property
    def columns(self) -> dict[str, bool]:
        terms = {"complete": self.complete, "healed": self.healed}
        return {name: value for name, value in terms.items() if value is not None}


def seal_trace(path: Path, seal: Seal) -> Iterator[tuple[Path, int]]:
    """Rewrite the headers of a trace, file by file, each as a whole; yields file and headers.

    All rows are read first: nothing is sealed that cannot be read. Sealing twice is sealing once, so
    what was interrupted is done again.
    """
    if not seal.columns:
        raise MisuseError("nothing to seal: say whether the runs are complete, or healed, or both")
    refuse_live(closed_files(path))
    headers: dict[Path, int] = {}
    for row in read_trace(path):
        if row.event == "run" and seal.run in (None, row.run):
            headers[row.file] = headers.get(row.file, 0) + 1
    if not headers:
        raise MisuseError(f"{path}: no header of run {seal.run!r}" if seal.run else f"{path}: no headers to seal")
    for file, count in headers.items():
        if file.suffix == ".parquet":
            rewrite_parquet(file, seal.columns, seal.run)
        else:
            _seal_lines(file, seal)
        yield file, count


def add_fail(path: Path, run: str, process: str, incarnation: int, config: str | None = None) -> Path:
    """Write the `fail` row of a killed process into a file of its own, and return its name."""
    if not path.is_dir():
        raise MisuseError(f"{path} is not a directory; give that of the trace, a fail row goes into a new file there")
    last = None
    for row in read_trace(path, unclosed=True):
        if row.event != "run" and (row.run, row.process) == (run, process):
            _refuse_other_numbers(row)
            if row.incarnation == incarnation:
                _refuse_ended(row)
                last = row if last is None or row.index > last.index else last
    if last is None:
        raise MisuseError(f"{path}: no row of incarnation {incarnation} of process {process!r} in run {run!r}")
    refuse_live([last.file])
    return _write_fail(path, last, config)


def _refuse_other_numbers(row: Row) -> None:
    """The fail row takes the last index of a live member's range, which says nothing where others are used."""
    if row.index >> INDEX_BITS != row.incarnation:
        raise TraceError(
            row.place,
            f"process {row.process!r} does not number its rows from incarnation * 2**{INDEX_BITS}",
            "write its fail row with the program that numbered them, between its last row and its next incarnation",
        )


def _refuse_ended(row: Row) -> None:
    if row.event == "fail" or (row.event == "stop" and row.columns["group"] == ""):
        raise MisuseError(f"{row.process}/{row.incarnation} has ended already: {row.event} at {row.place}")


def _write_fail(path: Path, last: Row, config: str | None) -> Path:
    """The row's time is the last that the process knew."""
    name = f"fail-{_readable(last.run)}-{_readable(last.process)}-{last.incarnation}"
    identity = f"{last.run}\0{last.process}\0{last.incarnation}".encode()
    sink = JsonLinesSink(path / f"{name}-{zlib.crc32(identity):08x}")
    with Recorder(sink) as recorder:
        member = recorder.member(last.run, last.process, last.incarnation)
        member.write_fail(last.columns["time_ns"], config)
    return sink.path


def _readable(text: str) -> str:
    """What of a name can stand in a file's name."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text)[:40]


def _seal_lines(file: Path, seal: Seal) -> None:
    """Rewrite the header lines; all others stay as they are, to the byte."""
    with replacing(file) as temporary, file.open("rb") as source, temporary.open("wb") as target:
        for number, line in enumerate(source, start=1):
            target.write(_sealed(line, file, number, seal))


def _sealed(line: bytes, file: Path, number: int, seal: Seal) -> bytes:
    columns: dict[str, Any] = decode_line(line, file, number)
    if columns["event"] != "run" or seal.run not in (None, columns["run"]):
        return line
    return msgspec.json.encode(ordered(parse_row({**columns, **seal.columns}, file, number).columns)) + b"\n"
