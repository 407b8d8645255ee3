"""Membership: gather, commit, recover, operational (Totem, on which evs-1994 runs).

    operational   the ring goes round
    gather        the token was lost, or somebody else was heard: agree on who comes along (`covey.evs.gather`)
    commit        the commit token goes round twice: what each tells (step 3) is collected, then told to all
    recover       the new ring goes round with what is left of the old ones (steps 4 and 5)

From recover, step 6 leads to operational on the new ring. Whatever goes wrong on the way leads back to gather. Who
was given up stays given up until a configuration is installed; who passed the commit token or the token on without
a sign of it gives up the one that it passed it to; and after `ATTEMPTS_MAX` failures a process goes on alone. So it
ends.

Rings that hear each other merge: by frames, tokens and Joins of others where the network multicasts, and by the
probes that each representative sends to the addresses at which others may be.
"""

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from msgspec.structs import replace

from covey.evs.gather import Gather
from covey.evs.messages import MEMBERS_MAX, Commit, Info, Join, Leave, Probe, RingId, Seat, Token
from covey.evs.primary import Component, Verdict
from covey.evs.recovery import Recovery, is_possible
from covey.evs.ring import Ring
from covey.kernel.ids import ProcessId

if TYPE_CHECKING:
    from covey.evs.engine import Evs

JOIN_S = 0.08
"""Between two Joins that say the same, ..."""
JOIN_SOON_S = 0.005
"""... and between two that do not."""
GROWTH_S = 0.05
"""Where somebody new has come, others may be about to: so long nobody proposes a configuration."""
CONSENSUS_S = 0.4
"""Who has not agreed for so long is given up."""
COMMIT_S = 0.8
"""The representative, if it does not propose what was agreed upon for so long, is given up."""
PROBE_S = 1.0
ATTEMPTS_MAX = 8
RING_STEP = 2
"""Between the numbers of two rings there is one for the transitional configurations."""


class State(Enum):
    """What the membership protocol is doing."""

    OPERATIONAL = "operational"
    GATHER = "gather"
    COMMIT = "commit"
    RECOVER = "recover"


class Forming:
    """A ring that is being formed, from the commit token on."""

    def __init__(self, ring: Ring, seats: tuple[Seat, ...], info: Info, components: tuple[Component, ...]) -> None:
        self.ring = ring
        self.seats = seats
        self.info = info
        self.components = components
        """What I told in step 3, and the table of components that it refers to."""
        self.recovery: Recovery | None = None
        self.verdict = Verdict(None)
        """Whether it is a primary component."""
        self.is_acknowledged = False
        """Step 5.c: I have let a token pass that says that I have all that was rebroadcast."""

    def is_mine(self, commit: Commit) -> bool:
        """Whether a commit token tells what I told."""
        components = commit.components[: len(self.components)]
        return (commit.seats, commit.infos[self.ring.place], components) == (self.seats, self.info, self.components)

    @property
    def step(self) -> str:
        """Where an interruption finds it."""
        if self.recovery is None:
            return "3"
        return "5c" if self.is_acknowledged else "5a"


class Membership:
    """The membership protocol of one process."""

    def __init__(self, engine: "Evs") -> None:
        self.engine = engine
        self.state = State.OPERATIONAL
        self.gathering = Gather(0.0, engine.me, ())
        self.forming: Forming | None = None
        self.strangers: set[ProcessId] = set()
        """Who was heard while a ring was being formed."""
        self.attempts = 0
        self.join_at = self.probe_at = 0.0

    # ---- gather ----

    def gather(self, now: float, procs: Iterable[ProcessId] = (), failed: Iterable[ProcessId] = ()) -> None:
        """Agree on a new configuration, with these processes if they are there, without those that failed."""
        if self.state is State.GATHER:
            if self.gathering.add(now, procs, failed):
                self._say_soon(now)
            return
        procs, suspect = tuple(procs), self.engine.circulation.passing.suspect(now)
        self.engine.circulation.stop(now)
        failed = (*failed, *(() if suspect is None or suspect in procs else (suspect,)))
        if self.forming is None:
            known = self.engine.ring.members
        else:
            known = self.forming.ring.members
            failed = (*failed, *self.gathering.failed)
            self.attempts += 1
            self.engine.note({f"interrupted at step {self.forming.step}": 1})
        self.gathering = Gather(now, self.engine.me, known)
        self.gathering.add(now, (*known, *failed), failed)
        self.gathering.add(now, (*procs, *self.strangers))
        if self.attempts > ATTEMPTS_MAX:
            self.gathering.add(now, (), self.gathering.procs)
        self.state, self.forming = State.GATHER, None
        self.strangers = set()
        self._say(now)
        self._advance(now)

    def _say(self, now: float) -> None:
        self.join_at = now + JOIN_S
        self.engine.cast_to_all(self.gathering.join(self.engine.ring_seq))

    def _say_soon(self, now: float) -> None:
        self.join_at = min(self.join_at, now + JOIN_SOON_S)

    def on_join(self, now: float, sender: ProcessId, join: Join) -> None:
        match self.state:
            case State.OPERATIONAL:
                self._on_join_while_operational(now, sender, join)
            case State.GATHER if sender in self.gathering.failed:
                self.engine.drop("join: of one that is given up")
            case State.GATHER:
                if self.gathering.hear(now, sender, join):
                    self._say_soon(now)
                self._advance(now)
            case _:
                self._on_join_while_forming(now, sender, join)

    def _on_join_while_operational(self, now: float, sender: ProcessId, join: Join) -> None:
        ring = self.engine.ring
        if sender in ring.members:
            if join.ring_seq < ring.id.seq:
                self.engine.drop("join: from before this ring")
                return
        elif self.engine.me in join.failed:
            self.engine.drop("join: leaves me out")
            return
        elif self.engine.is_superseded(sender):
            self.engine.drop("join: of an earlier incarnation")
            return
        self.gather(now, (sender,))
        self.gathering.hear(now, sender, join)
        self._advance(now)

    def _on_join_while_forming(self, now: float, sender: ProcessId, join: Join) -> None:
        """A member that gathers on, or again, has abandoned the attempt; somebody else waits until it is done."""
        assert self.forming is not None
        if sender not in self.forming.ring.members:
            self._keep_in_mind(sender)
        elif join.ring_seq < self.forming.ring.id.seq and self.gathering.includes(join):
            self.engine.drop("join: from before this ring")
        else:
            self.gather(now)
            self.on_join(now, sender, join)

    def on_probe(self, now: float, sender: ProcessId, probe: Probe) -> None:
        self.on_foreign(now, sender, probe.ring)

    def on_foreign(self, now: float, sender: ProcessId, ring: RingId) -> None:
        """Somebody is on another ring than I."""
        mine = self.engine.ring
        if self.engine.is_superseded(sender) or (sender in mine.members and ring <= mine.id):
            self.engine.drop("packet: of a ring that is over")
        elif self.state is State.OPERATIONAL:
            self.gather(now, (sender,))
        elif self.state is not State.GATHER:
            self._keep_in_mind(sender)
        elif sender not in self.gathering.procs:
            self.gather(now, (sender,))

    def _keep_in_mind(self, stranger: ProcessId) -> None:
        """Take somebody in when this attempt is over."""
        if len(self.strangers) < MEMBERS_MAX:
            self.strangers.add(stranger)

    def on_leave(self, now: float, sender: ProcessId, leave: Leave) -> None:
        self.on_failure(now, sender)

    def on_failure(self, now: float, pid: ProcessId) -> None:
        """That process has gone."""
        members = self.gathering.living if self.state is State.GATHER else self.engine.turning.members
        if pid in members:
            self.gather(now, (), (pid,))

    # ---- time ----

    def wake(self, now: float) -> None:
        match self.state:
            case State.OPERATIONAL:
                if now >= self.probe_at and self.engine.ring.place == 0:
                    self.probe_at = now + PROBE_S
                    self.engine.probe()
            case State.GATHER:
                self._wake_gathering(now)

    def _wake_gathering(self, now: float) -> None:
        gathering = self.gathering
        silent = gathering.silent
        if silent and now >= gathering.changed_at + CONSENSUS_S:
            gathering.add(now, (), silent)
            self._say(now)
        elif not silent and now >= gathering.changed_at + CONSENSUS_S + COMMIT_S:
            gathering.add(now, (), gathering.living[:1])
            self._say(now)
        elif now >= self.join_at:
            self._say(now)
        self._advance(now)

    @property
    def deadline(self) -> float:
        match self.state:
            case State.OPERATIONAL:
                return self.probe_at if self.engine.ring.place == 0 else NEVER
            case State.GATHER:
                return min(self.join_at, self._patience_ends)
            case _:
                return NEVER

    @property
    def _patience_ends(self) -> float:
        """Until when the next step of the gather state is waited for."""
        gathering = self.gathering
        if gathering.silent:
            return gathering.changed_at + CONSENSUS_S
        if gathering.is_growing and gathering.living[0] == self.engine.me:
            return gathering.grown_at + GROWTH_S
        return gathering.changed_at + CONSENSUS_S + COMMIT_S

    def excuse(self, now: float) -> None:
        """I was not there to hear anybody."""
        self.gathering.changed_at = now

    # ---- commit ----

    def _advance(self, now: float) -> None:
        """Where all agree, the representative proposes the configuration."""
        gathering = self.gathering
        if self.state is not State.GATHER or gathering.silent or gathering.living[0] != self.engine.me:
            return
        if gathering.is_growing and now < gathering.grown_at + GROWTH_S:
            return
        living = gathering.living
        if len(living) == 1 and self.engine.ring.is_alone and not self.engine.is_changing:
            self._set_out(now)  # nobody is there after all
            self.engine.circulation.see_to_the_outbox(now)
            return
        heard = (gathering.heard[pid].ring_seq for pid in living[1:])
        seq = max(self.engine.ring_seq, *heard, 0) + RING_STEP
        seats = tuple(Seat(pid, self.engine.address_of(pid)) for pid in living)
        ring = RingId(seq, living[0].name)
        info, components = self._join_ring(ring, seats, ())
        commit = Commit(ring, 1, seats, (info,), components)
        if len(living) == 1:
            self._recover(now, commit)
        else:
            self._pass_commit(now, commit)

    def _join_ring(
        self, ring: RingId, seats: tuple[Seat, ...], components: tuple[Component, ...]
    ) -> tuple[Info, tuple[Component, ...]]:
        """Take part in the forming of a ring; return what I tell the others, and the table of components with mine."""
        self.engine.remember(ring.seq)
        members = tuple(seat.pid for seat in seats)
        info, components = self.engine.info(components)
        self.forming = Forming(Ring(ring, members, self.engine.me, hop=2 * len(seats) - 1), seats, info, components)
        self.state = State.COMMIT
        return info, components

    def _pass_commit(self, now: float, commit: Commit) -> None:
        assert self.forming is not None
        seat = commit.seats[commit.hop % len(commit.seats)]
        self.engine.circulation.pass_on(now, seat.pid, seat.address, commit, 0)

    def on_commit(self, now: float, source: str, commit: Commit) -> None:
        """Step 3."""
        seats = commit.seats
        if self.state is State.GATHER:
            if not self._is_agreed(commit):
                self.engine.drop("commit: not what was agreed upon")
                return
            info, components = self._join_ring(commit.ring, seats, commit.components)
            self._pass_commit(now, Commit(commit.ring, commit.hop + 1, seats, (*commit.infos, info), components))
            return
        ring = self.engine.turning
        if commit.ring != ring.id:
            self.engine.drop("commit: of another ring")
        elif self.state is State.COMMIT and commit.hop == len(seats) + ring.place:
            if self.forming is not None and self.forming.is_mine(commit):
                self._recover(now, commit)
            else:
                self.engine.drop("commit: not what I told")
        else:
            self.engine.acknowledge(source, ring.id, commit.hop)

    def _is_agreed(self, commit: Commit) -> bool:
        pids = tuple(seat.pid for seat in commit.seats)
        is_mine = commit.hop < len(pids) and pids[commit.hop] == self.engine.me
        return is_mine and pids == self.gathering.living and commit.ring.seq > self.engine.ring_seq

    # ---- recover ----

    def _recover(self, now: float, commit: Commit) -> None:
        """Step 4: all have told; the last one to hear of it lets the new ring begin."""
        forming, seats = self.forming, commit.seats
        assert forming is not None
        infos = {seat.pid: info for seat, info in zip(seats, commit.infos, strict=True)}
        if not is_possible(infos):
            self.engine.drop("commit: what is told cannot be")
            self.gather(now)
            return
        forming.recovery = Recovery(self.engine.ring, infos)
        forming.ring.recovered = forming.recovery.total
        self.state = State.RECOVER
        self.engine.begin_recovery(forming, commit.standings())
        if forming.ring.place < len(seats) - 1:
            self._pass_commit(now, replace(commit, hop=commit.hop + 1))
        else:
            self.engine.circulation.hold(now, Token(commit.ring, forming.ring.hop, 0, 0, "", (), 0, False))

    def installed(self, now: float) -> None:
        """Step 6 is done."""
        self.forming = None
        self._set_out(now)

    def _set_out(self, now: float) -> None:
        self.state, self.attempts = State.OPERATIONAL, 0
        self.probe_at = now + PROBE_S

    def welcome(self, now: float) -> None:
        """Take in those that were heard meanwhile."""
        strangers = self.strangers.difference(self.engine.ring.members)
        self.strangers = set()
        if strangers:
            self.gather(now, strangers)


NEVER = float("inf")
