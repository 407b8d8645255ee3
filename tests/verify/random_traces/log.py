"""The rows that the processes of an idealised system write down."""

from typing import Any

from covey.trace.row import ordered

Row = dict[str, Any]


class Log:
    """Rows of one run, numbered process by process; columns that are None are missing."""

    def __init__(self, run: str, **header: Any) -> None:
        self.run = run
        self.rows: list[Row] = []
        self._indexes: dict[str, int] = {}
        self.write("", 1, "", "run", **header)

    def write(self, process: str, incarnation: int, group: str, event: str, **columns: Any) -> None:
        index = self._indexes.get(process, 0)
        self._indexes[process] = index + 1
        common = {"run": self.run, "process": process, "incarnation": incarnation, "index": index}
        told = {name: value for name, value in columns.items() if value is not None}
        self.rows.append(ordered({**common, "time_ns": len(self.rows), "group": group, "event": event, **told}))
