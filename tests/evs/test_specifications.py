"""What evs-1994 promises, situation by situation: each scenario of `tests/scenarios/evs` reaches the one it is about.

That nothing is violated, the judge says of each of them (`tests/scenarios`). Here it is asserted that what could have
gone wrong was there, and what came of it, in the notation of `tests.evs.notation`.
"""

from itertools import pairwise

import pytest

from covey.evs.primary import KEY, STANDING
from covey.kernel.effects import Effect, Store
from covey.sim.machine import Life, Machine
from covey.sim.world import World
from tests.evs.history import Event, History, installation
from tests.evs.judge_both import primary_components
from tests.evs.scenes import history, lines, names, play, rows, states


def since(config: str, name: str) -> dict[str, str]:
    """The line of each process from its installation of a configuration on."""
    told = lines(name)
    return {process: line[line.index(f" {config}=") + 1 :] for process, line in told.items() if f" {config}=" in line}


def recoveries(name: str, process: str) -> list[dict[str, int]]:
    """What a process says of those that it went through."""
    return [each for each in states(name, process) if "holes" in each]


def the(history: History, process: str, kind: str, what: str) -> Event:
    """The event in which a process sends, delivers or installs just that."""
    events = (each for each in history.processes[process] if each.kind == kind)
    return next(each for each in events if what in (each.message, each.config))


def precedes(history: History, one: Event, other: Event) -> bool:
    return bool(history.precedes.path(one, other))


# ---- section 3.1 -------------------------------------------------------------------------------


def test_the_example_of_figure_6_goes_as_the_text_says() -> None:
    """l, m and n are p1, p2 and r1."""
    assert lines("evs/figure-6") == {
        "p": "2.p=p 2.p>4.p=p 4.p=pqr* +1 p1 +2 p2 4.p>6.p=p 6.p=p",
        "q": "2.q=q 2.q>4.p=q 4.p=pqr* 4.p>6.q=qr r1 6.q=qrst*",
        "r": "2.r=r 2.r>4.p=r 4.p=pqr* +1s 4.p>6.q=qr r1 6.q=qrst*",
        "s": "2.s=s 2.s>4.s=s 4.s=st 4.s>6.q=st 6.q=qrst*",
        "t": "2.t=t 2.t>4.s=t 4.s=st 4.s>6.q=st 6.q=qrst*",
    }
    for process in "qr":  # m was there, and l was not; both had n
        assert recoveries("evs/figure-6", process)[-1] == {"rebroadcast": 0, "holes": 1, "discarded": 1, "obliged": 0}


# ---- the specifications ------------------------------------------------------------------------


def test_each_specification_has_its_scenario() -> None:
    """EVS-2.5 to 2.7 are what the others say of configurations, made explicit by the judge."""
    numbers = [name.partition("/")[2].partition("-")[0] for name in names("evs/[1-7]")]
    assert " ".join(numbers) == "1.1 1.2 1.3 1.4 2.1 2.2 2.3 2.4 3 4 5 6.1 6.2 6.3 7.1 7.2"


def test_1_1_of_events_in_two_components_neither_precedes_the_other_until_they_merge() -> None:
    seen = history("evs/1.1-partial-order")
    sent, answered = the(seen, "p", "send", "p/1/1"), the(seen, "r", "send", "r/1/1")
    apart, merged = the(seen, "q", "send", "q/1/1"), the(seen, "r", "deliver", "q/1/2")
    assert precedes(seen, sent, answered)
    assert not precedes(seen, answered, sent)
    assert not any(precedes(seen, *pair) for one in (sent, answered) for pair in ((one, apart), (apart, one)))
    assert precedes(seen, answered, merged)
    assert precedes(seen, apart, merged)


def test_1_2_a_crash_has_its_place_among_what_its_process_does() -> None:
    line = since("4.p", "evs/1.2-one-process")["q"]
    delivered = line[len("4.p=pq* ") : line.index(" x ")]
    assert "p1 p2" in delivered
    assert "p12" not in delivered
    assert line.endswith(f"{delivered} x ^ 6.q=q +1 q'1 6.q>8.p=q 8.p=pq*")


def test_1_3_a_message_is_delivered_in_its_configuration_or_the_transitional_one_after_it() -> None:
    line = since("4.p", "evs/1.3-delivered-where-it-was-sent")
    assert line["p"] == "4.p=pqr* +1s 4.p>6.p=pq p1 6.p=pq* +2s p2"
    assert line["q"] == "4.p=pqr* 4.p>6.p=pq p1 6.p=pq* p2"


def test_1_4_what_travels_often_is_delivered_once() -> None:
    name = "evs/1.4-once"
    assert [each["rebroadcast"] for each in recoveries(name, "q")] == [0, 1, 0]
    line = since("4.p", name)
    assert line["p"].startswith("4.p=pqr* +1 p1 4.p>6.p=p")
    assert line["q"].startswith("4.p=pqr* p1 4.p>6.q=qr")
    assert line["r"].startswith("4.p=pqr* p1 4.p>6.q=qr")
    assert [said.count("p1") for said in line.values()] == [1, 1, 1]


def test_2_1_nobody_stays_where_a_member_never_comes() -> None:
    line = since("4.p", "evs/2.1-failures-are-noticed")
    for process in "pq":
        assert line[process] == "4.p=pqrs* 4.p>6.p=pqr 6.p=pqr* 6.p>8.p=pq 8.p=pq"
    assert line["r"] == line["s"] == "4.p=pqrs* x"


def test_2_2_what_a_process_does_after_a_failure_it_does_in_a_configuration_of_its_own() -> None:
    line = since("4.p", "evs/2.2-one-configuration-at-a-time")["p"]
    assert line == "4.p=pqr* +1 +2 +3 p1 p2 p3 x ^ 6.p=p +1 p'1 6.p>8.p=p 8.p=pqr*"


def test_2_3_nobody_sends_in_a_configuration_before_all_have_installed_it() -> None:
    name = "evs/2.3-after-the-change-everywhere"
    at = {row["process"]: row["time_ns"] for row in rows(name) if row["event"] == "config" and row["config"] == "4.p"}
    (sent,) = (row["time_ns"] for row in rows(name) if row["event"] == "send")
    assert at["p"] < at["q"] < at["p"] + 1_000_000 < at["r"] - 90_000_000 < at["r"] < sent


def test_2_4_what_precedes_one_installation_precedes_all_though_no_message_tells_of_it() -> None:
    seen = history("evs/2.4-before-the-change-everywhere")
    delivered, installed = the(seen, "p", "deliver", "q/1/1"), the(seen, "s", "config", "8.p")
    assert not precedes(seen, delivered, installed)
    assert seen.precedes_by_view.path(delivered, installation("8.p"))


def test_3_who_does_not_fail_delivers_what_it_sent_be_it_alone() -> None:
    line = since("4.p", "evs/3-self-delivery")
    assert line["p"] == "4.p=pqr* +1s 4.p>6.p=p p1 6.p=p"
    assert line["q"] == line["r"] == "4.p=pqr* 4.p>6.q=qr 6.q=qr*"


def test_4_who_goes_together_delivers_the_same_though_each_lacks_what_the_other_has() -> None:
    name = "evs/4-atomicity"
    assert recoveries(name, "q")[-1]["rebroadcast"] == 2
    line = since("4.p", name)
    assert line["q"] == line["r"] == "4.p=pqr* p1 p2 4.p>6.q=qr 6.q=qr*"


def test_5_without_its_cause_a_message_is_not_delivered() -> None:
    name = "evs/5-causality"
    seen = history(name)
    assert precedes(seen, the(seen, "p", "send", "p/1/1"), the(seen, "q", "send", "q/1/1"))
    line = since("4.p", name)
    assert line["p"].startswith("4.p=pqr* +1 p1 q1 4.p>6.p=pq")
    assert line["r"] == "4.p=pqr* 4.p>6.r=r 6.r=r"
    assert recoveries(name, "r")[-1] == {"rebroadcast": 0, "holes": 1, "discarded": 1, "obliged": 0}


def test_6_1_all_deliver_in_one_order_in_which_causes_come_first() -> None:
    seen = history("evs/6.1-logical-time")
    order = {process: seen.delivered[process, "4.p"] for process in "pqr"}
    assert order["p"] == order["q"] == order["r"]
    assert len(order["p"]) == 12
    sends = [seen.sends[message][0] for message in order["p"]]
    assert not any(precedes(seen, other, one) for one, other in pairwise(sends))
    assert {each.service for each in sends} == {"causal", "agreed", "safe"}


def test_6_2_what_is_delivered_in_different_configurations_is_delivered_in_one_order() -> None:
    line = since("4.p", "evs/6.2-one-moment")
    assert line["q"] == "4.p=pqr* +1 p1 q1 4.p>6.q=q 6.q=q"
    assert line["r"] == "4.p=pqr* 4.p>6.p=pr p1 q1 6.p=pr*"


def test_6_3_only_messages_of_those_who_are_not_there_are_left_out() -> None:
    line = since("4.p", "evs/6.3-no-holes")
    assert line["p"] == "4.p=pqr* +1 p1 +2 p2 r1 4.p>6.p=p 6.p=p"
    assert line["q"] == "4.p=pqr* 4.p>6.q=qr r1 6.q=qr*"
    assert line["r"] == "4.p=pqr* +1 4.p>6.q=qr r1 6.q=qr*"


def test_7_1_a_safe_message_that_one_delivers_before_it_is_gone_is_delivered_by_all_that_do_not_fail() -> None:
    line = since("4.p", "evs/7.1-safe-where-it-is-delivered")
    assert line["q"] == "4.p=pqrs* p1 4.p>6.q=q 6.q=q"
    assert line["p"] == "4.p=pqrs* +1s 4.p>6.p=pr p1 6.p=pr"
    assert line["r"] == "4.p=pqrs* 4.p>6.p=pr p1 6.p=pr"
    assert line["s"] == "4.p=pqrs* x"


def test_7_2_nothing_is_delivered_as_safe_in_a_configuration_that_a_member_never_installs() -> None:
    name = "evs/7.2-safe-when-all-are-there"
    assert since("4.p", name) == {
        "p": "4.p=pqr* 4.p>6.p=pq 6.p=pq* +1s p1",
        "q": "4.p=pqr* 4.p>6.p=pq 6.p=pq* p1",
    }
    assert history(name).members("4.p") == {"p", "q", "r"}


# ---- primary components (section 2.2) ----------------------------------------------------------


def primary(name: str) -> list[str]:
    """The primary components, one after the other: in each line its members."""
    seen = history(name)
    return ["".join(sorted(seen.members(config))) for config in primary_components(seen)]


def others(name: str) -> set[str]:
    """The regular configurations of several that are not primary."""
    regular = [view for view in history(name).views.values() if view.kind == "regular" and len(view.members) > 1]
    return {"".join(sorted(view.members)) for view in regular if not view.primary}


def apart(config: str, other: str, seen: History) -> bool:
    """Whether the installation of neither precedes that of the other."""
    pairs = ((config, other), (other, config))
    return not any(seen.precedes_by_view.path(installation(one), installation(two)) for one, two in pairs)


def test_pc_1_of_the_sides_of_a_cut_one_at_most_is_primary() -> None:
    name = "evs/pc-1-majority"
    assert primary(name) == ["abcde", "cde", "abcde", "abc", "abcde", "abcde"]
    assert others(name) == {"ab", "de", "cd"}
    assert apart("6.a", "6.c", history(name))


def test_pc_1_of_two_halves_the_one_with_the_first_member_is_primary_where_voting_is_dynamic() -> None:
    name = "evs/pc-1-dynamic"
    assert primary(name) == ["abcd", "ab", "a", "abcd"]
    assert others(name) == {"cd"}
    assert apart("8.a", "6.c", history(name))


def test_pc_2_two_primary_components_in_a_row_share_a_process() -> None:
    assert primary("evs/pc-2-majority") == ["abcde", "abc", "cde"]
    c = since("6.a", "evs/pc-2-majority")["c"]
    assert c == "6.a=abc* 6.a>8.c=c 8.c=cde*"


def test_pc_2_many_that_were_not_in_the_last_primary_component_are_none_where_voting_is_dynamic() -> None:
    assert primary("evs/pc-2-dynamic") == ["abcde", "abc", "ab", "a", "abcde"]
    assert others("evs/pc-2-dynamic") == {"de", "cde", "bcde"}


@pytest.mark.parametrize(
    ("name", "last", "is_primary"),
    [
        ("change-of-the-configured-set", "cde~2", True),
        ("no-change-of-the-configured-set", "cde~2", False),
        ("interrupted-change", "cde~2", False),
        ("change-that-one-member-knows", "cde~2", True),
    ],
)
def test_losses_that_only_the_new_set_survives_are_survived_once_it_counts(
    name: str, last: str, is_primary: bool
) -> None:
    assert (primary(f"evs/primary-{name}")[-1] == last) is is_primary
    assert (last in others(f"evs/primary-{name}")) is not is_primary


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("change-of-the-configured-set", {"b", "c"}),
        ("no-change-of-the-configured-set", set()),
        ("interrupted-change", {"b"}),
        ("change-that-one-member-knows", {"b"}),
        ("majority-of-both-sets", {"b"}),
    ],
)
def test_of_a_change_several_knew_or_one_or_nobody(name: str, known: set[str]) -> None:
    """Who knows of it begins to form the configuration with which it takes effect; so not all have to know."""
    stored = set()

    def saw(machine: Machine, what: Effect | Life) -> None:
        if isinstance(what, Store) and what.key == KEY and STANDING.decode(what.value).change is not None:
            stored.add(machine.pid.name)

    def watch(world: World) -> None:
        world.watchers.append(saw)

    play(f"evs/primary-{name}", watch=watch)
    assert stored == known


def test_a_majority_of_the_new_set_alone_is_none() -> None:
    name = "evs/primary-majority-of-both-sets"
    assert primary(name) == ["a", "ab", "a"]
    assert since("4.a", name)["b"] == "4.a=ab* 4.a>6.b=b 6.b=b"


def test_by_linear_voting_a_group_shrinks_to_the_one_that_breaks_the_tie_and_grows_again() -> None:
    assert primary("evs/primary-linear-voting") == ["abcde", "abc", "ab", "a", "ab", "abd", "abcde"]


@pytest.mark.parametrize(("name", "founded"), [("interrupted-attempt", False), ("founded-by-one", True)])
def test_an_attempt_whose_founder_is_gone_blocks_until_it_is_back(name: str, founded: bool) -> None:
    """Whether it has installed the component makes no difference to the others, who have acknowledged it."""
    name = f"evs/primary-{name}"
    assert primary(name) == ["abcde", *(["abcd"] if founded else []), "abcd"]
    assert others(name) == {"bcd"}
    assert since("4.a", name)["a"].startswith(f"4.a=abcde* 4.a>6.a=abcd {'6.a=abcd* ' if founded else ''}x ^")
    for process in "bcd":
        assert {"interrupted at step 5c": 1} in states(name, process)


def test_an_attempt_that_some_have_not_acknowledged_blocks_nobody() -> None:
    name = "evs/primary-abandoned-attempt"
    assert primary(name) == ["abcde", "bcd"]
    assert {"interrupted at step 5a": 1} in states(name, "b")
    assert {"interrupted at step 5c": 1} in states(name, "d")


# ---- recovery and ring -------------------------------------------------------------------------


def test_an_obligation_holds_to_those_of_an_attempt_that_came_to_nothing() -> None:
    name = "evs/recovery-obligations"
    assert since("4.p", name)["p"] == "4.p=pqrs* +1s 4.p>6.p=pqr p1 6.p=pqr* 6.p>8.p=p 8.p=p"
    for process in "qr":
        assert since("4.p", name)[process].endswith("4.p>8.q=qr p1 8.q=qr")
        assert states(name, process)[1:] == [
            {"interrupted at step 5c": 1},
            {"rebroadcast": 0, "holes": 1, "discarded": 0, "obliged": 1},
        ]


def test_a_frame_that_one_member_misses_is_sent_again() -> None:
    assert since("4.p", "evs/ring-lost-frame")["r"] == "4.p=pqr* p1"
