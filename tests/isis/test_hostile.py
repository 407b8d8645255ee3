"""What no correct site sends is a named drop and changes nothing: site a among peers that may say anything."""

from typing import Any

import pytest

from covey.isis.channel import WINDOW
from covey.isis.links import VIEWS
from covey.isis.messages import (
    CODEC,
    COUNT_MAX,
    HELLO,
    NO_ROUND,
    NOTHING,
    RECEIPT,
    SITES_MAX,
    VIEWS_MAX,
    Ack,
    Commit,
    Extension,
    Hello,
    Nack,
    Propose,
    Round,
    Standing,
    View,
    encode,
)
from covey.isis.sequence import Quorum, with_next
from covey.isis.sites import Sites
from covey.kernel.ids import INCARNATION_MAX, ProcessId
from covey.kernel.wire import header
from tests.fuzz.sites import SENDERS, Bench, segment

A, B, C = ProcessId("a", 1), *SENDERS[:2]
D = ProcessId("d", 1)
NAN, INF = float("nan"), float("inf")
MINE, THEIRS = Round(1, A), Round(2, B)
V0, V1 = View(0, (A, B, C)), View(1, (A, B))


@pytest.fixture
def bench() -> Bench:
    """A site that has started, and hears b and c."""
    return Bench()


def control(bench: Bench, kind: int, *body: object) -> None:
    bench.receive(B, header(kind, B) + encode(body))


def drops(bench: Bench) -> dict[str, int]:
    return dict(bench.site.drops)


def memory(bench: Bench) -> tuple[object, ...]:
    """All that a site knows of the sequence."""
    found = bench.site.memory
    return found.promised, found.accepted, found.committed, found.view, bench.site.reign


# --- packets of the links


@pytest.mark.parametrize(
    "body",
    [
        (NAN, 1.0, 0.0, A, -1),
        (INF, 1.0, 0.0, A, -1),
        (-0.5, 1.0, 0.0, A, -1),
        (1.0, NAN, 0.0, A, -1),
        (1.0, -INF, 0.0, A, -1),
        (1.0, 1e300, 0.0, A, -1),
        (1.0, 1.0, NAN, A, -1),
        (1.0, 1.0, INF, A, -1),
        (1.0, 1.0, -1.0, A, -1),
        (1.0, 1.0, 0.0, ("a", INCARNATION_MAX + 1), -1),
        (1.0, 1.0, 0.0, A, -2),
        (1.0, 1.0, 0.0, A, COUNT_MAX + 1),
    ],
    ids=str,
)
def test_a_hello_with_numbers_that_cannot_be_is_dropped(bench: Bench, body: tuple[object, ...]) -> None:
    control(bench, HELLO, *body)
    assert drops(bench) == {"packet: body": 1}


def test_a_peer_that_has_no_stamp_of_mine_yet_is_not_heard_as_an_echo() -> None:
    """It knows this site by another packet than a hello, and says -1 for the stamp that it does not have."""
    bench = Bench()
    bench.receive(D, CODEC.control(D, Hello(5.0, -1.0, 0.2, bench.site.me, -1)))
    peer = bench.site.links.peers["d"]
    assert peer not in bench.site.links.alive(bench.now)
    assert peer.trips.mean is None


@pytest.mark.parametrize("numbers", [(-1, 0), (-(2**63), 0), (0, -1), (0, 1 << (WINDOW - 1)), (0, 2**64 - 1)], ids=str)
def test_a_receipt_of_what_no_window_holds_is_dropped(bench: Bench, numbers: tuple[int, int]) -> None:
    """A negative one would mark all that is under way as arrived: it would not be sent again."""
    opening(bench)
    control(bench, RECEIPT, A, VIEWS, *numbers)
    assert drops(bench) == {"packet: body": 1}
    (under_way,) = bench.site.links.peers["b"].channels[VIEWS].under_way
    assert not under_way.arrived


def test_a_segment_without_messages_is_dropped(bench: Bench) -> None:
    bench.receive(B, segment(B, A, 1, VIEWS))
    assert drops(bench) == {"packet: body": 1}


# --- messages of view management that are wrong by themselves


def extension(*views: tuple[int, Any], round_: Any = THEIRS) -> tuple[Any, ...]:
    return round_, views


def propose(extension: Any, round_: Any = THEIRS, opening: bool = False) -> tuple[Any, ...]:
    return "propose", extension, round_, opening


STANDING = (-1, NO_ROUND)
WRONG = {
    "no message": b"\xc1",
    "another tag": encode(("suppose", extension((0, V0.members)), THEIRS, False)),
    "a hole": encode(propose(extension((0, V0.members), (2, V0.members)))),
    "views that go back": encode(propose(extension((1, V0.members), (0, V0.members)))),
    "a negative number": encode(propose(extension((-1, V0.members)))),
    "a number beyond the last": encode(propose(extension((COUNT_MAX + 1, V0.members)))),
    "nobody": encode(propose(extension((0, ())))),
    "a site twice": encode(propose(extension((0, (A, B, B))))),
    "two incarnations of a site": encode(propose(extension((0, (A, B, SENDERS[2]))))),
    "a site without a name": encode(propose(extension((0, (A, B, ("", 1)))))),
    "incarnation 0": encode(propose(extension((0, (A, B, ("c", 0)))))),
    "an incarnation beyond the last": encode(propose(extension((0, (A, B, ("c", INCARNATION_MAX + 1)))))),
    "too many sites": encode(propose(extension((0, [(f"s{n}", 1) for n in range(SITES_MAX + 1)])))),
    "too many views": encode(propose(extension(*((n, V0.members) for n in range(VIEWS_MAX + 1))))),
    "a million views": encode(propose(extension(*[(0, ())] * 1_000_000))),
    "nothing to accept": encode(propose(extension())),
    "views of no round": encode(propose(extension((0, V0.members), round_=NO_ROUND), opening=True)),
    "an extension of a later round": encode(propose(extension((0, V0.members), round_=(9, B)))),
    "an extension of an earlier round": encode(propose(extension((0, V0.members), round_=MINE))),
    "a negative term": encode(propose(extension((0, V0.members), round_=(-1, B)), (-1, B))),
    "a term beyond the last": encode(propose(NOTHING, (COUNT_MAX + 1, B), opening=True)),
    "the greatest integer": encode(propose(NOTHING, (2**64 - 1, B), opening=True)),
    "an ack of less than nothing": encode(("ack", THEIRS, -2, False, STANDING)),
    "a standing in less than no view": encode(("ack", THEIRS, 0, False, (-2, NO_ROUND))),
    "a refusal with a lesser promise": encode(("nack", THEIRS, MINE, NOTHING, STANDING)),
    "a refusal with an extension that was not promised": encode(
        ("nack", MINE, MINE, extension((0, V0.members)), STANDING)
    ),
    "a commit of no view": encode(("commit", THEIRS, -1)),
    "too deep": b"\x95\xa6commit" + encode(THEIRS) + b"\x00" + b"\x91" * 2000 + b"\x00",
}


@pytest.mark.parametrize("message", WRONG.values(), ids=WRONG.keys())
def test_a_view_message_that_contradicts_itself_is_dropped(bench: Bench, message: bytes) -> None:
    before = memory(bench)
    bench.segment(B, VIEWS, message)
    assert drops(bench) == {"view message: malformed": 1}
    assert memory(bench) == before


# --- messages that only one who knows the sequence can refuse


def test_nobody_proposes_in_the_name_of_another_manager(bench: Bench) -> None:
    before = memory(bench)
    for message in (Propose(Extension(THEIRS, (V0,)), THEIRS, False), Propose(NOTHING, MINE, True)):
        bench.segment(C, VIEWS, encode(message))
    assert drops(bench) == {"proposal in the name of another": 2}
    assert memory(bench) == before


FOLLOWS_NOT = [
    Extension(Round(3, B), (View(1, (A, B, C)), View(2, (B, D)))),
    Extension(Round(3, B), (View(2, (A, B, C)),)),
    Extension(Round(3, B), (View(1, (B, C)), View(2, (A, B, C)))),
    Extension(Round(3, B), (View(1, (A, B, C)), View(2, (B, C)), View(3, (A, B, C)))),
]
REASONS = ["a view without a quorum", "a gap", "a view that I am not in", "I come back"]


def operational(bench: Bench) -> Sites:
    """Let b make this site install view 0."""
    bench.segment(B, VIEWS, encode(Propose(Extension(THEIRS, (V0,)), THEIRS, opening=False)))
    bench.segment(B, VIEWS, encode(Commit(THEIRS, 0)))
    assert bench.site.memory.view == V0
    return bench.site


@pytest.mark.parametrize("wrong", FOLLOWS_NOT, ids=REASONS)
def test_an_extension_that_cannot_follow_is_not_accepted(bench: Bench, wrong: Extension) -> None:
    operational(bench)
    before = memory(bench)
    bench.segment(B, VIEWS, encode(Propose(wrong, wrong.round, opening=False)))
    assert drops(bench) == {"extension that cannot follow": 1}
    assert memory(bench) == before


def opening(bench: Bench) -> Round:
    """Let this site, recovering or operational, begin a reign because c has fallen silent."""
    while bench.site.reign is None:
        bench.hello(B, bench.site.memory.number)
        bench.wake(0.25)
    return bench.site.reign.round


@pytest.mark.parametrize("wrong", FOLLOWS_NOT, ids=REASONS)
def test_an_extension_that_cannot_follow_is_no_answer(bench: Bench, wrong: Extension) -> None:
    site = operational(bench)
    round_ = opening(bench)
    missing = Extension(min(wrong.round, round_), wrong.views)
    bench.segment(B, VIEWS, encode(Nack(round_, round_, missing, Standing(-1, round_))))
    assert drops(bench) == {"extension that cannot follow": 1}
    assert site.reign is not None
    assert B not in site.reign.answers


def test_a_manager_that_is_late_is_told_so_whatever_it_proposes(bench: Bench) -> None:
    operational(bench)
    bench.segment(C, VIEWS, encode(Propose(NOTHING, Round(5, C), opening=True)))
    sent = bench.site.links.peers["b"].channels[VIEWS].queued
    bench.segment(B, VIEWS, encode(Propose(FOLLOWS_NOT[1], Round(3, B), opening=False)))
    assert bench.site.links.peers["b"].channels[VIEWS].queued == sent + 1
    assert drops(bench) == {}


def test_an_answer_counts_only_from_who_was_asked(bench: Bench) -> None:
    round_ = opening(bench)
    bench.hello(SENDERS[3], -1)
    for sender in (B, SENDERS[3]):
        bench.segment(sender, VIEWS, encode(Ack(round_, -1, True, Standing(-1, round_))))
    assert drops(bench) == {"answer of another round": 1}


def test_an_acknowledgement_of_what_was_not_proposed_is_dropped(bench: Bench) -> None:
    """Otherwise it would stand for views that the manager has yet to propose."""
    round_ = opening(bench)
    for sender in (B, C):
        if sender in (bench.site.reign.asked if bench.site.reign else ()):
            bench.segment(sender, VIEWS, encode(Ack(round_, -1, True, Standing(-1, round_))))
    bench.segment(B, VIEWS, encode(Ack(round_, 9, False, Standing(-1, round_))))
    assert drops(bench) == {"ack of what was not proposed": 1}


# --- the ends of what can be counted


def test_a_site_that_knows_of_the_last_term_begins_none_and_can_be_started_again(bench: Bench) -> None:
    bench.segment(B, VIEWS, encode(Propose(NOTHING, Round(COUNT_MAX, B), opening=True)))
    for _ in range(20):
        bench.hello(B, -1)
        bench.hello(C, -1)
        bench.wake(0.25)
    assert set(drops(bench)) == {"reign: no term is left"}
    bench.start()
    assert bench.site.memory.promised == Round(COUNT_MAX, B)


def test_no_view_comes_after_the_last_number() -> None:
    last = View(COUNT_MAX, (A, B))
    assert with_next((last,), {A: 0, B: 0, C: -1}, Quorum("abc")) == (last,)
    assert with_next((View(COUNT_MAX - 1, (A, B)),), {A: 0, B: 0, C: -1}, Quorum("abc"))[-1].number == COUNT_MAX
