"""Bronze: the rows of a trace as found, each checked by itself and all together.

A trace is read by the same strict reader as everywhere in covey, which names the file and the line of what is wrong.
It is held in memory as columns.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from covey.trace import read_checked
from covey.trace.parquet import batches_of

if TYPE_CHECKING:
    import pyarrow as pa


def read_trace(path: str | Path) -> "pa.Table":
    """Return the rows of a trace, for `createDataFrame` of a session; `TraceError` where it cannot be trusted."""
    import pyarrow as pa

    return pa.Table.from_batches(list(batches_of(row.columns for row in read_checked(path))))
