"""The properties of model `vs`, by the judge in `tests.evs`, and what a trace lacks where one cannot be judged."""

from tests.evs.history import histories
from tests.evs.judge import Violation
from tests.evs.judge_vs import PROPERTIES as SEARCHES
from tests.verify.judges.property import Property, Row, violations, without_evidence
from tests.verify.judges.rows_of import all_of, at_rest, primaries, rows_of


def judge(rows: list[Row]) -> list[Violation]:
    """What one run violates; nothing for a good trace."""
    return violations(PROPERTIES, histories(rows, "vs"))


def skipped(rows: list[Row]) -> dict[str, str]:
    """The properties that one run cannot be judged by, with the reasons."""
    return without_evidence(PROPERTIES, histories(rows, "vs"))


LACKS = {
    "VS-C1": rows_of("send", "deliver"),
    "VS-C2": all_of(at_rest, rows_of("send")),
    "VS-C3": rows_of("send", "deliver"),
    "VS-L1": rows_of("send", "deliver"),
    "VS-L2": rows_of("send", "deliver"),
    "VS-L3": rows_of("config"),
    "VS-L4": rows_of("send", "deliver", "fail", "stop"),
    "VS-L5": rows_of("config", "deliver"),
    "VS-F1": primaries,
    "VS-F2": rows_of("config"),
    "VS-F3": rows_of("config"),
}

PROPERTIES = [Property(id, search, LACKS[id]) for ids, search in SEARCHES for id in ids]
