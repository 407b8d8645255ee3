"""What is wrong with a trace, where, and what to do about it."""

from pathlib import Path
from typing import NamedTuple

from covey.kernel.errors import WorldError

MEND = "correct the program that wrote it: docs/reference/trace.md has the columns of every event"


class Place(NamedTuple):
    """Where a row stands; `number` counts from 1: lines of JSON Lines, rows of the other encodings."""

    file: Path
    number: int

    def __str__(self) -> str:
        unit = "line" if self.file.suffix == ".jsonl" else "row"
        return f"{self.file}, {unit} {self.number}"


class TraceError(WorldError):
    """A trace that cannot be trusted: nothing is concluded from it."""

    def __init__(self, where: Place | Path, what: str, remedy: str = MEND) -> None:
        super().__init__(f"{where}: {what}; {remedy}")
        self.file = where.file if isinstance(where, Place) else where
        self.number = where.number if isinstance(where, Place) else None
        self.what = what
        self.remedy = remedy
