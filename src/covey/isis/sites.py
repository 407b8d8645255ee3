"""View management: every operational site goes through the same sequence of site views.

Source: isis-1985, section 4.2. A *view* is the set of operational sites, numbered, ordered by age. The
oldest site of the view that is not silent is the *view manager*. It extends the sequence by a
two-phase protocol; the code of each step stands under the step's number:

    1   the manager proposes an extension of the sequence to the sites in its last view
    2a  a site that misses nothing in it saves it and acknowledges
    2b  a site that knows of something that it lacks answers with that, negatively
    3a  all acknowledged: the manager commits          3b  otherwise it updates the proposal, and goes to 1
    4   a new manager with a pending extension keeps it, for it may have been committed somewhere
    5   a new manager without one sends the last committed one again, for not all may have the commit

The paper assumes sites that lose all memory and a network that does not partition; where it says that
either assumption can be dropped (stable storage, quorum) it leaves the rest to the reader. With false
suspicions, merges and restarts, two managers can each hold an uncommitted extension that a third must
choose from, and "update the proposal" does not say how. What was added:

Deviation 1, *rounds*. Each manager reigns in a round of its own, above all that it knows. A site takes
part in no round below the last that it took part in: this is the paper's "ceases to accept messages
from sites not in the view", which alone does not order managers that restart. A new manager begins with
an *opening* (step 1 with what it has, rules 4 and 5), to which every site answers with what is missing
(step 2b), and nobody saves anything. From a majority of answers it takes the extension of the highest
round: whatever may have been committed is a prefix of that. Only then it appends its own view and
proposes for good. The induction is that of Paxos, with the view sequence as the value.

Deviation 2, *quorum*. Every view contains a majority of the configured sites, and every member of an
extension's last view has acknowledged before it is committed; an opening needs a majority of answers.
Only names that come with their storage count (a fresh name is in no configuration). A component without
a majority proposes nothing; it installs the next view when it has one again.

Deviation 3, *recovery*. A site that restarts is in no view. While it hears an operational site it waits
to be taken in. If all sites that it hears are in its situation (cold start, or after total failure), the
least of them by name opens a round; the answers come from stable storage, so the sequence is continued
where it ended.

Deviation 4. An extension stays with a site after its commit, until it accepts another one. So rules 4
and 5 are one mechanism: the new manager sends what it has, and participants ignore the committed prefix.

A site's states, and what it does with a message of view management in each:

                 propose                  ack, nack            commit
    recovering   answers, accepts         ignored              installs, becomes operational
    operational  answers, accepts         ignored              installs
    manager      the same; a later round  counted when of its  ignored: it has none
                 ends its reign           round, else ignored
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from covey.isis.links import LinkOptions, Links, Peer
from covey.isis.messages import (
    EXTENSION,
    NO_ROUND,
    NOTHING,
    ROUND,
    VIEW,
    VIEW_MESSAGE,
    Ack,
    Claim,
    Commit,
    Extension,
    Nack,
    Propose,
    Round,
    View,
    ViewMessage,
    encode,
)
from covey.kernel.effects import Append, Deliver, Halt, Install, Note, Store
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.errors import BrokenInvariant
from covey.kernel.ids import ProcessId

PROMISED = "isis.promised"
ACCEPTED = "isis.accepted"

VIEWS, APPLICATION = 0, 1
"""Ports of the channels."""


LINK_OPTIONS = LinkOptions()
VIEWS_MAX = 64
"""In one extension: a manager whose proposals keep failing before they are acknowledged waits then."""
RESERVED = 64
"""Places in a channel's queue that the application leaves to view management."""
NOTE_S = 1.0
"""The least time between two notes of what was dropped."""


def _weight(extension: Extension) -> tuple[Round, int]:
    """The greater of two extensions includes the other, or the other was never committed."""
    return extension.round, extension.views[-1].number if extension.views else -1


class Outgoing(NamedTuple):
    """A message of the application to one site."""

    dest: ProcessId
    message: bytes


class Reign:
    """What a view manager knows of its own round."""

    def __init__(self, round_: Round, asked: set[ProcessId]) -> None:
        self.round = round_
        self.asked = asked
        self.answers: dict[ProcessId, Extension] = {}
        """To the opening: what each site has accepted."""
        self.opening = True
        self.acks: dict[ProcessId, int] = {}
        """The number of the last view that each site has acknowledged."""


class Sites(Engine):
    """The inter-site layer and the view management of one site."""

    def __init__(
        self,
        around: Surroundings,
        addresses: Sequence[str],
        configured: Sequence[str],
        options: LinkOptions = LINK_OPTIONS,
    ) -> None:
        """Reach other sites at `addresses`; `configured` names the sites whose majority is a quorum."""
        super().__init__(around)
        self.configured = frozenset(configured)
        self.links = Links(self, [address for address in addresses if address != around.address], options)
        self.hello_s = options.hello_s
        self.stable = around.stable
        self.view: View | None = None
        """Installed by this incarnation; None while it is recovering."""
        self.committed: View | None = None
        """The last one that is known to be committed."""
        self.promised = NO_ROUND
        self.accepted = NOTHING
        self.reign: Reign | None = None
        self.hold_off = 0.0
        """No new reign before: another manager is at work."""
        self.noted: dict[str, int] = {}
        self.note_at = 0.0

    # ---- the engine's surface ----

    def start(self, now: float) -> None:
        if (stored := self.stable.get(PROMISED)) is not None:
            self.promised = ROUND.decode(stored)
        if (stored := self.stable.get(ACCEPTED)) is not None:
            self.accepted = EXTENSION.decode(stored)
        if log := self.stable.log():
            self.committed = VIEW.decode(log[-1])
        self._claim()
        self._settle(now)

    def receive(self, now: float, source: str, packet: bytes) -> None:
        for sender, port, messages in self.links.receive(now, source, packet):
            if port == APPLICATION:
                self.out.append(Deliver(sender, 0, messages))
                continue
            for message in messages:
                self._on_view_message(now, sender, message)
        self._settle(now)

    def wake(self, now: float) -> None:
        self.links.wake(now)
        self._settle(now)

    def hint(self, now: float, peer: str) -> None:
        self.links.hint(now, peer)
        self._settle(now)

    def paused(self, now: float, seconds: float) -> None:
        self.links.paused(now)
        self._settle(now)

    def leave(self, now: float) -> None:
        self.links.farewell(now)
        self.out.append(Halt("left", restart=False))

    def submit(self, now: float, batch: Sequence[Outgoing]) -> int:
        """Send messages to sites (`links.send` for one whose status is wanted)."""
        taken = 0
        for dest, message in batch:
            if self.links.room(dest) <= RESERVED:
                break
            self.links.send(dest, APPLICATION, message)
            taken += 1
        self._settle(now)
        return taken

    def _settle(self, now: float) -> None:
        """After every input: the duties of a manager, then whatever is to be sent, then the next deadline."""
        self._bury_the_excluded()
        self._manage(now)
        self._note_drops(now)
        self.links.flush(now)
        self.deadline = self.links.deadline(now)

    def _note_drops(self, now: float) -> None:
        if now >= self.note_at and self.drops != self.noted:
            self.note_at, self.noted = now + NOTE_S, dict(self.drops)
            self.out.append(
                Note("state", {"counters": {f"dropped: {why}": n for why, n in sorted(self.drops.items())}})
            )

    # ---- steps 1 and 3: the manager ----

    def _manage(self, now: float) -> None:
        alive = {peer.pid: peer.claim for peer in self.links.alive(now)}
        alive[self.me] = self.links.claim
        if not self._is_manager(alive) or not self._is_quorum(alive):
            if self.reign is not None and self.reign.opening:
                self.reign = None
            return
        if self.reign is None:
            if now >= self.hold_off and self._is_change_wanted(alive):
                self._open(alive)
        elif self.reign.opening:
            self._end_opening(alive)
        else:
            self._extend(alive)

    def _is_manager(self, alive: dict[ProcessId, Claim]) -> bool:
        """Whether all older sites are silent."""
        operational = {pid for pid, claim in alive.items() if claim.view >= 0}
        if self.view is not None:
            return self.me == next(member for member in self.view.members if member in operational)
        return not operational and self.me == min(alive, key=self._age_of_recovering)

    def _age_of_recovering(self, pid: ProcessId) -> tuple[bool, ProcessId]:
        return pid.name not in self.configured, pid

    def _is_quorum(self, sites: Sequence[ProcessId] | dict[ProcessId, Claim]) -> bool:
        """Whether these sites are a majority of the configured ones."""
        return 2 * len(self.configured.intersection(pid.name for pid in sites)) > len(self.configured)

    def _is_change_wanted(self, alive: dict[ProcessId, Claim]) -> bool:
        last = self._last()
        return last is None or last != self.view or self._members_after(last, alive) != last.members

    def _open(self, alive: dict[ProcessId, Claim]) -> None:
        """Begin a reign: ask everybody what my knowledge is missing.

        Rule 4: an extension that I accepted may have been committed by the manager before me: it stays.
        Rule 5: one that was committed may not have reached everybody: it is sent again.
        """
        round_ = Round(self.promised.term + 1, self.me)
        self.reign = Reign(round_, set(alive))
        self._promise(round_)
        self.reign.answers[self.me] = self.accepted
        for pid in sorted(alive):
            if pid != self.me:
                self._say(pid, Propose(self.accepted, round_, opening=True))

    def _end_opening(self, alive: dict[ProcessId, Claim]) -> None:
        """When all that live have answered, and they are a majority, adopt what may have been committed."""
        reign = self.reign
        assert reign is not None
        for pid in sorted(alive):
            if pid not in reign.asked:
                reign.asked.add(pid)
                self._say(pid, Propose(self.accepted, reign.round, opening=True))
        if not reign.answers.keys() >= alive.keys() or not self._is_quorum(list(reign.answers)):
            return
        best = max(reign.answers.values(), key=_weight)
        reign.opening = False
        if self.view is not None and best.views and self.me not in best.views[-1].members:
            self._die("excluded by an earlier extension")
            return
        self._propose(self._with_next(best.views, alive))

    def _extend(self, alive: dict[ProcessId, Claim]) -> None:
        """Step 3: commit what all have acknowledged (a); propose again when more has failed (b)."""
        reign = self.reign
        assert reign is not None
        last = self._last()
        if last is None or last != self.view:
            waited_for = () if last is None else last.members
            if last is not None and all(reign.acks.get(pid, -1) >= last.number for pid in waited_for):
                self._commit(last.number)  # 3a
            elif last is None or any(pid not in alive for pid in waited_for):
                self._propose(self._with_next(self.accepted.views, alive))  # 3b
            return
        if self._members_after(last, alive) != last.members:
            self._propose(self._with_next(self.accepted.views, alive))

    def _propose(self, views: tuple[View, ...]) -> None:
        """Step 1."""
        reign = self.reign
        assert reign is not None
        if not views or Extension(reign.round, views) == self.accepted:
            return
        self._accept(Extension(reign.round, views))
        reign.acks[self.me] = views[-1].number
        for pid in views[-1].members:
            if pid != self.me:
                self._say(pid, Propose(self.accepted, reign.round, opening=False))

    def _commit(self, upto: int) -> None:
        """Step 3a."""
        assert self.reign is not None
        round_ = self.reign.round
        members = self.accepted.views[-1].members
        self._install(upto)
        for pid in members:
            if pid != self.me:
                self._say(pid, Commit(round_, upto))

    # ---- what the next view is ----

    def _last(self) -> View | None:
        """The last view that I know of, committed or not."""
        return self.accepted.views[-1] if self.accepted.views else None

    def _members_after(self, last: View | None, alive: dict[ProcessId, Claim]) -> tuple[ProcessId, ...]:
        """The members of `last` that live, by age, and then those that wait to be taken in, by name."""
        old = () if last is None else last.members
        new = sorted(pid for pid, claim in alive.items() if pid not in old and claim.view < 0)
        return (*(pid for pid in old if pid in alive), *new)

    def _with_next(self, views: tuple[View, ...], alive: dict[ProcessId, Claim]) -> tuple[View, ...]:
        """Append the next view, where there is a change and it has a quorum; leave out what all have installed."""
        last = views[-1] if views else None
        members = self._members_after(last, alive)
        if (last is None or members != last.members) and self._is_quorum(members) and len(views) < VIEWS_MAX:
            views = (*views, View(0 if last is None else last.number + 1, members))
        if not views:
            return views
        first = min(self._needs(pid, views, alive) for pid in views[-1].members)
        return tuple(view for view in views if view.number >= first)

    def _needs(self, pid: ProcessId, views: tuple[View, ...], alive: dict[ProcessId, Claim]) -> int:
        """The first view of those that a member of the last may not have installed yet."""
        if pid in alive and alive[pid].view >= 0:
            return min(alive[pid].view + 1, views[-1].number)
        return next(view.number for view in views if pid in view.members)

    # ---- step 2: every site ----

    def _on_view_message(self, now: float, sender: ProcessId, packed: bytes) -> None:
        try:
            message: ViewMessage = VIEW_MESSAGE.decode(packed)
        except (msgspec.DecodeError, ValueError):
            self.drop("view message: malformed")
            return
        match message:
            case Propose():
                self._on_propose(now, sender, message)
            case Ack():
                self._on_ack(sender, message)
            case Nack():
                self._on_nack(now, sender, message)
            case Commit():
                self._on_commit(message)

    def _on_propose(self, now: float, sender: ProcessId, propose: Propose) -> None:
        """Step 2."""
        if propose.round < self.promised or propose.round.manager != sender:
            self._say(sender, Nack(propose.round, self.promised, self.accepted))  # 2b
            return
        if propose.round > self.promised:
            self._promise(propose.round)
            self.reign = None
        self.hold_off = now + 4 * self.hello_s
        if propose.opening and self._misses_something(propose.extension):
            self._say(sender, Nack(propose.round, propose.round, self.accepted))  # 2b
            return
        upto = propose.extension.views[-1].number if propose.extension.views else -1
        if not propose.opening:
            self._accept(propose.extension)
        self._say(sender, Ack(propose.round, upto, propose.opening))  # 2a

    def _misses_something(self, proposed: Extension) -> bool:
        """Whether I know of events that the proposed extension does not include."""
        return _weight(self.accepted) > _weight(proposed)

    def _on_ack(self, sender: ProcessId, ack: Ack) -> None:
        reign = self.reign
        if reign is None or ack.round != reign.round:
            self.drop("ack of another round")
        elif ack.opening:
            reign.answers[sender] = NOTHING
        else:
            reign.acks[sender] = max(ack.upto, reign.acks.get(sender, -1))

    def _on_nack(self, now: float, sender: ProcessId, nack: Nack) -> None:
        reign = self.reign
        if reign is None or nack.round != reign.round:
            self.drop("nack of another round")
        elif nack.promised > reign.round:  # another manager reigns: let it, for a while
            self.reign = None
            self._promise(max(self.promised, nack.promised))
            self.hold_off = now + 4 * self.hello_s * (1 + self.random.random())
        else:
            reign.answers[sender] = nack.missing

    def _on_commit(self, commit: Commit) -> None:
        last = self._last()
        if commit.round != self.accepted.round or last is None or commit.upto > last.number:
            self.drop("commit of what was not accepted")
            return
        self._install(commit.upto)

    # ---- what is remembered ----

    def _promise(self, round_: Round) -> None:
        """Take part in no earlier round from now on."""
        self.promised = round_
        self.out.append(Store(PROMISED, encode(round_)))

    def _accept(self, extension: Extension) -> None:
        """Save a proposed extension (step 2a)."""
        self.accepted = extension
        self.out.append(Store(ACCEPTED, encode(extension)))
        self._claim()

    def _install(self, upto: int) -> None:
        """Go through the committed views that are new to me; a joiner begins with the first that holds it."""
        for view in self.accepted.views:
            if view.number <= upto and (self.committed is None or view.number > self.committed.number):
                self.out.append(Append(encode(view)))
                self.committed = view
        for view in self._new_to_me(upto):
            self.view = view
            members = tuple(sorted(str(pid) for pid in view.members))
            self.out.append(Install(f"v{view.number}", view.number, members, primary=True))
        self._claim()

    def _new_to_me(self, upto: int) -> list[View]:
        installed = -1 if self.view is None else self.view.number
        new: list[View] = []
        for view in self.accepted.views:
            if installed < view.number <= upto:
                new = [*new, view] if self.me in view.members else []
        return new

    def _claim(self) -> None:
        self.links.claim = Claim(-1 if self.view is None else self.view.number, self.accepted.round)

    def _say(self, pid: ProcessId, message: ViewMessage) -> None:
        if self.links.send(pid, VIEWS, encode(message)) is None:
            self.drop("view message: no channel")
            self.links.bury(pid)

    # ---- who is dead ----

    def _bury_the_excluded(self) -> None:
        """Give up the sites that claim to be operational, and that what I accepted leaves out."""
        last = self._last()
        if last is None:
            return
        for peer in list(self.links.peers.values()):
            if peer.claim.view >= 0 and peer.pid not in last.members and self._knows_better(peer, last):
                self.links.bury(peer.pid)

    def _knows_better(self, peer: Peer, last: View) -> bool:
        """Whether what I know is later than what the peer claims."""
        claim = peer.claim
        if self.committed is not None and claim.view < self.committed.number and peer.pid not in self.committed.members:
            return True
        return claim.view < last.number and claim.round <= self.accepted.round

    def _die(self, why: str) -> None:
        self.out.append(Halt(why, restart=True))

    # ---- invariants ----

    def check(self) -> None:
        """The invariants of the section and of the deviations."""
        numbers = [view.number for view in self.accepted.views]
        self._require(numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True, "a hole")
        self._require(self.promised >= self.accepted.round, "accepted in a round that was not promised")
        for view in self.accepted.views:
            self._require(self._is_quorum(view.members), f"view {view.number} has no quorum")
            self._require(len(set(view.members)) == len(view.members), f"view {view.number} holds a site twice")
            names = {pid.name for pid in view.members}
            self._require(len(names) == len(view.members), f"view {view.number} holds two incarnations of a site")
        if self.view is not None:
            self._require(self.me in self.view.members, "operational outside its own view")
            self._require(self.committed is not None, "operational without a committed view")
        if self.reign is not None:
            self._require(self.reign.round == self.promised, "reigns in a round that it has left")
        self.links.check()

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            raise BrokenInvariant(f"{self.me}: {what}; view {self.view}, accepted {self.accepted}")
