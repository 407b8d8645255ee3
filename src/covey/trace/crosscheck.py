"""The rules that no row can break alone.

Every run has a header, and all its headers are equal. No index of a process is used twice, where a
row with a count uses as many as it stands for. All indexes of an incarnation are above those of
the incarnations before.

Rows come in any order, and there may be a billion: what is kept of them is *extents*, stretches of
consecutive indexes of one incarnation from one file. A trace that a recorder wrote has a few for
each process. Only where two of them overlap are the rows read again, to name the lines.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from covey.trace.errors import Place, TraceError
from covey.trace.row import Row


class Extent:
    """Indexes `first` to `last`, written in one file between two lines."""

    __slots__ = ("file", "first", "first_number", "last", "last_number")

    def __init__(self, row: Row) -> None:
        self.file = row.file
        self.first = row.index
        self.last = row.last
        self.first_number = self.last_number = row.number

    def takes(self, row: Row) -> bool:
        """Add the row if it follows directly."""
        columns = row.columns
        index = columns["index"]
        if index != self.last + 1 or row.file is not self.file:
            return False
        self.last = index + columns.get("count", 1) - 1
        self.last_number = row.number
        return True

    @property
    def begins(self) -> Place:
        return Place(self.file, self.first_number)

    @property
    def ends(self) -> Place:
        return Place(self.file, self.last_number)


Reader = Callable[[Path], Iterator[Row]]


class CrossCheck:
    """Sees every row once, in any order, and judges them together."""

    def __init__(self) -> None:
        self._headers: dict[str, Row] = {}
        self._extents: dict[tuple[str, str, int], list[Extent]] = {}

    def see(self, row: Row) -> None:
        """Take a row into account."""
        columns = row.columns
        if columns["event"] == "run":
            self._see_header(row)
            return
        key = (columns["run"], columns["process"], columns["incarnation"])
        extents = self._extents.get(key)
        if extents is None:
            extents = self._extents[key] = []
        if not extents or not extents[-1].takes(row):
            extents.append(Extent(row))

    def finish(self, path: Path, read_file: Reader) -> None:
        """Raise a TraceError if the rows seen contradict one another."""
        if not self._headers and not self._extents:
            raise TraceError(path, "the trace has no rows", "run what is to be judged with a recorder")
        processes: dict[tuple[str, str], dict[int, list[Extent]]] = {}
        for (run, process, incarnation), extents in self._extents.items():
            if run not in self._headers:
                raise _no_header(run, extents[0])
            _check_unique(run, process, extents, read_file)
            processes.setdefault((run, process), {})[incarnation] = extents
        for (run, process), incarnations in processes.items():
            _check_incarnations(run, process, incarnations)

    def _see_header(self, row: Row) -> None:
        first = self._headers.setdefault(row.run, row)
        if first is not row and _terms(first) != _terms(row):
            raise TraceError(
                row.place,
                f"run {row.run!r} has another header at {first.place}: {_difference(first, row)}",
                "seal the whole trace at once, and give each execution a run of its own",
            )


def _terms(header: Row) -> dict[str, object]:
    """What headers of one run must agree on; lists are sets here."""
    terms = {name: header.columns.get(name) for name in ("model", "complete", "healed", "universe")}
    return {name: set(value) if isinstance(value, list) else value for name, value in terms.items()}


def _difference(first: Row, second: Row) -> str:
    ours, theirs = _terms(first), _terms(second)
    name = next(name for name in ours if ours[name] != theirs[name])
    return f"{name} is {first.columns.get(name)} there and {second.columns.get(name)} here"


def _no_header(run: str, extent: Extent) -> TraceError:
    remedy = "every member writes a `run` row first; was a file left out?"
    return TraceError(extent.begins, f"run {run!r} has no header", remedy)


def _check_unique(run: str, process: str, extents: list[Extent], read_file: Reader) -> None:
    extents.sort(key=lambda extent: (extent.first, extent.file, extent.first_number))
    for one, other in pairwise(extents):
        if other.first <= one.last:
            raise _duplicate(run, process, other.first, (one, other), read_file)


def _duplicate(run: str, process: str, index: int, extents: Iterable[Extent], read_file: Reader) -> TraceError:
    """Two rows with that index: the lines are found by reading the files of both stretches again."""
    found = [
        row.place
        for file in sorted({extent.file for extent in extents})
        for row in read_file(file)
        if row.index <= index <= row.last and (row.run, row.process) == (run, process)
    ]
    return TraceError(
        found[-1],
        f"index {index} of process {process!r} in run {run!r} is used again: {found[0]} has it",
        "number the rows of a process over all its files; is a file there twice, or a run used twice?",
    )


def _check_incarnations(run: str, process: str, incarnations: dict[int, list[Extent]]) -> None:
    for earlier, later in pairwise(sorted(incarnations)):
        top = max(incarnations[earlier], key=lambda extent: extent.last)
        low = min(incarnations[later], key=lambda extent: extent.first)
        if low.first <= top.last:
            raise TraceError(
                low.begins,
                f"index {low.first} of incarnation {later} of process {process!r} in run {run!r} is not above index "
                f"{top.last} of incarnation {earlier}, at {top.ends}",
                "an incarnation's indexes are above all those before: number them from incarnation * 2**32",
            )
