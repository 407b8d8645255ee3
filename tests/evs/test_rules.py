"""The rules of the filter (evs-1994, section 5) at work: what each process is told in the scenarios of model `vs`."""

from tests.evs.scenes import history, lines, names, seen


def test_each_rule_has_its_scenario() -> None:
    assert [name[:9] for name in names("vs/rule")] == ["vs/rule-1", "vs/rule-2", "vs/rule-3", "vs/rule-4"]


def test_rule_1_a_delivery_in_a_transitional_configuration_is_one_in_the_view_before() -> None:
    name = "vs/rule-1-transitional-configurations-are-masked"
    assert lines(name)["q"].endswith("4.p=pqr* 4.p>6.p=pq p1 6.p=pq*")
    assert seen(name, "q") == [
        "4 start",
        "4 config 4.p: p/4 q/4 r/4",
        "4 deliver p/4/1 in 4.p",
        "4 config 6.p: p/4 q/4",
    ]
    assert seen(name, "p")[2:4] == ["4 send p/4/1 in 4.p", "4 deliver p/4/1 in 4.p"]
    assert seen(name, "r") == ["4 start", "4 config 4.p: p/4 q/4 r/4", "4 fail 4.p"]


def test_rule_2_outside_the_primary_component_nothing_happens_and_what_is_to_be_sent_waits() -> None:
    name = "vs/rule-2-others-are-blocked"
    assert lines(name)["r"].endswith("4.p=pqr* 4.p>6.r=r 6.r=r 6.r>8.p=r 8.p=pqr* +1 +2 r1 r2")
    assert seen(name, "r") == [
        "4 start",
        "4 config 4.p: p/4 q/4 r/4",
        "4 fail 4.p",
        "8 start",
        "8 config 8.p: p/4 q/4 r/8",
        "8 send r/8/1 r/8/2 in 8.p",
        "8 deliver r/8/1 r/8/2 in 8.p",
    ]
    assert seen(name, "q") == [
        "4 start",
        "4 config 4.p: p/4 q/4 r/4",
        "4 config 6.p: p/4 q/4",
        "4 deliver p/4/1 in 6.p",
        "4 config 8.p: p/4 q/4 r/8",
        "4 deliver r/8/1 r/8/2 in 8.p",
    ]


def test_rule_3_of_several_that_are_merged_the_others_see_one_join_at_a_time() -> None:
    name = "vs/rule-3-one-joins-at-a-time"
    assert history(name).views["8.a"].members == {*"abcde"}
    for process in "cde":
        assert seen(name, process) == [
            "4 start",
            "4 config 4.a: a/4 b/4 c/4 d/4 e/4",
            "4 config 6.c: c/4 d/4 e/4",
            "4 config 8.a#1: a/8 c/4 d/4 e/4",
            "4 config 8.a: a/8 b/8 c/4 d/4 e/4",
        ]


def test_rule_4_who_is_merged_begins_with_the_last_view_as_a_new_process() -> None:
    name = "vs/rule-3-one-joins-at-a-time"
    for process in "ab":
        assert seen(name, process)[2:] == ["4 fail 4.a", "8 start", "8 config 8.a: a/8 b/8 c/4 d/4 e/4"]


def test_rule_4_it_does_not_matter_why_it_was_gone_and_its_messages_are_those_of_the_new_process() -> None:
    name = "vs/rule-4-who-is-merged-is-new"
    assert seen(name, "a")[2:] == [
        "4 fail 4.a",
        "10 start",
        "10 config 10.a: a/10 b/8 c/4 d/4 e/4",
        "10 send a/10/1 in 10.a",
        "10 deliver a/10/1 in 10.a",
    ]
    assert seen(name, "b")[2:] == [
        "4 fail 4.a",
        "8 start",
        "8 config 8.b: b/8 c/4 d/4 e/4",
        "8 deliver c/4/1 in 8.b",
        "8 config 10.a: a/10 b/8 c/4 d/4 e/4",
        "8 deliver a/10/1 in 10.a",
    ]
