"""View management, isis-1985 section 4.2, step by step: each test is named for the step or the deviation it holds."""

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from random import Random

import pytest

from covey.isis.links import APPLICATION, VIEWS, Peer, Ticket
from covey.isis.messages import (
    NO_ROUND,
    NOTHING,
    VIEW_MESSAGE,
    Ack,
    Commit,
    Extension,
    Nack,
    Propose,
    Round,
    Standing,
    View,
    ViewMessage,
    encode,
)
from covey.isis.sites import TAKES, Outgoing, Sites, State
from covey.kernel.effects import Append, Effect, Halt, Install, Store
from covey.kernel.engine import Surroundings
from covey.kernel.errors import BrokenInvariant, MisuseError
from covey.kernel.ids import ProcessId
from covey.sim.disk import Disk

A, B, C, D, E = (ProcessId(name, 1) for name in "abcde")
FIVE = "abcde"


class Desk(Sites):
    """A site whose links are a list: `said` has what it says, `heard` says who is alive."""

    def __init__(self, me: ProcessId, configured: str = FIVE, disk: Disk | None = None) -> None:
        self.disk = Disk() if disk is None else disk
        super().__init__(Surroundings(me, me.name, self.disk, Random(0)), FIVE, configured)
        self.said: list[tuple[ProcessId, ViewMessage]] = []
        self.buried: list[ProcessId] = []
        self.links.send = self._send  # type: ignore[method-assign]
        self.links.bury = self.buried.append  # type: ignore[method-assign]
        self.now = 0.0

    def _send(self, dest: ProcessId, port: int, message: bytes) -> Ticket:
        assert port == VIEWS
        self.said.append((dest, VIEW_MESSAGE.decode(message)))
        return Ticket(dest, port, 0)

    def hears(self, *pids: ProcessId, view: int = -1) -> None:
        """These are alive, and no others; `view` is the one that they say they installed last."""
        self.links.peers = {pid.name: Peer(pid, pid.name, self.now) for pid in pids}
        for peer in self.links.peers.values():
            peer.echoed, peer.view = self.now, view

    def review(self, seconds: float = 10.0) -> list[tuple[ProcessId, ViewMessage]]:
        """Let time pass, all that were alive still being so; return what it says."""
        self.now += seconds
        for peer in self.links.peers.values():
            peer.echoed = self.now
        self.said.clear()
        self._review(self.now)
        self._review(self.now)  # where somebody has come, the first one waits for others
        return self.said

    def told(self, sender: ProcessId, message: ViewMessage) -> list[tuple[ProcessId, ViewMessage]]:
        """Let a message come; return what it says to it."""
        self.said.clear()
        self._on_view_message(self.now, sender, encode(message))
        if self.reign is not None:
            self.reign.advance(self._alive(self.now))
        return self.said

    def done(self) -> list[Effect]:
        """Carry out what concerns the disk; return the rest."""
        rest = []
        for effect in self.take():
            match effect:
                case Store(key, value):
                    self.disk.put(key, value)
                case Append(record):
                    self.disk.append(record)
                case _:
                    rest.append(effect)
        self.disk.flush()
        return rest

    def views(self) -> list[tuple[int, tuple[str, ...]]]:
        return [(effect.seq, effect.members) for effect in self.done() if isinstance(effect, Install)]


def names(pids: Iterable[ProcessId]) -> tuple[str, ...]:
    return tuple(sorted(map(str, pids)))


FIRST = View(0, (A, B, C))
ROUND = Round(1, A)
EXTENSION = Extension(ROUND, (FIRST,))


def standing(view: int = -1, since: Round = ROUND) -> Standing:
    return Standing(view, since)


def manager(*others: ProcessId) -> Desk:
    """Site a after it has opened, adopted and proposed a first view with these."""
    a = Desk(A)
    a.hears(*others)
    a.review()
    for pid in others:
        a.told(pid, Ack(ROUND, -1, True, standing()))
    return a


def member(me: ProcessId = B) -> Desk:
    """A site that has installed the first view in round 1."""
    site = Desk(me)
    site.told(A, Propose(EXTENSION, ROUND, opening=False))
    site.told(A, Commit(ROUND, 0))
    assert site.views() == [(0, names(FIRST.members))]
    return site


# ---- steps 1 to 3 ----


def test_step_1_the_manager_proposes_an_extension_to_the_sites_in_its_last_view() -> None:
    a = manager(B, C)
    assert a.said == [(B, Propose(EXTENSION, ROUND, opening=False)), (C, Propose(EXTENSION, ROUND, opening=False))]


def test_step_2a_a_site_that_misses_nothing_saves_and_acknowledges() -> None:
    b = Desk(B)
    assert b.told(A, Propose(EXTENSION, ROUND, opening=False)) == [(A, Ack(ROUND, 0, False, standing()))]
    b.done()
    assert Desk(B, disk=b.disk).memory.accepted == EXTENSION


def test_step_2b_a_site_that_knows_more_answers_with_what_is_missing() -> None:
    b = member()
    newer = Round(2, C)
    answer = b.told(C, Propose(NOTHING, newer, opening=True))
    assert answer == [(C, Nack(newer, newer, EXTENSION, standing(0)))]
    assert b.memory.accepted == EXTENSION


def test_step_2b_a_site_that_takes_part_in_a_later_round_says_so() -> None:
    b = member()
    b.told(C, Propose(EXTENSION, Round(5, C), opening=True))
    assert b.told(A, Propose(EXTENSION, ROUND, opening=False)) == [
        (A, Nack(ROUND, Round(5, C), EXTENSION, standing(0)))
    ]


def test_step_3a_all_have_acknowledged_so_the_manager_commits() -> None:
    a = manager(B, C)
    assert a.told(B, Ack(ROUND, 0, False, standing())) == []
    assert a.views() == []
    assert a.told(C, Ack(ROUND, 0, False, standing())) == [(B, Commit(ROUND, 0)), (C, Commit(ROUND, 0))]
    assert a.views() == [(0, names(FIRST.members))]


def test_step_3b_a_failure_while_waiting_makes_the_extension_longer() -> None:
    a = manager(B, C, D)
    a.told(B, Ack(ROUND, 0, False, standing()))
    a.told(C, Ack(ROUND, 0, False, standing()))
    a.hears(B, C)
    longer = Extension(ROUND, (View(0, (A, B, C, D)), View(1, (A, B, C))))
    assert a.review() == [(B, Propose(longer, ROUND, opening=False)), (C, Propose(longer, ROUND, opening=False))]
    a.told(B, Ack(ROUND, 1, False, standing()))
    a.told(C, Ack(ROUND, 1, False, standing()))
    assert a.views() == [(0, names((A, B, C, D))), (1, names((A, B, C)))]


def test_step_3b_newcomers_wait_for_the_commit_that_is_under_way() -> None:
    a = manager(B, C)
    a.hears(B, C, D)
    assert a.review() == [(D, Propose(EXTENSION, ROUND, opening=True))]


def test_a_later_round_of_another_ends_a_reign() -> None:
    a = manager(B, C)
    assert a.state is State.MANAGER
    a.told(B, Nack(ROUND, Round(7, B), NOTHING, standing()))
    assert a.state is State.RECOVERING
    assert a.memory.promised == Round(7, B)
    assert a.review(0.1) == []  # it lets the other reign for a while
    assert a.review(10.0) != []


# ---- rules 4 and 5 ----


def test_rule_4_a_new_manager_keeps_an_uncommitted_extension_and_appends_its_own_view() -> None:
    b = Desk(B)
    b.told(A, Propose(Extension(ROUND, (View(0, (A, B, C, D)),)), ROUND, opening=False))
    b.hears(C, D)
    opening = b.review()
    newer = Round(2, B)
    assert [message for _, message in opening] == [Propose(b.memory.accepted, newer, opening=True)] * 2
    b.told(C, Ack(newer, 0, True, standing()))
    b.told(D, Ack(newer, 0, True, standing()))
    assert b.memory.accepted == Extension(newer, (View(0, (A, B, C, D)), View(1, (B, C, D))))


def test_rule_4_an_extension_that_only_another_site_knows_is_kept_too() -> None:
    b = Desk(B)
    b.hears(C, D)
    b.review()
    pending = Extension(Round(0, A), (View(0, (A, C, D)),))
    newer = Round(1, B)
    b.told(C, Nack(newer, newer, pending, standing(since=newer)))
    b.told(D, Ack(newer, -1, True, standing(since=newer)))
    assert b.memory.accepted == Extension(newer, (View(0, (A, C, D)), View(1, (C, D, B))))


def test_rule_5_a_new_manager_sends_the_committed_extension_again_to_who_lacks_it() -> None:
    b = member()
    b.hears(C, D)  # C has not installed view 0, D was never in one
    b.review()
    newer = Round(2, B)
    b.told(C, Ack(newer, 0, True, standing(-1)))
    b.told(D, Ack(newer, 0, True, standing(-1, newer)))
    assert b.memory.accepted == Extension(newer, (FIRST, View(1, (B, C, D))))


def test_rule_5_what_all_have_installed_is_not_sent_again() -> None:
    b = member()
    b.hears(C, D, view=0)
    b.links.peers["d"].view = -1
    b.review()
    newer = Round(2, B)
    b.told(C, Ack(newer, 0, True, standing(0)))
    b.told(D, Ack(newer, 0, True, standing(-1, newer)))
    assert b.memory.accepted == Extension(newer, (View(1, (B, C, D)),))


def test_participants_ignore_a_committed_prefix() -> None:
    b = member()
    newer = Round(2, C)
    b.told(C, Propose(Extension(newer, (FIRST, View(1, (B, C, D)))), newer, opening=False))
    b.told(C, Commit(newer, 1))
    assert b.views() == [(1, names((B, C, D)))]


def test_who_is_dropped_by_a_committed_view_is_dead() -> None:
    b = member()
    newer = Round(2, B)
    b.told(B, Propose(Extension(newer, (View(1, (B, C, D)),)), newer, opening=False))
    b.told(B, Commit(newer, 1))
    assert b.buried == [A]


def test_a_site_that_a_committed_view_leaves_out_restarts() -> None:
    b = member()
    newer = Round(2, C)
    b.told(C, Propose(Extension(newer, (View(1, (A, C, D)),)), newer, opening=False))
    b.told(C, Commit(newer, 1))
    assert b.done() == [Halt("left out of the view", restart=True)]


def test_a_view_is_logged_once_and_who_is_only_proposed_is_not_dropped() -> None:
    b = member()
    b.done()
    longer = Extension(ROUND, (FIRST, View(1, (A, B, C, D))))
    b.told(A, Propose(longer, ROUND, opening=False))
    b.told(A, Commit(ROUND, 0))
    b.done()
    assert len(b.disk.log()) == 1
    assert b.buried == []
    b.told(A, Commit(ROUND, 1))
    b.done()
    assert len(b.disk.log()) == 2


def test_a_promise_is_stored_when_it_is_new() -> None:
    b = Desk(B)
    b.told(A, Propose(NOTHING, ROUND, opening=True))
    b.told(A, Propose(NOTHING, ROUND, opening=True))
    assert [effect.key for effect in b.take() if isinstance(effect, Store)] == ["isis.promised"]


# ---- who manages ----


def test_the_oldest_site_of_the_view_that_is_not_silent_manages() -> None:
    b = member()
    b.hears(A, C, view=0)
    b.links.peers["d"] = Peer(D, "d", b.now)
    assert not b._is_manager(b._alive(b.now))
    b.hears(C, D, view=0)
    assert b._is_manager(b._alive(b.now))


def test_deviation_3_of_sites_in_no_view_the_least_configured_one_manages() -> None:
    fresh = ProcessId("a~2", 1)
    site = Desk(fresh)
    site.hears(B, C, D)
    assert site.review() == []
    b = Desk(B)
    b.hears(fresh, C, D)
    assert [type(message) for _, message in b.review()] == [Propose] * 3


def test_deviation_3_a_recovering_site_waits_while_it_hears_an_operational_one() -> None:
    a = Desk(A)
    a.hears(B, C, view=4)
    assert a.review() == []


# ---- the deviations ----


def test_deviation_1_promises_and_what_was_accepted_survive_a_restart() -> None:
    b = member()
    b.told(C, Propose(EXTENSION, Round(9, C), opening=True))
    b.done()
    again = Desk(ProcessId("b", 2), disk=b.disk)
    assert again.memory.promised == Round(9, C)
    assert again.memory.accepted == EXTENSION
    assert again.memory.committed == FIRST
    assert again.state is State.RECOVERING


def test_deviation_1_nobody_begins_a_reign_while_another_manager_is_at_work() -> None:
    a = Desk(A)
    a.hears(B, C, D)
    a.told(B, Propose(NOTHING, Round(1, B), opening=True))
    assert a.review(0.1) == []
    assert a.review(10.0) != []


def test_deviation_1_of_two_answers_the_later_round_counts() -> None:
    a = Desk(A)
    a.hears(B, C)
    a.review()
    older, later = Extension(Round(0, B), (View(0, (B, C, D)),)), Extension(Round(0, C), (View(0, (C, B, E)),))
    a.told(B, Nack(ROUND, ROUND, older, standing()))
    a.told(C, Nack(ROUND, ROUND, later, standing()))
    assert a.memory.accepted.views == (*later.views, View(1, (C, B, A)))


def test_deviation_2_without_a_majority_nothing_is_proposed() -> None:
    a = Desk(A)
    a.hears(B)
    assert a.review() == []
    a.hears(B, ProcessId("x", 1), ProcessId("y", 1))
    assert a.review() == []  # fresh names count in no quorum
    a.hears(B, C)
    assert a.review() != []


def test_deviation_2_an_opening_waits_for_all_that_are_alive() -> None:
    a = Desk(A)
    a.hears(B, C, D)
    a.review()
    a.told(B, Ack(ROUND, -1, True, standing()))
    a.told(C, Ack(ROUND, -1, True, standing()))
    assert a.memory.accepted == NOTHING
    a.told(D, Ack(ROUND, -1, True, standing()))
    assert a.memory.accepted.views == (View(0, (A, B, C, D)),)


def test_a_manager_that_hears_somebody_come_waits_for_others() -> None:
    """So at the end of a cut nobody is left out who is heard a moment later than the first."""
    a = Desk(A)
    a.hears(B, C)
    a._review(1.0)
    a.hears(B, C, D)
    a._review(1.0)
    assert a.said == []
    a._review(1.0)
    assert [pid for pid, _ in a.said] == [B, C, D]


def test_deviation_2_an_opening_ends_when_the_majority_is_gone() -> None:
    a = Desk(A)
    a.hears(B, C)
    a.review()
    a.hears(B)
    a.review()
    assert a.state is State.RECOVERING


def test_deviation_4_a_commit_counts_for_what_was_accepted_whatever_was_promised_since() -> None:
    b = Desk(B)
    b.told(A, Propose(EXTENSION, ROUND, opening=False))
    b.told(C, Propose(EXTENSION, Round(2, C), opening=True))
    b.told(A, Commit(ROUND, 0))
    assert b.views() == [(0, names(FIRST.members))]


def test_deviation_5_a_site_that_may_have_been_in_an_earlier_view_is_dead() -> None:
    b = member()
    b.hears(C, D, view=0)
    b.links.peers["d"].view = -1
    b.review()
    newer = Round(2, B)
    b.told(C, Ack(newer, 0, True, standing(0)))
    b.told(D, Ack(newer, 0, True, standing(-1, since=ROUND)))
    assert b.buried == [D]


def test_deviation_5_who_was_proposed_and_left_out_does_not_seem_new() -> None:
    a = manager(B, C, D)
    a.hears(B, C)
    a.review()
    a.told(B, Ack(ROUND, 1, False, standing()))
    a.told(C, Ack(ROUND, 1, False, standing()))
    a.hears(B, C, view=1)
    a.links.peers["d"] = Peer(D, "d", a.now)
    a.buried.clear()
    a.review()
    assert a.buried == [D]


def test_a_manager_that_was_left_out_by_an_earlier_one_restarts() -> None:
    a = member(A)
    a.hears(B, C, D, view=0)
    a.hears(C, D, E, view=0)
    a.review()
    newer = Round(2, A)
    without = Extension(Round(1, E), (View(1, (C, D, E)),))
    for pid in (C, D, E):
        a.told(pid, Nack(newer, newer, without, standing(1)))
    assert Halt("left out of the view", restart=True) in a.done()


def test_a_reign_forgets_the_dead() -> None:
    a = manager(B, C, D)
    for pid in (B, C, D):
        a.told(pid, Ack(ROUND, 0, False, standing()))
    a.links.graves["d"] = 1
    a.hears(B, C, view=0)
    a.review()
    assert a.reign is not None
    for known in (a.reign.asked, a.reign.answers, a.reign.proposed, a.reign.acks):
        assert D not in known
        assert B in known


def test_a_manager_that_missed_views_and_was_left_out_restarts() -> None:
    """It cannot know the views between: they were kept for those who stayed."""
    a = member(A)
    a.hears(C, D, E, view=-1)
    a.review()
    newer = Round(2, A)
    later = Extension(Round(1, E), (View(2, (A, C, D, E)), View(3, (C, D, E))))
    for pid in (C, D, E):
        a.told(pid, Nack(newer, newer, later, standing()))
    assert Halt("left out of the view", restart=True) in a.done()


# ---- the table of states and messages ----

NEWER = Round(3, C)
MESSAGES: dict[type[ViewMessage], ViewMessage] = {
    Propose: Propose(Extension(NEWER, (View(1, (B, C, D)),)), NEWER, opening=False),
    Ack: Ack(Round(2, B), 0, False, standing()),
    Nack: Nack(Round(2, B), Round(2, B), NOTHING, standing()),
    Commit: Commit(ROUND, 0),
}


def site_in(state: State) -> Desk:
    if state is State.RECOVERING:
        site = Desk(B)
        site.told(A, Propose(EXTENSION, ROUND, opening=False))
    else:
        site = member()
    if state is State.MANAGER:
        site.hears(C, D, view=0)
        site.review()
    assert site.state is state
    site.done()
    return site


@pytest.mark.parametrize(("state", "kind"), list(product(State, MESSAGES)))
def test_every_state_takes_the_messages_of_the_table_and_drops_the_others(
    state: State, kind: type[ViewMessage]
) -> None:
    site = site_in(state)
    before = site.memory.promised, site.memory.accepted, site.memory.view, site.reign
    site.told(C, MESSAGES[kind])
    site.check()
    if kind in TAKES[state]:
        assert not site.drops
    else:
        assert site.drops == {f"{kind.__name__.lower()} while {state.value}": 1}
        assert before == (site.memory.promised, site.memory.accepted, site.memory.view, site.reign)
        assert site.done() == []


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Commit(Round(4, D), 0), "commit of another round"),
        (Commit(ROUND, 1), "commit of what was not accepted"),
        (Ack(Round(1, B), 0, False, standing()), "answer of another round"),
        (Nack(Round(1, B), Round(1, B), NOTHING, standing()), "answer of another round"),
    ],
)
def test_what_is_of_another_round_is_dropped_by_name(message: ViewMessage, why: str) -> None:
    site = site_in(State.MANAGER)
    site.told(C, message)
    assert site.drops == {why: 1}


def test_what_is_no_view_message_is_dropped_by_name() -> None:
    site = Desk(B)
    site._on_view_message(0.0, A, b"\xff nonsense")
    assert site.drops == {"view message: malformed": 1}


# ---- messages of the application ----


def test_a_site_in_no_view_takes_no_messages() -> None:
    site = Desk(B)
    assert site.room == 0
    assert Sites.submit(site, 0.0, [Outgoing(A, b"x")]) == 0


def test_messages_go_to_sites_of_the_view_and_count_as_sent_to_others() -> None:
    site = member()
    site.hears(A, C, D, view=0)
    del site.links.send  # type: ignore[attr-defined]
    assert site.room == site.links.room(A, APPLICATION)
    assert site.submit(0.0, [Outgoing(A, b"x"), Outgoing(D, b"y"), Outgoing(C, b"z")]) == 3
    assert site.drops == {"message: no such site in the view": 1}
    many = [Outgoing(A, b"x")] * 10_000
    taken = [site.submit(0.0, many) for _ in range(4)]
    assert 0 < taken[0] < len(many)
    assert taken[-1] == site.room == 0


def test_a_service_is_refused_since_channels_have_one_order() -> None:
    with pytest.raises(MisuseError, match="sites have no service 'safe'"):
        member().submit(0.0, [Outgoing(A, b"x")], "safe")


def test_a_message_that_no_datagram_holds_is_refused() -> None:
    with pytest.raises(MisuseError, match="at most 60000 bytes"):
        member().submit(0.0, [Outgoing(A, bytes(60_001))])


# ---- the invariants are looked at ----


@pytest.mark.parametrize(
    ("extension", "why"),
    [
        (Extension(ROUND, (View(0, (A, B)),)), "view 0 has no quorum"),
        (Extension(Round(9, A), (FIRST,)), "accepted in a round that was not promised"),
    ],
)
def test_check_finds_a_broken_invariant(extension: Extension, why: str) -> None:
    site = Desk(B)
    site.memory.promise(ROUND)
    site.memory.accept(extension)
    with pytest.raises(BrokenInvariant, match=why):
        site.check()


def test_check_finds_a_reign_in_a_round_that_is_over() -> None:
    a = manager(B, C)
    a.memory.promised = Round(8, B)
    with pytest.raises(BrokenInvariant, match="reigns in"):
        a.check()


def test_a_first_round_is_none() -> None:
    assert Desk(B).memory.standing == Standing(-1, NO_ROUND)


def test_the_documentation_has_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "site-views.md").read_text()
    for state, kinds in TAKES.items():
        assert f"| {state.value} | {', '.join(kind.__name__.lower() for kind in kinds)} |" in page
