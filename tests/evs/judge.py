"""An independent judge of extended and of plain virtual synchrony: the models `evs` and `vs`.

It reads a trace, and knows nothing of the protocol or the simulator. Each property of the paper (evs-1994,
sections 2.1 and 2.2 for `evs`, 4 and 5 for `vs`) is one function: in `judge_evs`, `judge_vs`, or in
`judge_both` if both models have it.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.evs import judge_evs, judge_vs
from tests.evs.history import histories

PROPERTIES = {"evs": judge_evs.PROPERTIES, "vs": judge_vs.PROPERTIES}
"""Of each model: the ids that one search decides on, and the search."""


class Violation(NamedTuple):
    """What a trace does against a property, in a sentence."""

    property: str
    why: str


def judge(rows: Iterable[dict[str, Any]]) -> list[Violation]:
    """What one run violates, by the models that its header names; nothing for a good trace."""
    rows = list(rows)
    named = next(row["model"] for row in rows if row["event"] == "run")
    models = [named] if isinstance(named, str) else named
    return [
        Violation(property, why)
        for model in models
        if model in PROPERTIES
        for history in histories(rows, model)
        for ids, search in PROPERTIES[model]
        for why in search(history)
        for property in ids
    ]
