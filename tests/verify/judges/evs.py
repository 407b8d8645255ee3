"""The properties of model `evs`, by the judge in `tests.evs`, and what a trace lacks where one cannot be judged."""

from tests.evs.history import History, histories
from tests.evs.judge import Violation
from tests.evs.judge_evs import PROPERTIES as SEARCHES
from tests.verify.judges.property import Property, Row, violations, without_evidence
from tests.verify.judges.rows_of import all_of, at_rest, healed, primaries, rows_of


def judge(rows: list[Row]) -> list[Violation]:
    """What one run violates; nothing for a good trace."""
    return violations(PROPERTIES, histories(rows, "evs"))


def skipped(rows: list[Row]) -> dict[str, str]:
    """The properties that one run cannot be judged by, with the reasons."""
    return without_evidence(PROPERTIES, histories(rows, "evs"))


def safe_messages(history: History) -> str:
    is_there = any(history.service(message) == "safe" for message in history.deliveries)
    return "" if is_there else "no message sent safe is delivered"


LACKS = {
    "EVS-1.1": rows_of("send", "deliver"),
    "EVS-1.3": rows_of("deliver"),
    "EVS-1.4": rows_of("send", "deliver"),
    "EVS-2.1": all_of(at_rest, rows_of("config")),
    "EVS-2.2": rows_of("send", "deliver", "fail", "stop"),
    "EVS-2.3": rows_of("config"),
    "EVS-2.4": rows_of("config"),
    "EVS-2.5": rows_of("config"),
    "EVS-2.6": rows_of("config"),
    "EVS-2.7": rows_of("config"),
    "EVS-3": rows_of("send"),
    "EVS-4": rows_of("deliver"),
    "EVS-5": rows_of("deliver"),
    "EVS-6.1": rows_of("config", "deliver"),
    "EVS-6.2": rows_of("config", "deliver"),
    "EVS-6.3": rows_of("deliver"),
    "EVS-7.1": safe_messages,
    "EVS-7.2": safe_messages,
    "EVS-LIVE": all_of(healed, rows_of("config")),
    "PC-1": primaries,
    "PC-2": primaries,
}

PROPERTIES = [Property(id, search, LACKS[id]) for ids, search in SEARCHES for id in ids]
"""All but EVS-1.2, which holds of every trace that can be read."""
