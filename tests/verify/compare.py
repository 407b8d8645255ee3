"""The kernels of `covey.verify` beside the plain judges: `python -m tests.verify.compare evs 0 5000`.

Exit status: 0 when they agree on every random trace of these seeds.
"""

import sys
from collections.abc import Iterable

import pyarrow as pa

from covey.trace.parquet import batches_of
from covey.verify.check import COLUMNS, EVENTS, LIVES, MODELS
from covey.verify.group import Group
from tests.verify.test_judges import Row, judge_of, random_trace


def violated(model: str, rows: Iterable[Row]) -> set[str]:
    """The ids of what the kernel finds violated in one run, in any of its groups."""
    rows = list(rows)
    header = next(row for row in rows if row["event"] == "run")
    found: set[str] = set()
    for rows_of_group in filter(None, groups(row for row in rows if row["event"] in EVENTS)):
        group = Group(table(rows_of_group, header), incarnations=MODELS[model].incarnations)
        for each in MODELS[model].properties:
            if each.applies(group) and next(each.judge(group), None) is not None:
                found.update(each.ids)
    return found


def groups(rows: Iterable[Row]) -> list[list[Row]]:
    """As `covey.verify.check.by_group` puts them together."""
    by_group: dict[str, list[Row]] = {}
    lives: list[Row] = []
    its_groups: dict[str, set[str]] = {}
    for row in rows:
        if row["event"] in LIVES and not row["group"]:
            lives.append(row)
        else:
            by_group.setdefault(row["group"], []).append({**row, "whole": False})
            its_groups.setdefault(row["process"], set()).add(row["group"])
    for row in lives:
        for group in its_groups.get(row["process"], {""}):
            if group in by_group:
                by_group[group].append({**row, "whole": group != ""})
    return list(by_group.values()) or [[{**row, "whole": False} for row in lives]]


def table(rows: list[Row], header: Row) -> pa.Table:
    columns = [{name: value for name, value in row.items() if name in COLUMNS or name == "message"} for row in rows]
    run = pa.Table.from_batches(list(batches_of(columns))).select(COLUMNS)
    for name in ("complete", "healed"):
        run = run.append_column(name, pa.array([header[name]] * len(run)))
    return run.append_column("whole", pa.array([row["whole"] for row in rows]))


def compare(model: str, seeds: Iterable[int]) -> list[str]:
    """In what they differ, seed by seed."""
    wrong = []
    for seed in seeds:
        rows = random_trace(model, seed)
        plain = {violation.property for violation in judge_of(model).judge(rows)}
        found = violated(model, rows)
        if found != plain:
            wrong.append(f"{seed}: only the kernel {sorted(found - plain)}, only the judge {sorted(plain - found)}")
    return wrong


if __name__ == "__main__":
    _, name, first, last = sys.argv
    differences = compare(name, range(int(first), int(last)))
    sys.stdout.write("".join(f"{line}\n" for line in differences))
    sys.exit(1 if differences else 0)
