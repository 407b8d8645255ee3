"""The rules across rows, against a judge that writes every index down."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from covey.trace import Row, TraceError
from covey.trace.crosscheck import CrossCheck
from tests.trace.rows import HEADER, Columns, row, send

Files = dict[Path, list[Row]]


def files_of(*contents: list[Columns]) -> Files:
    """Rows as read from files a, b, c and so on."""
    paths = [Path(f"{name}.jsonl") for name in "abcdef"[: len(contents)]]
    return {
        path: [Row(columns, path, number) for number, columns in enumerate(rows, start=1)]
        for path, rows in zip(paths, contents, strict=True)
    }


def check(files: Files) -> None:
    judge = CrossCheck()
    for rows in files.values():
        for each in rows:
            judge.see(each)
    judge.finish(Path("."), lambda path: iter(files[path]))


def indexes(rows: list[Row]) -> Iterator[tuple[str, int, int]]:
    for each in rows:
        for index in range(each.index, each.index + each.count):
            yield each.process, index, each.incarnation


def is_good(rows: list[Row]) -> bool:
    """No index is used twice, and the indexes of a process grow with its incarnations."""
    used = sorted(indexes(rows))
    by_process = defaultdict(list)
    for process, _, incarnation in used:
        by_process[process].append(incarnation)
    unique = len({(process, index) for process, index, _ in used}) == len(used)
    return unique and all(incarnations == sorted(incarnations) for incarnations in by_process.values())


@st.composite
def some_files(draw: st.DrawFn) -> Files:
    """Members that number their rows as they should, in some files; then a few rows anywhere."""
    contents: list[list[Columns]] = [[], [], []]
    for process in "pq":
        index = 0
        for incarnation in (1, 2):
            for _ in range(draw(st.integers(0, 4))):
                index += draw(st.sampled_from([0, 0, 0, 3]))
                count = draw(st.integers(1, 4))
                columns = send(index, index, process=process, incarnation=incarnation, count=count)
                draw(st.sampled_from(contents)).append(columns)
                index += count
    for _ in range(draw(st.integers(0, 1))):
        columns = send(draw(st.integers(0, 20)), 99, incarnation=draw(st.integers(1, 3)), count=draw(st.integers(1, 3)))
        draw(st.sampled_from(contents)).append(columns)
    return files_of([HEADER], *(draw(st.permutations(rows)) for rows in contents))


@given(some_files())
def test_it_finds_what_writing_every_index_down_finds(files: Files) -> None:
    rows = [each for rows in files.values() for each in rows if each.event != "run"]
    good = is_good(rows)
    event("good" if good else "bad")
    if good:
        check(files)
        return
    with pytest.raises(TraceError) as caught:
        check(files)
    accused = next(each for each in rows if (each.file, each.number) == (caught.value.file, caught.value.number))
    assert not is_good([each for each in rows if each.process == accused.process])


def test_both_rows_that_use_an_index_are_named() -> None:
    files = files_of([HEADER, send(1, 1, count=5)], [row("start", 0), row("stop", 3)])
    with pytest.raises(TraceError, match=r"^b\.jsonl, line 2: index 3 of process 'p' .* used again: a\.jsonl, line 2 "):
        check(files)


def test_a_row_that_follows_in_another_file_is_found_there() -> None:
    files = files_of([HEADER, row("start", 1)], [row("flush", 2)], [row("stop", 2)])
    with pytest.raises(TraceError, match=r"^c\.jsonl, line 1: index 2 .* used again: b\.jsonl, line 1 "):
        check(files)


def test_only_the_first_headers_place_is_named() -> None:
    files = files_of([HEADER], [HEADER], [{**HEADER, "healed": True}])
    with pytest.raises(
        TraceError, match=r"^c\.jsonl, line 1: run 'r' has another header at a\.jsonl, line 1: healed is"
    ):
        check(files)


def test_consecutive_rows_of_a_file_take_no_memory() -> None:
    judge = CrossCheck()
    for each in files_of([HEADER, *(send(5 * n, n, count=5) for n in range(1000))])[Path("a.jsonl")]:
        judge.see(each)
    assert [len(extents) for extents in judge._extents.values()] == [1]


def test_a_good_trace_is_not_read_again() -> None:
    judge = CrossCheck()
    for each in files_of([HEADER, row("start", 1)])[Path("a.jsonl")]:
        judge.see(each)

    def read_again(path: Path) -> Iterator[Row]:
        raise AssertionError(path)

    judge.finish(Path("."), read_again)
