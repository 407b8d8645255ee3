"""The ring by itself: members around a table pass a token, and what each believes is held against the truth."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from msgspec.structs import replace

from covey.evs import ring as module
from covey.evs.messages import AGREED, CHANGE, SAFE, Frame, Range, RingId, Token, pack_frame, ring_bytes
from covey.evs.ring import (
    AHEAD_MAX,
    NOT_YET,
    RANGES_MAX,
    UNSAFE_MAX,
    VISIT_MAX,
    WINDOW,
    Fresh,
    Ring,
    in_ranges,
    to_ranges,
)
from covey.kernel.errors import BrokenInvariant
from tests.evs.table import RING, Table

ROTATIONS_MAX = 60


def storm(count: int, seed: int, loss: float, kind: type[Ring] = Ring) -> Table:
    """A table where everybody sends for a while, and which then comes to an end."""
    table = Table(count, seed, loss, kind)
    chance = table.random
    for _ in range(20 * count):
        table.arrive(chance.choice((0.3, 0.7, 1.0)))
        if chance.random() < 0.4:
            table.hand_over(chance.randrange(count), chance.choice((1, 3, 30)))
        table.visit()
    table.loss = min(loss, 0.5)
    finish(table)
    return table


def storms(kind: type[Ring]) -> None:
    for seed in range(5):
        storm(3, seed, 0.1, kind)


def finish(table: Table) -> None:
    for _ in range(ROTATIONS_MAX):
        table.rotate()
        if table.is_done:
            return
    raise AssertionError(f"not done after {ROTATIONS_MAX} rotations")


# --- order


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.5, 0.8])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_everybody_delivers_all_in_the_same_order(count: int, loss: float) -> None:
    for seed in range(6):
        table = storm(count, seed, loss)
        (order,) = {tuple(each) for each in table.orders}
        for place, sent in enumerate(table.sent):
            assert [each for each in order if each[0] == place] == sent, "in the order in which it was sent"


def test_a_frame_that_comes_twice_is_taken_once() -> None:
    table = Table(2)
    table.hand_over(0, 2, AGREED)
    first, second = table.visit()
    ring = table.rings[1]
    assert [ring.take(frame) for frame in (second, second, first, first, second)] == [True, False, True, False, False]
    assert (ring.aru, ring.beyond) == (2, [])


def test_what_is_beyond_a_hole_waits_for_it() -> None:
    table = Table(2)
    table.hand_over(0, 3, AGREED)
    first, second, third = table.visit()
    ring = table.rings[1]
    ring.take(second)
    ring.take(third)
    assert (ring.aru, ring.beyond, [*ring.ready()]) == (0, [2, 3], [])
    ring.take(first)
    assert (ring.aru, ring.beyond, [*ring.ready()]) == (3, [], [first, second, third])


# --- safe


def test_a_safe_frame_waits_until_all_are_known_to_have_it_and_those_behind_it_wait_too() -> None:
    table = Table(3)
    table.hand_over(0, 1, SAFE)
    table.hand_over(0, 1, AGREED)
    table.rotate()
    assert table.orders == [[], [], []], "all have them, and nobody knows it of all"
    assert {ring.safe for ring in table.rings} == {NOT_YET}
    for place in range(3):
        table.visit()
        assert [len(order) for order in table.orders] == [2] * (place + 1) + [0] * (2 - place)


def test_a_change_of_the_configured_set_is_delivered_like_a_safe_message() -> None:
    agreed, change = Table(2), Table(2)
    agreed.hand_over(0, 1, AGREED)
    change.hand_over(0, 1, CHANGE)
    agreed.visit()
    change.visit()
    assert (agreed.orders[0], change.orders[0]) == ([(0, 1)], [])


class Hasty(Ring):
    """A ring that takes for safe what the token's aru has passed once."""

    def visit(self, token: Token, fresh: Callable[[int], Sequence[Fresh]]) -> tuple[Token, list[Frame]]:
        passed, frames = super().visit(token, fresh)
        self.safe = max(self.safe, min(passed.aru, self.aru))
        return passed, frames


def test_the_truth_contradicts_who_takes_a_frame_for_safe_after_one_rotation() -> None:
    with pytest.raises(AssertionError, match="for safe"):
        storms(Hasty)


class Stubborn(Ring):
    """A ring that lets the token's aru pass without lowering it."""

    def visit(self, token: Token, fresh: Callable[[int], Sequence[Fresh]]) -> tuple[Token, list[Frame]]:
        passed, frames = super().visit(token, fresh)
        return replace(passed, aru=max(passed.aru, token.aru)), frames


def test_the_truth_contradicts_who_does_not_lower_the_aru() -> None:
    with pytest.raises(AssertionError, match="for safe"):
        storms(Stubborn)


# --- what is missing


def test_a_frame_that_the_token_tells_of_may_be_on_its_way_and_is_asked_for_one_rotation_later() -> None:
    """The ring is accelerated: the token has overtaken the last frames of its holder."""
    table = Table(3)
    table.hand_over(0, 2, AGREED)
    table.lost = {1}
    table.visit()
    asked = []
    for _ in range(2):
        table.arrive()
        table.visit()
        asked.append(table.token.missing)
    assert asked == [(), ()], "b and c miss it, and wait"
    table.visit()
    table.visit()
    assert table.token.missing == (Range(1, 1),), "b asks"
    assert table.token.lowered_by == "b"
    table.visit()
    (again,) = table.visit()
    assert (again.seq, again.origin, table.token.missing) == (1, 0, ())
    table.arrive()
    assert all(order == [(0, 1), (0, 2)] for order in table.orders)


def test_anybody_who_has_a_missing_frame_sends_it_again() -> None:
    table = Table(3)
    table.hand_over(0, 1, AGREED)
    (frame,) = table.visit()
    table.under_way = [[], [frame.body], []]
    for _ in range(4):
        table.arrive()
        table.visit()  # b, c, a, b
    assert table.token.missing == ()
    table.visit()
    assert table.token.missing == (Range(1, 1),)
    assert [each.body for each in table.visit()] == [frame.body], "a has it"
    table.under_way[2].clear()
    table.visit(), table.visit()
    assert table.token.missing == (Range(1, 1),)
    table.rings[0].frames.pop(1, None)
    table.visit()
    assert [each.body for each in table.visit()] == [frame.body], "b sends again what a had sent, word for word"


def test_what_was_asked_for_and_not_sent_again_stays_on_the_list() -> None:
    ring = Table(3).rings[2]
    passed, frames = ring.visit(Token(RING, 6, 9, 0, "b", (Range(2, 3), Range(7, 7)), 0, False), lambda limit: [])
    assert (passed.missing, frames) == ((Range(2, 3), Range(7, 7)), [])


def test_no_more_is_sent_again_in_one_visit_than_a_visit_may_have() -> None:
    table = Table(2)
    for _ in range(2):
        table.hand_over(0, VISIT_MAX, AGREED)
        table.visit()
        table.under_way[1].clear()
        table.visit()
    assert table.token.missing == (Range(1, VISIT_MAX),)
    table.visit()
    table.under_way[1].clear()
    table.visit()
    assert table.token.missing == (Range(1, 2 * VISIT_MAX),)
    table.hand_over(0, 1)
    frames = table.visit()
    assert [frame.seq for frame in frames] == [*range(1, VISIT_MAX + 1)], "and nothing new beside it"
    assert table.token.missing == (Range(VISIT_MAX + 1, 2 * VISIT_MAX),)


# --- flow control and memory


def test_a_member_sends_no_more_than_a_visit_may_have_and_all_together_no_more_than_the_window() -> None:
    table = Table(5)
    for place in range(5):
        table.hand_over(place, 200)
    sizes = []
    for _ in range(60):
        table.arrive()
        sizes.append(len(table.visit()))
    assert sizes[:5] == [VISIT_MAX, VISIT_MAX, WINDOW - 2 * VISIT_MAX, 0, 0]
    assert all(sum(sizes[at : at + 5]) <= WINDOW for at in range(len(sizes)))
    assert sum(sizes) >= WINDOW * 10, "and the window is used"


def test_nobody_sends_further_ahead_than_the_slowest_can_keep_up_with() -> None:
    table = Table(3)
    for place in range(3):
        table.hand_over(place, 1000, AGREED)
    for _ in range(90):
        table.under_way[2].clear()
        table.arrive()
        table.visit()
    assert table.token.seq <= AHEAD_MAX + WINDOW
    assert max(len(ring.frames) for ring in table.rings) <= AHEAD_MAX + WINDOW
    finish_seq = table.token.seq
    table.rotate(40)
    assert table.token.seq > finish_seq + 500, "it goes on when the slow one is back"


def test_a_frame_that_all_have_and_that_was_delivered_is_given_up() -> None:
    for seed in range(4):
        table = storm(3, seed, 0.3)
        table.rotate(3)
        assert [ring.frames for ring in table.rings] == [{}, {}, {}]
        assert {ring.safe for ring in table.rings} == {table.token.seq}


def test_more_frames_than_can_be_are_a_broken_invariant() -> None:
    ring = Table(2).rings[0]
    ring.frames = dict.fromkeys(range(2, UNSAFE_MAX + 4), None)
    with pytest.raises(BrokenInvariant, match="keeps 2050 frames"):
        ring.discard()


# --- quiet times


@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_when_all_is_said_the_ring_is_quiet_and_the_token_rests_with_the_one_that_sent_last(loss: float) -> None:
    for seed in range(20):
        table = storm(4, seed, loss)
        table.loss = 0.0
        table.rotate(5)
        assert table.is_quiet
        (resting,) = (ring.place for ring in table.rings if ring.is_resting_place)
        assert resting == table.orders[0][-1][0]
        assert table.token.flow == 0


def test_a_ring_is_not_quiet_while_somebody_does_not_know_that_all_is_safe() -> None:
    table = Table(3)
    table.hand_over(1, 1, SAFE)
    quiet = []
    for _ in range(15):
        table.arrive()
        table.visit()
        quiet.append([ring.is_quiet for ring in table.rings])
        if any(quiet[-1]):
            assert all(table.orders), "who rests keeps nobody waiting"
    assert all(quiet[-1])


def test_a_token_may_rest_and_be_looked_at_again_and_flow_control_forgets_nothing() -> None:
    """Where it rests, the holder visits with the same token twice; nothing may stay counted that nobody takes off."""
    for seed in range(200):
        table = Table(3, seed, loss=0.4)
        chance = table.random
        for _ in range(60):
            table.arrive(0.6)
            if chance.random() < 0.1:
                table.hand_over(chance.randrange(3), 2)
            table.visit_and_rest()
        table.loss = 0.0
        for _ in range(30):
            table.arrive()
            table.visit_and_rest()
        assert table.token.flow == 0, f"seed {seed}"


# --- what cannot be


def test_a_frame_that_cannot_be_one_of_this_ring_is_not_read() -> None:
    ring = Table(2).rings[0]
    mine = ring_bytes(RING)
    bodies = {
        "another ring": pack_frame(ring_bytes(RingId(6, "a")), 1, 0, SAFE, 1, b"").body,
        "a representative of another name": pack_frame(ring_bytes(RingId(4, "ab")), 1, 0, SAFE, 1, b"").body,
        "short": pack_frame(mine, 1, 0, SAFE, 1, b"").body[:-1],
        "number 0": pack_frame(mine, 0, 0, SAFE, 1, b"").body,
        "a number too far ahead": pack_frame(mine, UNSAFE_MAX + 1, 0, SAFE, 1, b"").body,
        "a service that there is not": pack_frame(mine, 1, 0, CHANGE + 1, 1, b"").body,
        "an origin that is no member": pack_frame(mine, 1, 2, SAFE, 1, b"").body,
    }
    assert {why: ring.read(body) for why, body in bodies.items()} == dict.fromkeys(bodies)
    assert ring.read(pack_frame(mine, UNSAFE_MAX, 1, CHANGE, 1, b"").body) is not None


def test_what_a_member_believes_must_not_contradict_itself() -> None:
    def broken(**wrong: int) -> Ring:
        ring = Table(2).rings[0]
        ring.take(pack_frame(ring.bytes, 1, 0, SAFE, 1, b""))
        ring.check()
        for name, value in wrong.items():
            setattr(ring, name, value)
        return ring

    for wrong in ({"safe": 2}, {"delivered": 2}, {"delivered": 1}, {"aru": 0}):
        with pytest.raises(BrokenInvariant):
            broken(**wrong).check()
    broken(delivered=1, safe=1).check()


# --- ranges


def test_ranges_hold_the_numbers_that_they_are_made_of() -> None:
    for seqs in ([], [1], [1, 2, 3], [1, 3, 4, 9], [*range(5, 90), 100]):
        assert [*in_ranges(to_ranges(seqs))] == seqs
        assert all(a.last + 1 < b.first for a, b in pairwise(to_ranges(seqs)))


def test_where_there_are_too_many_ranges_the_first_ones_are_told() -> None:
    ranges = to_ranges(range(0, 4 * RANGES_MAX, 2))
    assert ranges == tuple(Range(seq, seq) for seq in range(0, 2 * RANGES_MAX, 2))


def test_as_many_ranges_as_there_can_be_holes_can_be_told() -> None:
    """Step 3 tells all that a process has: what it kept for itself, it alone would deliver."""
    assert 2 * RANGES_MAX > AHEAD_MAX + WINDOW
    assert module.UNSAFE_MAX > AHEAD_MAX + 2 * WINDOW
