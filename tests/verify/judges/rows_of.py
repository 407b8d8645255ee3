"""What a history of `tests.evs` may lack, so that it cannot be judged by a property."""

from collections.abc import Callable

from tests.evs.history import History

Lacks = Callable[[History], str]


def rows_of(*kinds: str) -> Lacks:
    """Rows of one of these events."""

    def lacks(history: History) -> str:
        return "" if any(event.kind in kinds for event in history.events) else f"no {' or '.join(kinds)} rows"

    return lacks


def all_of(*conditions: Lacks) -> Lacks:
    """Whatever is lacking first."""

    def lacks(history: History) -> str:
        return next(filter(None, (condition(history) for condition in conditions)), "")

    return lacks


def at_rest(history: History) -> str:
    return "" if history.complete else "the run is not complete"


def healed(history: History) -> str:
    return "" if history.complete and history.healed else "the run is not complete and healed"


def primaries(history: History) -> str:
    is_told = any(view.primary is not None for view in history.views.values())
    return "" if is_told else "no configuration tells whether it is primary"
