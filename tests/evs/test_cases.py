"""A run is said to have reached a case when its trace shows it, and only then."""

from collections import Counter
from typing import Any

import pytest

from covey.evs.cases import cases

Row = dict[str, Any]


class Trace:
    """Rows of a run, as a recorder would number them."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._next = Counter[tuple[str, int]]()

    def add(self, pid: str, event: str, **columns: Any) -> "Trace":
        process, _, incarnation = pid.partition("/")
        life = (process, int(incarnation or 1))
        self._next[life] += columns.get("count", 1)
        self.rows.append(
            {"process": life[0], "incarnation": life[1], "index": self._next[life], "event": event, **columns}
        )
        return self

    def config(self, pids: str, config: str, **columns: Any) -> "Trace":
        """All of these install it."""
        kind = "transitional" if ">" in config else "regular"
        for pid in pids.split():
            members = [each.partition("/")[0] for each in pids.split()]
            self.add(pid, "config", config=config, kind=kind, members=members, **columns)
        return self

    def header(self, complete: bool, healed: bool) -> "Trace":
        self.rows.append(
            {"process": "", "incarnation": 1, "index": 0, "event": "run", "complete": complete, "healed": healed}
        )
        return self

    @property
    def cases(self) -> set[str]:
        """But for that of a run without any configuration."""
        return cases(self.rows) - {"no primary component"}


def send(service: str, count: int = 1, number: int = 1) -> Trace:
    return Trace().add("a", "send", message=f"a/1/{number}", service=service, count=count)


@pytest.mark.parametrize(
    ("trace", "found"),
    [
        (send("causal"), {"causal messages"}),
        (send("agreed", 20), {"agreed messages"}),
        (send("safe", 21), {"safe messages", "more than 20 messages"}),
        (Trace().add("a", "start", recovered=False).add("a", "stop"), {"stop"}),
        (Trace().add("a/2", "start", recovered=True).add("a/2", "fail"), {"recovery with storage", "crash"}),
        (Trace().add("a~2", "start", recovered=False), {"return under a new name"}),
        (Trace().config("a", "2.a").config("a", "2.a>4.a").add("a", "fail"), {"crash", "crash in step 6"}),
        (Trace().config("a", "2.a>4.a").config("a", "4.a").add("a", "fail"), {"crash"}),
        (
            Trace().add("a", "state", counters={"rebroadcast": 3, "holes": 0, "discarded": 0, "obliged": 0}),
            {"rebroadcast"},
        ),
        (
            Trace().add("a", "state", counters={"rebroadcast": 0, "holes": 1, "discarded": 2, "obliged": 3}),
            {"hole", "discarded", "obligation used"},
        ),
        (Trace().add("a", "state", counters={"interrupted at step 3": 1}), {"interrupted at step 3"}),
        (Trace().add("a", "state", counters={"interrupted at step 5a": 1}), {"interrupted at step 5a"}),
        (Trace().add("a", "state", counters={"interrupted at step 5c": 1}), {"interrupted at step 5c"}),
        (Trace().add("a", "state", digest="x"), set()),
        (Trace().header(False, False), set()),
        (Trace().header(True, True), {"at rest, whole"}),
        (Trace().header(True, False), {"at rest, in parts"}),
    ],
)
def test_what_single_rows_show(trace: Trace, found: set[str]) -> None:
    assert trace.cases == found


@pytest.mark.parametrize(
    ("trace", "found"),
    [
        (Trace().config("a", "2.a").config("b", "2.b").config("a b", "4.a"), {"merge of two"}),
        (Trace().config("a", "2.a").config("b c", "2.b").config("a b c", "4.a"), {"merge of two"}),
        (
            Trace().config("a b", "2.a").config("c d", "2.c").config("a b c d", "4.a"),
            {"merge of two", "merge of rings of several"},
        ),
        (
            Trace().config("a", "2.a").config("b", "2.b").config("c", "2.c").config("a b c", "4.a"),
            {"merge of three or more"},
        ),
        (Trace().config("a b", "2.a").config("a", "4.a").config("b", "4.b"), {"partition"}),
        (Trace().config("a b", "2.a").config("a", "2.a>4.a").config("a b", "4.a"), set()),
        (Trace().config("a", "2.a").config("a/2 b", "4.a"), set()),
    ],
)
def test_merges_and_partitions_are_read_off_regular_configurations(trace: Trace, found: set[str]) -> None:
    assert trace.cases == found


def test_a_delivery_in_a_transitional_configuration_is_one_of_a_safe_message_if_it_was_sent_as_one() -> None:
    trace = send("safe", 3).add("a", "send", message="a/1/4", service="agreed", count=2)
    trace.config("a", "2.a").add("a", "deliver", message="a/1/1", config="2.a").config("a", "2.a>4.a")
    inside = {"delivery in a transitional configuration"}
    before = trace.cases
    assert not before & inside
    assert trace.add("a", "deliver", message="a/1/5", config="2.a>4.a").cases == before | inside
    trace.add("a", "deliver", message="b/1/2", config="2.a>4.a")
    assert trace.cases == before | inside
    trace.add("a", "deliver", message="a/1/3", config="2.a>4.a")
    assert trace.cases == before | inside | {"safe delivery in a transitional configuration"}


def test_there_is_a_primary_component_or_there_is_none_in_the_end() -> None:
    trace = Trace().config("a b", "2.a", primary=True)
    assert cases(trace.rows) == {"primary component"}
    trace.config("a", "4.a", primary=False)
    assert cases(trace.rows) == {"primary component", "out of the primary component"}
    trace.add("b", "fail")
    assert "no primary component" in cases(trace.rows)
    assert cases(Trace().config("a", "2.a", primary=False).rows) == {"no primary component"}
