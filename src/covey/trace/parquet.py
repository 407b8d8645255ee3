"""Parquet: the same columns, typed. The only module that needs pyarrow, and only when called.

Every file has the same schema, so that Spark reads a directory of them as one table:

- a message is three columns, `origin`, `origin_incarnation` and `origin_number`;
- `vt` and `counters` are maps, `members`, `dests`, `universe`, `model` and `master` lists of strings;
- `label`, of three types, is a string that holds JSON (a file where it is a number or a list is read too);
- unknown columns share one string, `unknown_columns`, that holds them as a JSON object.

The two that hold JSON are marked so in their field's metadata, for people and tools; the reader
goes by name, because not every program that copies Parquet keeps the metadata.
"""

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from covey.kernel.errors import WorldError
from covey.trace.errors import MEND, Place, TraceError
from covey.trace.files import replacing
from covey.trace.row import Columns
from covey.trace.schema import COLUMNS

GROUP_ROWS = 65536
"""Rows of one row group: what is in memory at a time."""

UNKNOWN = "unknown_columns"
ORIGIN = ("origin", "origin_incarnation", "origin_number")

DAMAGED = "restore it or write it again"

_READ_ROWS = 8192
_JSON = {b"covey": b"json"}


def have_arrow() -> bool:
    """Whether Parquet can be read and written here."""
    try:
        _arrow()
    except WorldError:
        return False
    return True


def parquet_schema() -> Any:
    """The schema of every Parquet file that covey writes."""
    pa = _arrow()
    count = pa.map_(pa.string(), pa.int64())
    types = {
        "string": pa.string(),
        "json": pa.string(),
        "int": pa.int32(),
        "long": pa.int64(),
        "bool": pa.bool_(),
        "strings": pa.list_(pa.string()),
        "counts": count,
        "clocks": pa.map_(pa.string(), count),
    }
    fields: list[Any] = []
    for name, column in COLUMNS.items():
        if column.arrow == "message":
            fields += zip(ORIGIN, (types["string"], types["int"], types["long"]), strict=True)
        else:
            fields.append(pa.field(name, types[column.arrow], metadata=_JSON if column.arrow == "json" else None))
    fields.append(pa.field(UNKNOWN, pa.string(), metadata=_JSON))
    return pa.schema(fields, metadata={"covey": "trace 1"})


def write_parquet(path: Path, rows: Iterable[Columns]) -> int:
    """Write checked rows to a whole file, or none; returns how many there were."""
    count = 0
    with replacing(path) as temporary, _writer(temporary, parquet_schema()) as writer:
        for batch in batches_of(rows):
            writer.write_batch(batch)
            count += len(batch)
    return count


def batches_of(rows: Iterable[Columns]) -> Iterator[Any]:
    """Checked rows as Arrow batches, in the schema of the files."""
    schema = parquet_schema()
    remaining = iter(rows)
    while chunk := list(islice(remaining, GROUP_ROWS)):
        yield _batch(chunk, schema)


def read_parquet(path: Path) -> Iterator[Columns]:
    """The columns of each row, as JSON Lines would give them; types are not checked here."""
    pa = _arrow()
    try:
        with pa.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            _check_names(path, file.schema_arrow.names)
            first = 1
            for batch in file.iter_batches(_READ_ROWS):
                yield from _rows(batch, path, first)
                first += batch.num_rows
            if first - 1 != file.metadata.num_rows:
                what = f"only {first - 1} of its {file.metadata.num_rows} rows can be read"
                raise TraceError(path, what, DAMAGED)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise TraceError(path, f"it is not readable as Parquet: {error}", DAMAGED) from error


def rewrite_parquet(path: Path, terms: dict[str, bool], run: str | None) -> None:
    """Set columns in the headers, of one run or of all; everything else stays as it is, foreign columns too."""
    pa = _arrow()
    compute = import_module("pyarrow.compute")
    with (
        replacing(path) as temporary,
        pa.parquet.ParquetFile(path) as file,
        _writer(temporary, file.schema_arrow) as writer,
    ):
        for batch in file.iter_batches(GROUP_ROWS):
            chosen = compute.equal(batch.column("event"), "run")
            if run is not None:
                chosen = compute.and_(chosen, compute.equal(batch.column("run"), run))
            for name, value in terms.items():
                position = batch.schema.get_field_index(name)
                changed = compute.if_else(chosen, pa.scalar(value), batch.column(position))
                batch = batch.set_column(position, batch.schema.field(position), changed)
            writer.write_batch(batch)


def _arrow() -> Any:
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError:
        raise WorldError('Parquet needs pyarrow, which is not installed: pip install "covey[trace]"') from None


def _writer(path: Path, schema: Any) -> Any:
    return _arrow().parquet.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True)


def _batch(rows: list[Columns], schema: Any) -> Any:
    """The rows as Arrow columns; a column that none of them has costs nothing."""
    pa = _arrow()
    flat = [_flatten(row) for row in rows]
    present = set().union(*flat)
    arrays = [
        pa.array([row.get(field.name) for row in flat], field.type)
        if field.name in present
        else pa.nulls(len(flat), field.type)
        for field in schema
    ]
    return pa.record_batch(arrays, schema=schema)


def _flatten(columns: Columns) -> Columns:
    """A row as its Parquet columns."""
    flat = {name: value for name, value in columns.items() if name in COLUMNS}
    if len(flat) != len(columns):
        unknown = {name: value for name, value in columns.items() if name not in COLUMNS}
        flat[UNKNOWN] = msgspec.json.encode(unknown).decode()
    if "message" in flat:
        origin, incarnation, number = flat.pop("message").rsplit("/", 2)
        flat["origin"], flat["origin_incarnation"], flat["origin_number"] = origin, int(incarnation), int(number)
    if "label" in flat:
        flat["label"] = msgspec.json.encode(flat["label"]).decode()
    if "counters" in flat:
        flat["counters"] = list(flat["counters"].items())
    if "vt" in flat:
        flat["vt"] = [(group, list(counts.items())) for group, counts in flat["vt"].items()]
    return flat


def _check_names(path: Path, names: list[str]) -> None:
    if "message" in names:
        raise TraceError(path, "it has a column message; in Parquet a message is " + ", ".join(ORIGIN), MEND)
    if len(set(names)) != len(names):
        raise TraceError(path, "two of its columns have the same name", MEND)


def _rows(batch: Any, path: Path, first: int) -> Iterator[Columns]:
    """The rows of a batch, without the nulls."""
    names = [
        name for name, column in zip(batch.schema.names, batch.columns, strict=True) if column.null_count < len(batch)
    ]
    values = [_values(name, batch.column(name), path, first) for name in names]
    special = not {*ORIGIN, "label", UNKNOWN}.isdisjoint(names)
    for number, row in enumerate(zip(*values, strict=True), start=first):
        columns = {name: value for name, value in zip(names, row, strict=True) if value is not None}
        if special:
            _unflatten(columns, Place(path, number))
        yield columns


def _values(name: str, column: Any, path: Path, first: int) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except KeyError:
        number = first + next(at for at, value in enumerate(column) if _repeats_a_key(value))
        raise TraceError(Place(path, number), f"column {name}: a key stands there twice", MEND) from None
    if name not in COLUMNS and name not in (*ORIGIN, UNKNOWN):
        return [msgspec.to_builtins(value) for value in values]
    return values


def _repeats_a_key(value: Any) -> bool:
    try:
        value.as_py(maps_as_pydicts="strict")
    except KeyError:
        return True
    return False


def _unflatten(columns: Columns, place: Place) -> None:
    """Put together what Parquet holds in another form."""
    origin = [columns.pop(name) for name in ORIGIN if name in columns]
    if origin:
        if len(origin) != len(ORIGIN):
            raise TraceError(place, f"it has only some of {', '.join(ORIGIN)}", MEND)
        columns["message"] = "{}/{}/{}".format(*origin)
    if isinstance(columns.get("label"), str):
        columns["label"] = _json(columns["label"], "label", place)
    if UNKNOWN in columns:
        unknown = _json(columns.pop(UNKNOWN), UNKNOWN, place)
        if (
            not isinstance(unknown, dict)
            or not columns.keys().isdisjoint(unknown)
            or not COLUMNS.keys().isdisjoint(unknown)
        ):
            raise TraceError(
                place, f"column {UNKNOWN}: not a JSON object of columns that the format does not know", MEND
            )
        columns.update(unknown)


def _json(text: Any, name: str, place: Place) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, TypeError, RecursionError) as error:
        raise TraceError(place, f"column {name}: not JSON: {error}", MEND) from None
