"""Which configurations are primary components: evs-1994, section 2.2, properties PC-1 and PC-2."""

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from covey.evs import primary
from covey.evs.primary import KEY, STANDING, Change, Component, Policy, Primary, Standing, Verdict, encode, judge
from covey.kernel.effects import Install, Store
from covey.kernel.engine import Surroundings
from covey.kernel.errors import BrokenInvariant, MisuseError, WorldError
from covey.kernel.ids import ProcessId
from tests.evs.components import Disk, World

ABC = ("a", "b", "c")
FIRST = Component(0, "", ABC, ABC, "a")
BEGINS = Standing(FIRST, is_installed=True)
STRANGER = Standing()


def component(seq: int, members: str, configured: str = "abc", founder: str = "") -> Component:
    return Component(seq, f"{seq}.{members[0]}", tuple(members), tuple(configured), founder or members[0])


def inside(last: Component) -> Standing:
    """The standing of a process that is in a primary component since it was founded."""
    return Standing(last, is_installed=True, since=last.seq)


def process(
    name: str, disk: Mapping[str, bytes] | None = None, configured: str = "abc", policy: Policy = "majority"
) -> Primary:
    engine = SimpleNamespace(me=ProcessId(name, 1), out=[])
    around = Surroundings(engine.me, name, Disk(disk or {}), Random(0))
    return Primary(engine, around, configured, policy)  # type: ignore[arg-type]


def effect_of(verdict: Verdict) -> Install:
    assert verdict.component
    return Install(verdict.component.config, verdict.component.seq, verdict.component.members, primary=True)


def go_through(processes: Mapping[str, Primary], seq: int) -> Verdict:
    """Let these processes form a configuration."""
    config = f"{seq}.{min(processes)}"
    verdict = judge("majority", seq, config, {name: each.standing for name, each in processes.items()})
    for each in processes.values():
        each.acknowledge(verdict)
    for each in processes.values():
        each.install(verdict, Install(config, seq, tuple(sorted(processes)), primary=verdict.is_primary))
    return verdict


# ---- the verdict -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "is_primary"),
    [("abc", True), ("ab", True), ("bc", True), ("a", False), ("az", False), ("abz", True), ("z", False)],
)
def test_the_first_primary_component_holds_a_majority_of_the_configured_names(members: str, is_primary: bool) -> None:
    verdict = judge("majority", 2, "2.a", {name: BEGINS if name in ABC else STRANGER for name in members})
    assert verdict.is_primary is is_primary


def test_a_process_alone_is_a_majority_where_nobody_else_is_configured() -> None:
    alone = process("a", configured="a")
    assert alone.verdict(2, "2.a", {"a": alone.standing}).is_primary


def test_a_verdict_says_why_a_configuration_is_not_primary() -> None:
    assert judge("majority", 2, "2.a", {"a": BEGINS}).why_not == "no quorum of the configured set"
    assert judge("majority", 2, "2.z", {"z": STRANGER}).why_not == "nobody in it knows of a primary component"


def test_somebody_has_installed_the_component_that_it_follows() -> None:
    """A majority that has only heard of it is not enough: then nothing that can be seen would order the two."""
    last = component(8, "abc")
    heard = Standing(last)
    assert judge("majority", 10, "10.b", {"b": heard, "c": heard}).why_not == "nobody in it has installed 8.a"
    assert judge("majority", 10, "10.b", {"b": heard, "c": inside(last)}).is_primary


def test_it_follows_the_latest_that_any_member_knows_of() -> None:
    verdict = judge("majority", 10, "10.a", {"a": inside(component(4, "abc")), "b": inside(component(8, "bc"))})
    assert verdict.last == component(8, "bc")
    assert verdict.component == Component(10, "10.a", ("a", "b"), ABC, "b")


def test_the_founder_is_the_first_by_name_that_has_installed_the_last_one() -> None:
    last = component(8, "abc")
    verdict = judge("majority", 10, "10.a", {"a": Standing(last), "b": inside(last), "c": inside(last)})
    assert verdict.component
    assert verdict.component.founder == "b"


def test_the_majority_is_of_the_configured_names_not_of_the_last_component() -> None:
    last = component(8, "ab")
    assert judge("majority", 10, "10.b", {"b": inside(last), "c": BEGINS}).is_primary
    assert not judge("majority", 10, "10.b", {"b": inside(last), "z": STRANGER}).is_primary


@pytest.mark.parametrize(
    ("members", "is_primary"),
    [("bcd", True), ("ab", True), ("ad", True), ("bc", False), ("a", False), ("bcxyz", False), ("abxyz", True)],
)
def test_linear_voting_takes_a_majority_of_the_last_component_or_the_half_with_its_first(
    members: str, is_primary: bool
) -> None:
    last = component(8, "abcd", configured="abcdefgh")
    verdict = judge("dynamic", 10, "10.a", {name: inside(last) if name in "abcd" else STRANGER for name in members})
    assert verdict.is_primary is is_primary


def test_linear_voting_goes_on_with_ever_fewer() -> None:
    last = component(10, "ab", configured="abcdefgh")
    assert judge("dynamic", 12, "12.a", {"a": inside(last)}).is_primary
    assert not judge("dynamic", 12, "12.b", {"b": inside(last)}).is_primary


def test_those_that_began_with_different_configured_sets_found_nothing_together() -> None:
    other = Standing(Component(0, "", ("a", "b"), ("a", "b"), "a"), is_installed=True)
    assert "configured set" in judge("majority", 2, "2.a", {"a": other, "b": BEGINS, "c": BEGINS}).why_not


def test_a_primary_component_says_since_when_each_member_is_in_it_without_a_break() -> None:
    old, last = component(4, "abc"), component(8, "abc")
    told = {
        "a": Standing(last, is_installed=True, since=2),  # has been in it all the time
        "b": Standing(last, is_installed=True),  # was in the last, and crashed or was cut off since then
        "c": Standing(old, is_installed=True, since=2),  # missed the last
        "z": STRANGER,
    }
    assert judge("majority", 10, "10.a", told).since == {"a": 2, "b": 10, "c": 10, "z": 10}


# ---- attempts ----------------------------------------------------------------------------------

LAST = component(4, "abc")


def attempted(attempt: Component) -> Standing:
    return replace(inside(LAST), attempt=attempt)


def test_an_attempt_of_which_the_founder_is_away_blocks() -> None:
    attempt = component(8, "abc")
    verdict = judge("majority", 10, "10.b", {"b": attempted(attempt), "c": attempted(attempt)})
    assert verdict.why_not == "a, who is not in it, may have founded 8.a"


def test_an_attempt_is_void_when_a_member_has_not_acknowledged_it() -> None:
    assert judge("majority", 10, "10.b", {"b": attempted(component(8, "abc")), "c": inside(LAST)}).is_primary


def test_an_attempt_that_no_stranger_to_it_can_void_blocks() -> None:
    assert not judge("majority", 10, "10.b", {"b": attempted(component(8, "ab")), "c": inside(LAST)}).is_primary


def test_an_attempt_is_void_when_its_founder_is_here_and_has_not_founded_it() -> None:
    attempt = component(8, "abc")
    assert judge("majority", 10, "10.a", {"a": attempted(attempt), "c": attempted(attempt)}).is_primary


def test_an_attempt_that_was_founded_is_followed() -> None:
    attempt = component(8, "abc")
    verdict = judge("majority", 10, "10.b", {"b": inside(attempt), "c": attempted(attempt)})
    assert verdict.last == attempt


def test_an_attempt_from_before_the_last_component_does_not_matter() -> None:
    late = Standing(LAST, is_installed=True, attempt=component(6, "ab"))
    assert judge("majority", 10, "10.b", {"b": late, "c": inside(component(8, "bc"))}).is_primary


# ---- one process -------------------------------------------------------------------------------


def test_an_acknowledgement_is_stored_before_it_is_given() -> None:
    a = process("a")
    verdict = a.verdict(2, "2.a", {"a": BEGINS, "b": BEGINS})
    a.acknowledge(verdict)
    (store,) = a.engine.out
    assert isinstance(store, Store)
    assert STANDING.decode(store.value) == replace(BEGINS, attempt=verdict.component)


def test_the_founder_stores_before_it_installs_and_the_others_afterwards() -> None:
    for name, order in (("a", [Store, Install]), ("b", [Install, Store])):
        each = process(name)
        verdict = each.verdict(2, "2.a", {"a": BEGINS, "b": BEGINS})
        each.acknowledge(verdict)
        each.engine.out.clear()
        each.install(verdict, effect_of(verdict))
        assert [type(effect) for effect in each.engine.out] == order
        assert each.standing == Standing(verdict.component, is_installed=True, since=2)


def test_a_configuration_that_is_not_primary_ends_the_stay_in_the_primary_component() -> None:
    three = {name: process(name) for name in ABC}
    first = go_through(three, 2)
    assert not go_through({"a": three["a"]}, 4).is_primary
    assert three["a"].standing == Standing(first.component, is_installed=True)
    assert isinstance(three["a"].engine.out[-1], Install)


def test_after_a_restart_a_process_has_its_standing_and_is_in_no_component() -> None:
    a = process("a")
    go_through({"a": a, "b": process("b")}, 2)
    stored = a.engine.out[-2]
    assert isinstance(stored, Store)
    assert process("a", {KEY: stored.value}).standing == replace(a.standing, since=0)


def test_who_missed_what_was_founded_knows_of_it_once_it_has_acknowledged_a_successor() -> None:
    """Otherwise it would take its older acknowledgement for void, and the last one that it installed for the last."""
    c = process("c")
    last = component(8, "abc", founder="b")
    c.standing = attempted(last)
    verdict = c.verdict(10, "10.b", {"b": inside(last), "c": c.standing})
    c.acknowledge(verdict)
    assert c.standing == Standing(last, attempt=verdict.component)


def test_nothing_is_acknowledged_out_of_order_or_installed_without_acknowledging_it() -> None:
    a = process("a")
    verdict = a.verdict(4, "4.a", {"a": BEGINS, "b": BEGINS})
    with pytest.raises(BrokenInvariant, match="has acknowledged None"):
        a.install(verdict, effect_of(verdict))
    a.acknowledge(verdict)
    with pytest.raises(BrokenInvariant, match="acknowledges"):
        a.acknowledge(a.verdict(2, "2.a", {"a": BEGINS, "b": BEGINS}))


@pytest.mark.parametrize("configured", ["", [f"p{i}" for i in range(257)]])
def test_too_few_or_too_many_configured_names_are_refused(configured: Any) -> None:
    with pytest.raises(MisuseError, match="1 to 256 names"):
        process("a", configured=configured)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(MisuseError, match="the policies are majority, dynamic"):
        process("a", policy="quorum")  # type: ignore[arg-type]


@pytest.mark.parametrize("stored", [b"", b"\xc1", encode(1), encode([None, True])])
def test_a_damaged_record_is_refused_with_what_to_do(stored: bytes) -> None:
    with pytest.raises(WorldError, match=r"the storage of a is damaged under evs.primary.*fresh name"):
        process("a", {KEY: stored})


@pytest.mark.parametrize(
    "standing",
    [
        [[2, "2.a", ["b", "a"], ["a"], "a"]],
        [[2, "2.a", ["a", "a"], ["a"], "a"]],
        [[2, "2.a", ["a"], [], "a"]],
        [[2, "2.a", ["a"], ["a"], "b"]],
        [[-1, "2.a", ["a"], ["a"], "a"]],
        [[4, "4.a", ["a"], ["a"], "a"], True, [2, "2.a", ["a"], ["a"], "a"]],
        [[4, "4.a", ["a"], ["a"], "a"], True, None, None, 5],
        [[4, "4.a", ["a"], ["a"], "a"], False, None, [1, ["a"]]],
        [[4, "4.a", ["a"], ["a"], "a"], True, None, [0, ["a"]]],
        [None, True],
    ],
)
def test_a_standing_that_contradicts_itself_is_not_understood(standing: list[Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        STANDING.decode(encode(standing))


# ---- changes of the configured set -------------------------------------------------------------


def test_a_change_takes_effect_with_the_next_primary_component() -> None:
    three = {name: process(name) for name in ABC}
    go_through(three, 2)
    for each in three.values():
        assert each.change("c", "z")
    a, b = three["a"], three["b"]
    verdict = go_through({"a": a, "b": b, "z": process("z")}, 4)
    assert verdict.component
    assert verdict.component.configured == ("a", "b", "z")
    assert go_through({"b": b}, 6).why_not == "no quorum of 4.a"
    assert judge("majority", 8, "8.a", {"a": a.standing, "z": STRANGER}).is_primary


def test_a_change_takes_effect_where_there_is_a_majority_of_both_sets() -> None:
    changed = replace(inside(LAST), change=Change(2, ("a", "y", "z")))
    why_not = judge("majority", 10, "10.a", {"a": changed, "b": inside(LAST)}).why_not
    assert why_not == "no majority of the changed configured set: a, y, z"
    assert judge("majority", 10, "10.a", {"a": changed, "y": STRANGER, "z": STRANGER}).why_not == "no quorum of 4.a"
    assert judge("majority", 10, "10.a", {"a": changed, "b": inside(LAST), "z": STRANGER}).is_primary


def test_of_changes_in_one_component_the_last_counts_and_of_an_earlier_component_none() -> None:
    told = {
        "a": replace(inside(LAST), change=Change(2, ("a", "b", "z"))),
        "b": replace(inside(LAST), change=Change(1, ("a", "b", "y"))),
        "c": replace(inside(component(2, "abc")), change=Change(3, ("a", "b", "x"))),
    }
    verdict = judge("majority", 10, "10.a", told)
    assert verdict.component
    assert verdict.component.configured == ("a", "b", "z")


def test_changes_build_on_one_another_and_survive_a_restart() -> None:
    a = process("a")
    go_through({"a": a, "b": process("b")}, 2)
    assert a.change("c", "y")
    assert not a.change("c", "z")
    assert a.change("y", "z")
    assert a.standing.change == Change(2, ("a", "b", "z"))
    stored = a.engine.out[-1]
    assert isinstance(stored, Store)
    assert process("a", {KEY: stored.value}).standing.change == a.standing.change


def test_a_change_that_cannot_be_is_refused_with_the_reason() -> None:
    a = process("a")
    with pytest.raises(MisuseError, match="not in it now"):
        a.check_change("c", "z")
    go_through({"a": a, "b": process("b")}, 2)
    a.check_change("c", "z")
    with pytest.raises(MisuseError, match="'z' is not configured; configured are a, b, c"):
        a.check_change("z", "y")
    with pytest.raises(MisuseError, match="'b' is configured already"):
        a.check_change("c", "b")
    with pytest.raises(MisuseError, match="1 to 255 bytes"):
        a.check_change("c", "z" * 256)
    with pytest.raises(MisuseError, match="the policy dynamic knows no configured set"):
        process("a", policy="dynamic").check_change("c", "z")


# ---- histories ---------------------------------------------------------------------------------

WORLDS = 150
STEPS = 150


def wrong_in(policy: Policy, worlds: int, **rules: bool) -> tuple[list[str], Counter[str]]:
    """Run worlds; return what is wrong in the first in which something is, and what has been seen."""
    seen: Counter[str] = Counter()
    for seed in range(worlds):
        world = World(seed, policy, **rules)
        world.run(STEPS)
        seen.update(world.seen)
        if world.wrong:
            return [f"seed {seed}: {each}" for each in world.wrong], seen
    return [], seen


@pytest.mark.parametrize("policy", ["majority", "dynamic"])
def test_primary_components_are_ordered_and_continuous_in_any_history(policy: Policy) -> None:
    """PC-1 and PC-2; and whoever goes on was in the last one; and all together are always primary."""
    wrong, seen = wrong_in(policy, WORLDS)
    assert not wrong
    assert min(seen[each] for each in ("no quorum", "nobody in it has installed", "may have founded", "goes on")) > 20
    assert min(seen[each] for each in ("crash before Install", "crash before Store")) > 20
    assert policy == "dynamic" or min(seen[each] for each in ("change", "changed configured set")) > 20


# ---- and with one rule forgotten, they are not

Patch = Callable[[pytest.MonkeyPatch], None]
Standings = Mapping[str, Standing]
acknowledge, install = Primary.acknowledge, Primary.install


def replaced(target: Any, name: str, value: Any) -> Patch:
    return lambda patch: patch.setattr(target, name, value)


def counting(policy: Policy, quorum: Callable[[Standings, Component, tuple[str, ...]], bool]) -> Patch:
    """Another quorum, which may look at all that was told."""

    def verdict(self: Primary, seq: int, config: str, standings: Standings) -> Verdict:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(primary.QUORUMS, policy, lambda last, members: quorum(standings, last, members))
            return judge(policy, seq, config, standings)

    return replaced(Primary, "verdict", verdict)


def of_changed_set(standings: Standings, last: Component, members: tuple[str, ...]) -> bool:
    return primary.is_majority(members, primary.configured_after(last, standings))


def of_either_half(standings: Standings, last: Component, members: tuple[str, ...]) -> bool:
    return 2 * len(set(members).intersection(last.members)) >= len(last.members)


def forget_the_acknowledgement(self: Primary, verdict: Verdict) -> None:
    acknowledge(self, verdict)
    self.engine.out.clear()


def ignore_what_was_founded(self: Primary, verdict: Verdict) -> None:
    if verdict.component is not None:
        self._store(replace(self.standing, attempt=verdict.component))


def install_and_store(first: type) -> Callable[[Primary, Verdict, Install], None]:
    """In one order, founder or not."""

    def installs(self: Primary, verdict: Verdict, effect: Install) -> None:
        install(self, verdict, effect)
        self.engine.out.sort(key=lambda each: not isinstance(each, first))

    return installs


MUTATIONS: dict[str, tuple[Policy, Patch]] = {
    "attempts are not looked at": ("majority", replaced(primary, "attempts_after", lambda last, standings: [])),
    "an attempt blocks while its founder is here": (
        "majority",
        replaced(primary, "is_abandoned", lambda attempt, standings: attempt.founder not in standings),
    ),
    "an attempt blocks whoever has not acknowledged it": (
        "majority",
        replaced(primary, "is_abandoned", lambda attempt, standings: False),
    ),
    "acknowledgements are not stored": ("majority", replaced(Primary, "acknowledge", forget_the_acknowledgement)),
    "what was founded meanwhile is not kept": ("dynamic", replaced(Primary, "acknowledge", ignore_what_was_founded)),
    "no quorum is asked for": ("majority", counting("majority", lambda *_: True)),
    "a change counts before it takes effect": ("majority", counting("majority", of_changed_set)),
    "of two halves both go on": ("dynamic", counting("dynamic", of_either_half)),
    "the founder need not have installed the last component": (
        "majority",
        replaced(primary, "founders_after", lambda last, standings: sorted(standings)),
    ),
    "all store before they install": ("dynamic", replaced(Primary, "install", install_and_store(Store))),
    "all install before they store": ("dynamic", replaced(Primary, "install", install_and_store(Install))),
    "everybody goes on": (
        "majority",
        replaced(primary, "since_when", lambda seq, last, standing: standing.since or seq),
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_forgotten_rule_is_found(mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, apply = MUTATIONS[mutation]
    apply(monkeypatch)
    wrong, _ = wrong_in(policy, 20 * WORLDS)
    assert wrong


@pytest.mark.parametrize("policy", ["majority", "dynamic"])
def test_an_engine_that_lets_others_install_before_the_founder_is_found(policy: Policy) -> None:
    wrong, _ = wrong_in(policy, 20 * WORLDS, founder_first=False)
    assert wrong
