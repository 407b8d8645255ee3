"""The filter: evs-1994, section 5, rules 1 to 4, and the model `vs` of what it lets through."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from covey.evs.filter import Filter
from covey.evs.primary import Policy
from covey.kernel.effects import Deliver, Install, Note
from covey.kernel.errors import BrokenInvariant
from covey.kernel.ids import MessageId, ProcessId
from covey.kernel.layer import Passed
from tests.evs.components import Process, Ring, World
from tests.evs.judge import judge


def regular(config: str, **since: int) -> Install:
    """A primary configuration; of each member, since when it is in the primary component."""
    return Install(config, int(config.split(".")[0]), tuple(sorted(since)), primary=True, since=since)


def blocked(config: str, members: str) -> Install:
    return Install(config, int(config.split(".")[0]), tuple(members), primary=False)


def transitional(old: str, new: str, members: str) -> Install:
    seq = int(new.split(".")[0]) - 1
    return Install(f"{old}>{new}", seq, tuple(members), "transitional", primary=False, previous=old)


def send(message: str, config: str, **columns: Any) -> Note:
    return Note("send", {"message": message, "config": config, "service": "agreed", **columns})


def deliver(message: str, config: str, count: int = 1, ordinal: int | None = None) -> Deliver:
    origin, incarnation, number = MessageId.parse(message)
    return Deliver(ProcessId(origin, incarnation), number, [b""] * count, config, ordinal)


def told(filter_: Filter, *effects: Deliver | Install | Note) -> list[str]:
    """What comes through, a line each."""
    return [line(row) for effect in effects for row in filter_.see(effect)]


def line(row: Passed) -> str:
    columns = row.columns
    match row.event:
        case "config":
            what = f"{columns['config']} {' '.join(columns['members'])}"
        case "send" | "deliver":
            what = f"{columns['message']} in {columns['config']}"
        case "start":
            what = "recovered" if columns["recovered"] else ""
        case _:
            what = columns["config"]
    return f"{row.incarnation} {row.event} {what}".strip()


def entered(name: str, config: Install) -> Filter:
    """The filter of a process that is in a primary configuration."""
    filter_ = Filter(name)
    filter_.see(config)
    return filter_


# ---- rule 1 ------------------------------------------------------------------------------------


def test_what_is_delivered_in_a_transitional_configuration_counts_for_the_view_before() -> None:
    filter_ = entered("a", regular("4.a", a=4, b=4))
    lines = told(filter_, deliver("b/1/7", "4.a"), transitional("4.a", "6.a", "a"), deliver("b/1/8", "4.a>6.a"))
    assert lines == ["4 deliver b/4/7 in 4.a", "4 deliver b/4/8 in 4.a"]


# ---- rule 2 ------------------------------------------------------------------------------------


def test_nothing_passes_outside_the_primary_component() -> None:
    effects = (blocked("4.a", "ab"), send("a/1/1", "4.a"), deliver("a/1/1", "4.a"), transitional("4.a", "6.a", "a"))
    assert told(Filter("a"), *effects, deliver("b/1/1", "4.a>6.a")) == []


def test_a_process_that_leaves_the_primary_component_fails_in_its_last_view() -> None:
    filter_ = entered("a", regular("4.a", a=4, b=4, c=4))
    effects = (transitional("4.a", "6.a", "a"), deliver("b/1/1", "4.a>6.a"), blocked("6.a", "a"), send("a/1/1", "6.a"))
    assert told(filter_, *effects) == ["4 deliver b/4/1 in 4.a", "4 fail 4.a"]


def test_a_message_that_is_sent_in_another_configuration_does_not_pass() -> None:
    assert told(entered("a", regular("4.a", a=4)), send("a/1/1", "2.a")) == []


# ---- rules 3 and 4 -----------------------------------------------------------------------------


def test_where_nobody_is_merged_there_is_one_view_without_those_who_left() -> None:
    filter_ = entered("a", regular("4.a", a=4, b=4, c=4))
    assert told(filter_, transitional("4.a", "6.a", "ab"), regular("6.a", a=4, b=4)) == ["4 config 6.a a/4 b/4"]


def test_several_that_are_merged_join_one_by_one_in_the_order_of_their_names() -> None:
    filter_ = entered("b", regular("4.a", b=4, c=4, e=4))
    assert told(filter_, regular("8.a", a=8, b=4, c=4, d=8, f=8)) == [
        "4 config 8.a#1 a/8 b/4 c/4",
        "4 config 8.a#2 a/8 b/4 c/4 d/8",
        "4 config 8.a a/8 b/4 c/4 d/8 f/8",
    ]


def test_who_is_merged_begins_with_the_last_view() -> None:
    new = regular("8.a", a=8, b=4, d=8, f=8)
    for name in "adf":
        assert told(Filter(name), new) == ["8 start", "8 config 8.a a/8 b/4 d/8 f/8"]


def test_where_nobody_was_there_before_all_begin_with_one_view() -> None:
    assert told(Filter("b"), regular("2.a", a=2, b=2, c=2)) == ["2 start", "2 config 2.a a/2 b/2 c/2"]


def test_the_numbers_of_views_grow_and_all_are_primary() -> None:
    filter_ = Filter("b")
    rows = [
        row.columns
        for config in (regular("2.a", a=2, b=2), regular("8.a", a=2, b=2, c=8, d=8), regular("10.a", a=2, b=2))
        for row in filter_.see(config)
        if row.event == "config"
    ]
    assert [row["seq"] for row in rows] == [(2 << 16) + 1, 8 << 16, (8 << 16) + 1, 10 << 16]
    assert all(row["primary"] and row["kind"] == "regular" for row in rows)


def test_members_are_sorted_as_they_are_written() -> None:
    (_, view) = Filter("a").see(regular("2.a", a=2, **{"a b": 2, "a-b": 2}))
    assert view.columns["members"] == ["a b/2", "a-b/2", "a/2"]


# ---- identities --------------------------------------------------------------------------------


def test_a_process_that_comes_back_is_a_new_one() -> None:
    filter_ = entered("a", regular("4.a", a=4, b=4))
    assert told(filter_, blocked("6.a", "a"), regular("8.a", a=8, b=4)) == [
        "4 fail 4.a",
        "8 start",
        "8 config 8.a a/8 b/4",
    ]


def test_who_missed_a_primary_component_fails_when_it_is_merged_into_the_next() -> None:
    filter_ = entered("a", regular("4.a", a=4, b=4, c=4))
    new = regular("10.a", a=10, b=4, c=4)
    effects = (transitional("4.a", "10.a", "a"), deliver("a/1/3", "4.a>10.a"), new)
    assert told(filter_, *effects) == [
        "4 deliver a/4/3 in 4.a",
        "4 fail 4.a",
        "10 start",
        "10 config 10.a a/10 b/4 c/4",
    ]


def test_a_crash_is_one_in_the_last_view() -> None:
    filter_ = entered("a", regular("4.a", a=4, b=4))
    assert [line(row) for row in filter_.end("fail")] == ["4 fail 4.a"]
    assert told(filter_, blocked("6.a", "a"), regular("8.a", a=8, b=4)) == ["8 start", "8 config 8.a a/8 b/4"]


def test_a_process_that_stops_in_its_view_stops_there_and_outside_it_has_failed_already() -> None:
    filter_ = entered("a", regular("4.a", a=4, b=4))
    assert [line(row) for row in filter_.end("stop")] == ["4 stop 4.a"]
    assert filter_.end("stop") == []


def test_a_process_alone_that_restarts_is_a_new_one() -> None:
    filter_ = entered("a", regular("2.a", a=2))
    filter_.end("fail")
    assert told(filter_, regular("4.a", a=4)) == ["4 start", "4 config 4.a a/4"]


def test_a_merge_during_which_another_happens_gives_the_views_of_both() -> None:
    filter_ = entered("a", regular("2.a", a=2))
    assert told(filter_, regular("4.a", a=2, b=4), transitional("4.a", "6.a", "ab"), regular("6.a", a=2, b=4, c=6)) == [
        "2 config 4.a a/2 b/4",
        "2 config 6.a a/2 b/4 c/6",
    ]


# ---- messages ----------------------------------------------------------------------------------


def test_messages_carry_the_incarnations_of_the_view_and_keep_their_numbers_and_columns() -> None:
    filter_ = entered("a", regular("8.a", a=6, b=8))
    (sent,) = filter_.see(send("a/3/41", "8.a", count=5, size=10))
    assert sent == Passed(
        6, "send", {"message": "a/6/41", "config": "8.a", "service": "agreed", "count": 5, "size": 10}
    )
    (delivered,) = filter_.see(deliver("b/2/7", "8.a", count=3, ordinal=12))
    assert delivered == Passed(6, "deliver", {"message": "b/8/7", "config": "8.a", "count": 3, "ordinal": 12})
    assert "ordinal" not in filter_.see(deliver("b/2/10", "8.a"))[0].columns


def test_nothing_else_of_the_engine_passes() -> None:
    filter_ = entered("a", regular("4.a", a=4))
    assert told(filter_, Note("state", {"counters": {"holes": 0}})) == []


def test_an_engine_that_breaks_its_contract_is_found() -> None:
    with pytest.raises(BrokenInvariant, match="since when"):
        Filter("a").see(Install("4.a", 4, ("a", "b"), primary=True, since={"a": 4}))
    with pytest.raises(BrokenInvariant, match="a message of z"):
        entered("a", regular("4.a", a=4)).see(deliver("z/1/1", "4.a"))


# ---- histories ---------------------------------------------------------------------------------


class Filtered(World):
    """Processes that also send, in one order a configuration, each behind its filter."""

    def __init__(self, seed: int, policy: Policy, make: Callable[[str], Filter] = Filter) -> None:
        super().__init__(seed, policy)
        self.filters = {name: make(name) for name in self.processes}
        self.current: dict[str, Ring] = {}
        """Where each process is."""
        self.sent: dict[str, list[tuple[ProcessId, int]]] = {}
        """In each configuration."""
        self.position: dict[str, int] = {}
        """How many of them each process has delivered."""
        self.cuts: dict[tuple[str, str], int] = {}
        """How many are delivered by those that go together from one configuration to another."""
        self.rows: list[dict[str, Any]] = [header()]
        self.numbers: Counter[ProcessId] = Counter()

    def show(self, process: Process, passed: list[Passed]) -> None:
        for incarnation, event, columns in passed:
            row = {"process": process.name, "incarnation": incarnation, "index": len(self.rows), "group": ""}
            self.rows.append({**row, "event": event, **columns})
            self.seen[f"vs {event}"] += 1

    def moves(self, ring: Ring) -> list[Callable[[], None]]:
        found = super().moves(ring)
        if self.is_safe:
            return found
        for name in ring.members:
            process = self.processes[name]
            if self.current.get(name) is ring is process.ring:
                found.append(partial(self.send, ring, process))
                if self.position[name] < len(self.sent[ring.config]):
                    found += 2 * [partial(self.hand_over, ring, process, ring.config)]
        return found

    def send(self, ring: Ring, process: Process) -> None:
        pid = ProcessId(process.name, process.incarnation)
        self.numbers[pid] += 1
        self.sent[ring.config].append((pid, self.numbers[pid]))
        columns = {"message": f"{pid}/{self.numbers[pid]}", "config": ring.config, "service": "agreed"}
        self.show(process, self.filters[process.name].see(Note("send", columns)))

    def hand_over(self, ring: Ring, process: Process, config: str) -> None:
        origin, number = self.sent[ring.config][self.position[process.name]]
        self.position[process.name] += 1
        self.show(process, self.filters[process.name].see(Deliver(origin, number, [b""], config)))

    def installs(self, ring: Ring, process: Process, effect: Install) -> None:
        filter_ = self.filters[process.name]
        old = self.current.get(process.name)
        if old is not None:
            name = f"{old.config}>{ring.config}"
            cut = self.cuts.setdefault((old.config, ring.config), len(self.sent[old.config]))
            self.show(process, filter_.see(Install(name, ring.seq - 1, (process.name,), "transitional", primary=False)))
            while self.position[process.name] < cut:
                self.hand_over(old, process, name)
        super().installs(ring, process, effect)
        self.current[process.name], self.position[process.name] = ring, 0
        self.sent.setdefault(ring.config, [])
        self.show(process, filter_.see(effect))

    def crash(self, process: Process) -> None:
        self.show(process, self.filters[process.name].end("fail"))
        self.current.pop(process.name, None)
        super().crash(process)


def header() -> dict[str, Any]:
    columns = {"event": "run", "model": "vs", "complete": False, "healed": False}
    return {"process": "", "incarnation": 1, "index": 0, "group": "", **columns}


def violations(policy: Policy, worlds: int, make: Callable[[str], Filter] = Filter) -> tuple[set[str], Counter[str]]:
    """Run worlds until one violates something; return the ids of that, and what was seen."""
    seen: Counter[str] = Counter()
    for seed in range(worlds):
        world = Filtered(seed, policy, make)
        world.run(300)
        seen.update(world.seen)
        if found := {violation.property for violation in judge(world.rows)}:
            return found, seen
    return set(), seen


@pytest.mark.parametrize("policy", ["majority", "dynamic"])
def test_what_passes_is_virtually_synchronous(policy: Policy) -> None:
    found, seen = violations(policy, 100)
    assert not found
    assert min(seen[f"vs {event}"] for event in ("start", "fail", "config", "send", "deliver")) > 100


class Masks(Filter):
    """Rule 1 forgotten: what is delivered in a transitional configuration is told in that."""

    def _deliver(self, batch: Deliver) -> Passed:
        row = super()._deliver(batch)
        return Passed(row.incarnation, row.event, {**row.columns, "config": batch.view})


class Stays(Filter):
    """Rule 2 forgotten: who leaves the primary component goes on."""

    def end(self, event: str) -> list[Passed]:
        return []


class Merges(Filter):
    """Rule 3 forgotten: all are merged at once."""

    def _views(self, new: Install) -> list[Passed]:
        return super()._views(new)[-1:]


class Shows(Filter):
    """Rule 4 as the paper has it: who is merged sees all views from the first that it is in."""

    def _views(self, new: Install) -> list[Passed]:
        merged = [name for name in new.members if self.since[name] == new.seq]
        if self.name not in merged or len(merged) == len(new.members):
            return super()._views(new)
        there = next(name for name in new.members if name not in merged)
        other = Filter(there)
        other.since = self.since
        seen = [row for row in other._views(new) if f"{self.name}/{new.seq}" in row.columns["members"]]
        return [Passed(new.seq, row.event, row.columns) for row in seen]


@pytest.mark.parametrize(
    ("broken", "property_"), [(Masks, "VS-L4"), (Stays, "VS-C1"), (Merges, "VS-F2"), (Shows, "VS-F1")]
)
def test_a_forgotten_rule_is_found(broken: type[Filter], property_: str) -> None:
    found, _ = violations("majority", 100, broken)
    assert property_ in found
