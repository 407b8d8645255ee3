"""The token on its way: how often it is sent again, what is a sign of it, and when it is lost."""

from itertools import pairwise

from covey.evs.messages import RingId
from covey.evs.passing import AGAIN_MAX_S, AGAIN_S, LOSS_S, SUSPECT_S, Passing
from covey.kernel.effects import Send
from covey.kernel.ids import ProcessId

B = ProcessId("b", 1)
RING = RingId(4, "a")
TOKEN = Send("b", b"token")


def passed(now: float = 1.0) -> Passing:
    passing = Passing(0.0)
    passing.pass_on(now, B, RING, 7, 3, TOKEN)
    return passing


def test_the_token_is_sent_again_until_it_is_lost_each_time_after_twice_as_long() -> None:
    passing, now, times = passed(), 1.0, []
    while not passing.is_lost(now):
        now = passing.deadline
        if passing.again(now) is not None:
            times.append(round(now - 1.0, 3))
            assert passing.again(now) is None, "once"
    assert times == [0.03, 0.09, 0.21, 0.45, 0.7]
    assert all(b - a <= AGAIN_MAX_S + 1e-9 for a, b in pairwise(times))
    assert now == 1.0 + LOSS_S


def test_before_its_time_nothing_is_sent_again() -> None:
    passing = passed()
    assert passing.again(1.0 + AGAIN_S - 0.001) is None
    assert passing.again(1.0 + AGAIN_S) is TOKEN


def test_after_a_sign_it_is_waited_for_and_not_sent_again() -> None:
    passing = passed()
    passing.sign(1.5)
    assert passing.again(9.0) is None
    assert passing.deadline == 1.5 + LOSS_S
    assert not passing.is_lost(1.5 + LOSS_S - 0.001)
    assert passing.is_lost(1.5 + LOSS_S)


def test_who_had_the_token_from_me_and_gave_no_sign_for_long_is_the_one_to_suspect() -> None:
    passing = passed()
    assert passing.suspect(1.0 + SUSPECT_S - 0.001) is None
    assert passing.suspect(1.0 + SUSPECT_S) == B
    passing.sign(2.0)
    assert passing.suspect(9.0) is None, "it was passed on"


def test_nobody_is_suspected_for_the_time_in_which_I_was_not_there() -> None:
    passing = passed()
    passing.excuse(9.0)
    assert passing.suspect(9.0 + SUSPECT_S - 0.001) is None
    assert not passing.is_lost(9.0 + LOSS_S - 0.001)
    assert passing.again(9.0) is TOKEN, "it is sent again all the same"
    assert passing.suspect(9.0 + SUSPECT_S) == B


def test_with_the_next_token_all_begins_anew() -> None:
    passing = passed()
    passing.again(1.1)
    passing.pass_on(2.0, B, RING, 9, 3, TOKEN)
    assert passing.deadline == 2.0 + AGAIN_S
