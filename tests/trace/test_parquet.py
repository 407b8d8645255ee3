"""Parquet holds the same rows, typed; a file from elsewhere is read as strictly as one of covey's."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.kernel.errors import WorldError
from covey.trace import TraceError, parquet, read_trace
from covey.trace.parquet import have_arrow, parquet_schema, read_parquet, write_parquet
from tests.trace.rows import HEADER, Columns, as_read, columns_of, places, random_rows, row, send


@settings(max_examples=60)
@given(st.lists(random_rows().map(as_read), max_size=5))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[Columns]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    assert write_parquet(path, iter(rows)) == len(rows)
    assert list(read_parquet(path)) == rows


def test_every_file_has_the_same_schema_whatever_its_rows_have(tmp_path: Path) -> None:
    for name, rows in (("a", [HEADER]), ("b", [send(1, 1, vt={"g": {"p": 1}}, rack=7)]), ("c", [])):
        write_parquet(tmp_path / f"{name}.parquet", rows)
        assert pq.read_schema(tmp_path / f"{name}.parquet").equals(parquet_schema())


@pytest.mark.parametrize(
    ("column", "type"),
    [
        ("run", pa.string()),
        ("incarnation", pa.int32()),
        ("index", pa.int64()),
        ("origin", pa.string()),
        ("origin_incarnation", pa.int32()),
        ("origin_number", pa.int64()),
        ("complete", pa.bool_()),
        ("members", pa.list_(pa.string())),
        ("model", pa.list_(pa.string())),
        ("vt", pa.map_(pa.string(), pa.map_(pa.string(), pa.int64()))),
        ("counters", pa.map_(pa.string(), pa.int64())),
        ("label", pa.string()),
        ("unknown_columns", pa.string()),
    ],
)
def test_a_column_has_the_type_that_the_format_page_says(tmp_path: Path, column: str, type: Any) -> None:
    write_parquet(tmp_path / "p.parquet", [HEADER])
    assert pq.read_schema(tmp_path / "p.parquet").field(column).type.equals(type)


def test_a_message_is_three_columns(tmp_path: Path) -> None:
    write_parquet(tmp_path / "p.parquet", [row("deliver", 1, message="a/b/2/3")])
    found = pq.read_table(tmp_path / "p.parquet")
    assert "message" not in found.column_names
    assert [found[name][0].as_py() for name in parquet.ORIGIN] == ["a/b", 2, 3]


def test_rows_are_numbered_through_all_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 5)
    monkeypatch.setattr(parquet, "_READ_ROWS", 2)
    path = tmp_path / "p.parquet"
    write_parquet(path, (send(n, n) for n in range(12)))
    assert pq.read_metadata(path).num_row_groups == 3
    assert places(read_trace(path)) == [f"{path}, row {n}" for n in range(1, 13)]
    assert [columns["index"] for columns in columns_of(path)] == list(range(12))


def test_a_file_that_cannot_be_finished_is_not_begun(tmp_path: Path) -> None:
    def rows() -> Any:
        yield HEADER
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_parquet(tmp_path / "p.parquet", rows())
    assert list(tmp_path.iterdir()) == []


# --- files from elsewhere

TWO: dict[str, Any] = {
    "run": ["r", "r"],
    "process": ["", "p"],
    "incarnation": [1, 1],
    "index": [0, 1],
    "time_ns": [0, 0],
    "group": ["", ""],
    "event": ["run", "send"],
    "model": ["evs", None],
    "complete": [False, None],
    "healed": [False, None],
    "origin": [None, "p"],
    "origin_incarnation": [None, 1],
    "origin_number": [None, 5],
}
"""A header and a send, in the types that Arrow takes them for."""


def foreign(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table({name: value for name, value in {**TWO, **columns}.items() if value is not None}), path)
    return path


def clocks(*pairs: tuple[str, list[tuple[str, int | None]]]) -> Any:
    return pa.array([None, [*pairs]], pa.map_(pa.string(), pa.map_(pa.string(), pa.int64())))


def test_a_file_from_elsewhere_is_read(tmp_path: Path) -> None:
    path = foreign(tmp_path / "p.parquet")
    assert columns_of(path) == [HEADER, send(1, 5, time_ns=0)]


@pytest.mark.parametrize(
    ("column", "value", "read"),
    [
        ("event", pa.array(["run", "send"]).dictionary_encode(), "send"),
        ("group", pa.array(["", "g"], pa.large_string()), "g"),
        ("size", pa.array([None, 7], pa.uint64()), 7),
        ("label", [None, [1, 2]], [1, 2]),
        ("label", [None, 5], 5),
        ("label", [None, '"b"'], "b"),
        ("vt", clocks(("g", [("p", 1)])), {"g": {"p": 1}}),
        ("dests", [None, []], []),
        ("rack", [None, {"row": [1.5]}], {"row": [1.5]}),
        ("when", pa.array([None, 0], pa.timestamp("us")), "1970-01-01T00:00:00"),
        ("unknown_columns", [None, '{"rack":[1]}'], None),
    ],
)
def test_a_column_may_come_in_another_type_that_says_the_same(
    tmp_path: Path, column: str, value: Any, read: Any
) -> None:
    second = columns_of(foreign(tmp_path / "p.parquet", **{column: value}))[1]
    assert second.get(column) == read
    if column == "unknown_columns":
        assert second["rack"] == [1]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"index": ["0", "1"]}, "row 1: column index: expected int, got str"),
        ({"index": [0, None]}, "row 2: a send row needs the column index"),
        ({"index": None}, "row 1: a run row needs the column index"),
        ({"event": None}, "row 1: the column event is missing"),
        ({"event": ["run", "elect"]}, "row 2: unknown event 'elect'"),
        ({"process": pa.array([b"", b"\xff"], pa.binary())}, "row 1: column process: expected str, got bytes"),
        ({"size": pa.array([None, 2**63], pa.uint64())}, "row 2: column size: expected int <="),
        ({"dests": [None, ["p", None]]}, r"row 2: column dests\[1\]: expected str, got null"),
        ({"origin_number": None}, "row 2: it has only some of origin, origin_incarnation, origin_number"),
        ({"origin_number": [None, 2.0]}, "row 2: column message: 'p/1/2.0' is not process/incarnation/number"),
        ({"vt": clocks(("g", [("p", 1), ("p", 2)]))}, "row 2: column vt: a key stands there twice"),
        ({"vt": clocks(("g", []), ("g", []))}, "row 2: column vt: a key stands there twice"),
        ({"vt": clocks(("g", [("p", None)]))}, r"row 2: column vt\[...\]\[...\]: expected int, got null"),
        ({"label": [None, "{"]}, "row 2: column label: not JSON"),
        ({"label": [None, "[" * 100_000]}, "row 2: column label: not JSON"),
        ({"label": [None, "1.5"]}, "row 2: column label: expected"),
        ({"unknown_columns": [None, "[1]"]}, "row 2: column unknown_columns: not a JSON object"),
        ({"unknown_columns": [None, '{"size":1}']}, "row 2: column unknown_columns: not a JSON object of columns that"),
        ({"rack": [1, 2], "unknown_columns": [None, '{"rack":1}']}, "row 2: column unknown_columns: not a JSON object"),
    ],
)
def test_a_malformed_row_is_an_error_with_file_and_row(tmp_path: Path, columns: Any, complaint: str) -> None:
    path = foreign(tmp_path / "p.parquet", **columns)
    with pytest.raises(TraceError, match=rf"p\.parquet, {complaint}"):
        columns_of(path)


def test_a_column_message_is_an_error(tmp_path: Path) -> None:
    path = foreign(tmp_path / "p.parquet", message=[None, "p/1/5"])
    with pytest.raises(TraceError, match=r"p\.parquet: it has a column message; in Parquet a message is origin, "):
        columns_of(path)


def test_two_columns_of_one_name_are_an_error(tmp_path: Path) -> None:
    names = [*TWO, "index"]
    arrays = [pa.array(TWO[name]) for name in names]
    pq.write_table(pa.Table.from_arrays(arrays, names=names), tmp_path / "p.parquet")
    with pytest.raises(TraceError, match="two of its columns have the same name"):
        columns_of(tmp_path / "p.parquet")


@pytest.mark.parametrize("data", [b"", b"PAR1", b'{"run":"r"}\n'])
def test_what_is_not_parquet_is_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "p.parquet").write_bytes(data)
    with pytest.raises(TraceError, match=r"p\.parquet: it is not readable as Parquet"):
        columns_of(tmp_path / "p.parquet")


def test_a_flipped_bit_in_the_data_never_gives_wrong_rows(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    write_parquet(path, [HEADER, *(send(n, n, config=f"v{n % 3}") for n in range(20))])
    whole, rows = path.read_bytes(), columns_of(path)
    chunk = pq.read_metadata(path).row_group(0).column(parquet_schema().get_field_index("config"))
    for at in range(chunk.dictionary_page_offset, chunk.dictionary_page_offset + chunk.total_compressed_size):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        with suppress(TraceError):
            assert columns_of(path) == rows


# --- without pyarrow


@pytest.mark.usefixtures("without_arrow")
def test_without_pyarrow_an_error_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "p.parquet").touch()
    assert not have_arrow()
    with pytest.raises(
        WorldError, match=r'Parquet needs pyarrow, which is not installed: pip install "covey\[trace\]"'
    ):
        columns_of(tmp_path)


def test_pyarrow_is_not_imported_before_it_is_needed() -> None:
    look = "import sys, covey.trace, covey.cli.trace; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], check=False).returncode == 0
