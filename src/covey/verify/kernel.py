"""A property, and the function that judges one group of one run by many: what Spark runs for each.

This runs where Spark runs it: with numpy and pyarrow, without the rest of covey.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from covey.verify.group import Group, Violation

if TYPE_CHECKING:
    import pyarrow as pa

WITNESSES_MAX = 20
FOUND = (
    "run string, property int, checked bigint, violations bigint, "
    "witnesses array<struct<why:string, events:array<struct<process:string, index:bigint>>>>"
)
"""What the judging of a group comes to: a row for each property that applies."""


class Property(NamedTuple):
    """A property under its ids; several can share one search."""

    ids: tuple[str, ...]
    judge: Callable[[Group], Iterator[Violation]]
    """Its docstring is the property."""
    checked: Callable[[Group], int]
    """On how much of a group it is judged."""
    needs: str = ""
    """`complete` or `healed` (and complete): judged on such runs only."""

    def applies(self, group: Group) -> bool:
        """Whether there is anything to judge it on."""
        is_fit = not self.needs or (group.complete and (self.needs == "complete" or group.healed))
        return is_fit and self.checked(group) > 0


def judge(properties: Sequence[Property], *, incarnations: bool) -> Callable[["pa.Table"], "pa.Table"]:
    """Return what judges the rows of one group by these; members are processes, or `incarnations` of them."""

    def judged(table: "pa.Table") -> "pa.Table":
        import pyarrow as pa

        group = Group(table, incarnations=incarnations)
        rows = [_row(table, number, each, group) for number, each in enumerate(properties) if each.applies(group)]
        event = pa.struct([("process", pa.string()), ("index", pa.int64())])
        witness = pa.struct([("why", pa.string()), ("events", pa.list_(event))])
        schema = pa.schema(
            [
                ("run", pa.string()),
                ("property", pa.int32()),
                ("checked", pa.int64()),
                ("violations", pa.int64()),
                ("witnesses", pa.list_(witness)),
            ]
        )
        return pa.Table.from_pylist(rows, schema)

    return judged


def _row(table: "pa.Table", number: int, each: Property, group: Group) -> dict[str, Any]:
    violations = each.judge(group)
    shown = [
        {"why": why, "events": [{"process": name, "index": index} for name, index in events]}
        for why, events in islice(violations, WITNESSES_MAX)
    ]
    count = len(shown) + sum(1 for _ in violations)
    run = table["run"][0].as_py()
    return {"run": run, "property": number, "checked": each.checked(group), "violations": count, "witnesses": shown}
