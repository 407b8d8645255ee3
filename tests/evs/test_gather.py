"""The gather state by itself: what is said grows until all that are left say the same, so it ends."""

from random import Random

import pytest

from covey.evs.gather import Gather
from covey.evs.messages import MEMBERS_MAX, Join
from covey.kernel.ids import ProcessId

A, B, C, D = (ProcessId(name, 1) for name in "abcd")


def join(*procs: ProcessId, failed: tuple[ProcessId, ...] = ()) -> Join:
    return Join(0, tuple(sorted(procs)), failed)


def test_who_gathers_knows_itself_and_is_alone() -> None:
    gather = Gather(1.0, B, ())
    assert (gather.living, gather.silent, gather.is_growing) == ((B,), frozenset(), True)
    assert gather.join(8) == Join(8, (B,), ())


def test_what_somebody_says_is_taken_over_and_the_time_of_it_is_kept() -> None:
    gather = Gather(1.0, A, (A, B))
    assert gather.hear(2.0, B, join(A, B, C))
    assert gather.join(8) == Join(8, (A, B, C), ())
    assert (gather.changed_at, gather.grown_at) == (2.0, 2.0)
    assert gather.hear(3.0, B, join(A, B, C, failed=(C,)))
    assert gather.join(8) == Join(8, (A, B, C), (C,))
    assert (gather.changed_at, gather.grown_at) == (3.0, 2.0)
    assert gather.living == (A, B)


def test_what_is_not_new_changes_nothing() -> None:
    gather = Gather(1.0, A, (A, B))
    gather.hear(2.0, B, join(A, B, C, failed=(C,)))
    for said in (join(A, B, C, failed=(C,)), join(B), join(B, C), join(A, failed=(C,))):
        assert not gather.hear(3.0, B, said)
    assert gather.changed_at == 2.0


def test_who_lives_is_silent_until_it_says_exactly_the_same() -> None:
    gather = Gather(1.0, A, (A, B, C))
    gather.add(1.0, (A, B, C))
    assert gather.silent == {B, C}
    gather.hear(2.0, B, join(A, B))
    assert gather.silent == {B, C}
    gather.hear(2.0, B, join(A, B, C))
    assert gather.silent == {C}
    gather.hear(2.0, C, join(A, B, C))
    assert gather.silent == frozenset()
    gather.add(3.0, (), (C,))
    assert gather.silent == {B}, "what B has said is not what is said now"
    gather.hear(2.0, B, join(A, B, C, failed=(C,)))
    assert gather.silent == frozenset()


def test_who_has_given_me_up_is_given_up_and_nothing_else_that_it_says_counts() -> None:
    gather = Gather(1.0, A, (A, B, C))
    gather.add(1.0, (A, B, C))
    assert gather.hear(2.0, B, join(A, B, C, D, failed=(A, C)))
    assert gather.join(0) == Join(0, (A, B, C), (B,))


def test_nobody_gives_itself_up() -> None:
    gather = Gather(1.0, A, (A, B))
    gather.add(1.0, (A, B), (A, B))
    assert gather.living == (A,)


def test_only_who_was_seen_can_be_given_up() -> None:
    gather = Gather(1.0, A, (A,))
    assert not gather.add(2.0, (), (B,))
    assert gather.failed == frozenset()


def test_of_a_name_the_latest_incarnation_counts_whichever_is_heard_of_first() -> None:
    old, new = ProcessId("b", 1), ProcessId("b", 3)
    for first, second in ((old, new), (new, old)):
        gather = Gather(1.0, A, (A,))
        gather.hear(2.0, first, join(first))
        gather.hear(3.0, second, join(second))
        assert gather.living == (A, new)


def test_what_the_dead_have_said_is_not_kept() -> None:
    gather = Gather(1.0, A, (A,))
    for incarnation in range(1, 100):
        again = ProcessId("b", incarnation)
        gather.hear(2.0, again, join(again))
        assert len(gather.heard) <= len(gather.procs)


def test_my_own_incarnation_is_the_latest_whatever_others_say() -> None:
    gather = Gather(1.0, A, (A,))
    gather.hear(2.0, B, join(ProcessId("a", 9), B))
    assert gather.living == (A, B)


def test_a_failed_incarnation_gives_way_to_the_next_one() -> None:
    gather = Gather(1.0, A, (A, B))
    gather.add(1.0, (A, B), (B,))
    gather.hear(2.0, ProcessId("b", 2), join(ProcessId("b", 2)))
    assert gather.living == (A, ProcessId("b", 2))
    assert gather.failed == frozenset()


def test_it_grows_while_somebody_lives_who_was_not_known() -> None:
    gather = Gather(1.0, A, (A, B))
    gather.add(1.0, (A, B))
    assert not gather.is_growing
    gather.add(2.0, (C,))
    assert gather.is_growing
    gather.add(3.0, (), (C,))
    assert not gather.is_growing


def test_no_more_are_gathered_than_a_configuration_may_have() -> None:
    gather = Gather(1.0, A, (A,))
    crowd = [ProcessId(f"b{number:03}", 1) for number in range(MEMBERS_MAX)]
    assert not gather.add(2.0, crowd)
    assert gather.add(2.0, crowd[1:])
    assert not gather.hear(3.0, crowd[0], join(crowd[0]))
    assert len(gather.living) == MEMBERS_MAX
    assert crowd[0] not in gather.heard, "and of others nothing is kept"


@pytest.mark.parametrize("seed", range(20))
def test_all_that_hear_each_other_come_to_say_the_same_in_as_many_rounds_as_there_are_processes(seed: int) -> None:
    chance = Random(seed)
    pids = [ProcessId(name, 1) for name in "abcdefg"]
    gathers = {pid: Gather(0.0, pid, ()) for pid in pids}
    for pid in pids:
        gathers[pid].add(0.0, chance.sample(pids, 2), chance.sample(pids, chance.choice((0, 0, 1))))
    for _ in pids:
        said = {pid: gathers[pid].join(0) for pid in pids}
        for sender in chance.sample(pids, len(pids)):
            for pid in pids:
                if sender not in (pid, *gathers[pid].failed):
                    gathers[pid].hear(1.0, sender, said[sender])
    for pid in pids:
        gather = gathers[pid]
        assert gather.silent <= gather.procs - {pid}
        others = [gathers[other] for other in gather.living if other not in gather.silent]
        assert all(other.join(0) == gather.join(0) for other in others)
    assert any(len(gather.living) > 3 and not gather.silent for gather in gathers.values())
