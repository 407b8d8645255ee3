"""What a trace holds, in numbers."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from covey.trace.row import Row


class RunStat:
    """The numbers of one run; messages are counted, not rows."""

    def __init__(self) -> None:
        self.models: list[str] = []
        self.complete = False
        self.healed = False
        self.rows = 0
        self.events: Counter[str] = Counter()
        self.processes: set[str] = set()
        self.incarnations: set[tuple[str, int]] = set()
        self.views: set[tuple[str, str]] = set()

    def see(self, row: Row) -> None:
        """Count one row."""
        self.rows += 1
        self.events[row.event] += row.count
        if row.event == "run":
            self.models = row.columns["model"]
            self.complete = row.columns["complete"]
            self.healed = row.columns["healed"]
            return
        self.processes.add(row.process)
        self.incarnations.add((row.process, row.incarnation))
        if row.event == "config":
            self.views.add((row.columns["group"], row.columns["config"]))

    def summary(self) -> dict[str, Any]:
        """The numbers by name, in a fixed order."""
        return {
            "models": self.models,
            "complete": self.complete,
            "healed": self.healed,
            "rows": self.rows,
            "events": self.events.total(),
            "messages": self.events["send"],
            "deliveries": self.events["deliver"],
            "processes": len(self.processes),
            "incarnations": len(self.incarnations),
            "views": len(self.views),
            "by_event": dict(sorted(self.events.items())),
        }


TOTALS = ("rows", "events", "messages", "deliveries", "processes", "incarnations", "views")


def trace_stat(rows: Iterable[Row]) -> dict[str, Any]:
    """The numbers of all runs, and each run's; a process or view of two runs is two."""
    runs: dict[str, RunStat] = {}
    for row in rows:
        if row.run not in runs:
            runs[row.run] = RunStat()
        runs[row.run].see(row)
    each = {run: runs[run].summary() for run in sorted(runs)}
    totals = {name: sum(summary[name] for summary in each.values()) for name in TOTALS}
    return {**totals, "runs": each}
