"""Where a recorder's rows go: memory, JSON Lines, or a stream that becomes Parquet."""

import warnings
from pathlib import Path
from typing import Any, Literal

import msgspec

from covey.kernel.errors import MisuseError
from covey.trace.closing import close_stream
from covey.trace.files import STREAM, SUFFIXES, AppendFile, already_there, with_suffix
from covey.trace.recorder import Sink
from covey.trace.stream import MAGIC, frame

# Sets and dicts are sorted while they are encoded: no hash order and no history shows in the bytes.
_JSON = msgspec.json.Encoder(order="deterministic")
_MSGPACK = msgspec.msgpack.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder()

PENDING_ROWS = 16384
"""A sink that is never asked to flush holds no more rows than this in memory."""


class MemorySink:
    """Keeps the rows, as the dicts that a reader of a file would give."""

    def __init__(self) -> None:
        self.pending: list[Any] = []
        self.limit = PENDING_ROWS
        self._rows: list[dict[str, Any]] = []

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows so far, flushed or not."""
        self.flush()
        return self._rows

    def flush(self) -> None:
        """Turn what is pending into dicts."""
        if self.pending:
            self._rows += _DECODER.decode_lines(_encode(_JSON.encode_lines, self.pending))
            self.pending.clear()

    def close(self) -> None:
        """Flush; the rows stay."""
        self.flush()


class JsonLinesSink:
    """Writes one `*.jsonl` file; the same rows give the same bytes."""

    def __init__(self, path: str | Path) -> None:
        self.path = with_suffix(Path(path), ".jsonl")
        self.pending: list[Any] = []
        self.limit = PENDING_ROWS
        self._file = AppendFile(self.path)

    def flush(self) -> None:
        """Append what is pending."""
        if self.pending:
            self._file.append(_encode(_JSON.encode_lines, self.pending))
            self.pending.clear()

    def close(self) -> None:
        """Append what is pending and let go of the file."""
        self.flush()
        self._file.close()


class StreamSink:
    """Writes an append-only stream, `*.rows`, that becomes a `*.parquet` file when it is closed.

    Writing it takes no pyarrow and costs no more than JSON Lines; the expensive encoding waits. With
    `rotate_rows` a stream that has reached so many rows is closed, there and then, and the next
    one begun: NAME.1.rows, NAME.2.rows and so on. Without pyarrow a stream is closed into JSON
    Lines, with a warning.
    """

    def __init__(self, path: str | Path, rotate_rows: int | None = None) -> None:
        if rotate_rows is not None and rotate_rows < 1:
            raise MisuseError(f"rotate_rows is {rotate_rows}; a stream holds at least one row")
        self.path = with_suffix(Path(path), STREAM)
        self.pending: list[Any] = []
        self.limit = PENDING_ROWS
        self._rotate_rows = rotate_rows
        self._part = 0
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._part += 1
        path = self.path
        if self._rotate_rows is not None:
            path = path.with_suffix(f".{self._part}{STREAM}")
        for suffix in SUFFIXES:
            if path.with_suffix(suffix).exists():
                raise already_there(path.with_suffix(suffix))
        self._file = AppendFile(path)
        self._rows = 0

    def flush(self) -> None:
        """Append what is pending as one batch."""
        if not self.pending:
            return
        batch = frame(_encode(_MSGPACK.encode, self.pending))
        self._file.append(batch if self._rows else MAGIC + batch)
        self._rows += len(self.pending)
        self.pending.clear()
        if self._rotate_rows is not None and self._rows >= self._rotate_rows:
            full = self._file
            self._begin()
            self._finish(full)

    def close(self) -> None:
        """Append what is pending and close the stream into Parquet; a stream without rows is removed."""
        if not self._closed:
            self.flush()
            self._finish(self._file)
            self._closed = True

    def _finish(self, file: AppendFile) -> None:
        try:
            closed = close_stream(file.path)
        finally:
            file.close()
        if closed.without_arrow:
            warnings.warn(
                f"pyarrow is not installed, so {closed.source} was closed into JSON Lines; "
                'for Parquet: pip install "covey[trace]"',
                stacklevel=4,
            )


def open_sink(path: str | Path, format: Literal["jsonl", "parquet"] = "jsonl", rotate_rows: int | None = None) -> Sink:
    """The sink for a file of that format; the suffix may be left out of the path."""
    if format == "jsonl":
        if rotate_rows is not None:
            raise MisuseError("only format parquet rotates: JSON Lines stay one file")
        return JsonLinesSink(path)
    if format == "parquet":
        return StreamSink(path, rotate_rows)
    raise MisuseError(f"unknown trace format {format!r}; the formats are jsonl and parquet")


def _encode(encode: Any, rows: list[Any]) -> bytes:
    """Encode them all; where that fails, name the row and leave it out, so that the others are not lost."""
    try:
        return bytes(encode(rows))
    except (TypeError, UnicodeEncodeError, OverflowError) as error:
        for at, row in enumerate(rows):
            try:
                encode([row])
            except (TypeError, UnicodeEncodeError, OverflowError):
                del rows[at]
                what = f"the {row.event} row {row.index} of {row.process}/{row.incarnation}"
                raise MisuseError(f"{what} cannot be written down: {error}") from error
        raise
