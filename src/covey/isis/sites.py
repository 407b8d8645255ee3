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

from covey.isis.links import APPLICATION, VIEWS, LinkOptions, Links, Peer
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
from covey.isis.sequence import Memory, Quorum, members_after, weight, with_next
from covey.kernel.effects import Deliver, Halt, Note
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.errors import BrokenInvariant
from covey.kernel.ids import ProcessId

LINK_OPTIONS = LinkOptions()
HOLD_OFF = 4
"""For so many hello intervals nobody begins a reign while another manager is at work."""
NOTE_S = 1.0
"""The least time between two notes of what was dropped."""

Alive = dict[ProcessId, int]
"""The sites that are not silent, this one included, and the view that each installed last (-1 for none)."""


class Outgoing(NamedTuple):
    """A message of the application to one site."""

    dest: ProcessId
    message: bytes


class Answer(NamedTuple):
    """What a site said when it promised to take part in a round: its state since, but for that round's doing."""

    missing: Extension
    """What it had accepted, where the manager may have been missing that."""
    standing: Standing


class Reign:
    """What a view manager knows of its own round."""

    def __init__(self, round_: Round) -> None:
        self.round = round_
        self.opening = True
        self.asked: set[ProcessId] = set()
        self.answers: dict[ProcessId, Answer] = {}
        self.base = NO_ROUND
        """The round of the extension that was adopted: nothing committed before this reign is of a later one."""
        self.proposed: set[ProcessId] = set()
        """Who was in a view that this manager proposed."""
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
        self.quorum = Quorum(configured)
        self.memory = Memory(self, around)
        others = [address for address in addresses if address != around.address]
        self.links = Links(self, others, options, self._excludes, self._is_in_last_view)
        self.hello_s = options.hello_s
        self.reign: Reign | None = None
        self.review_at = 0.0
        self.hold_off = 0.0
        self.noted: dict[str, int] = {}
        self.note_at = 0.0

    # ---- the engine's surface ----

    def start(self, now: float) -> None:
        self._settle(now)

    def receive(self, now: float, source: str, packet: bytes) -> None:
        for sender, port, messages in self.links.receive(now, source, packet):
            if port == APPLICATION:
                self.out.append(Deliver(sender, 0, messages))
                continue
            for message in messages:
                self._on_view_message(now, sender, message)
            self._advance(now)
        self._settle(now)

    def wake(self, now: float) -> None:
        self.links.wake(now)
        if now >= self.review_at:
            self.review_at = now + self.hello_s
            self._review(now)
        self._note_drops(now)
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

    @property
    def room(self) -> int:
        """How many messages to any site of the view would be taken now; none while this one is in no view."""
        members = () if self.memory.view is None else self.memory.view.members
        return min((self.links.room(pid, APPLICATION) for pid in members if pid != self.me), default=0)

    def submit(self, now: float, batch: Sequence[Outgoing]) -> int:
        """Send messages to sites of the view (`links.send` for one whose status is wanted).

        What is for a site that is not in the view counts as sent: nobody will see that it did not arrive.
        """
        taken = 0
        if self.memory.view is None:
            return taken
        for dest, message in batch:
            if dest not in self.memory.view.members:
                self.drop("message: no such site in the view")
            elif self.links.send(dest, APPLICATION, message) is None:
                break
            taken += 1
        self._settle(now)
        return taken

    def _settle(self, now: float) -> None:
        """After every input: claim what is true now, send what is queued, set the next deadline."""
        self.links.claim = self.memory.claim
        self.links.flush(now)
        self.deadline = min(self.links.deadline(now), self.review_at)

    def _note_drops(self, now: float) -> None:
        if now >= self.note_at and self.drops != self.noted:
            self.note_at, self.noted = now + NOTE_S, dict(self.drops)
            counters = {f"dropped: {why}": count for why, count in sorted(self.drops.items())}
            self.out.append(Note("state", {"counters": counters}))

    # ---- who manages ----

    def _alive(self, now: float) -> Alive:
        alive = {peer.pid: peer.claim.view for peer in self.links.alive(now)}
        alive[self.me] = self.memory.number
        return alive

    def _is_manager(self, alive: Alive) -> bool:
        """Whether all older sites of the view are silent; of sites in no view, whether I am the least."""
        operational = {pid for pid, view in alive.items() if view >= 0}
        if self.memory.view is not None:
            return self.me == next(member for member in self.memory.view.members if member in operational)
        return not operational and self.me == min(alive, key=self._age_of_recovering)

    def _age_of_recovering(self, pid: ProcessId) -> tuple[bool, ProcessId]:
        return pid.name not in self.quorum.configured, pid

    def _review(self, now: float) -> None:
        """Once a hello interval, so that changes are bundled: does the sequence need an extension from me?"""
        alive = self._alive(now)
        if not self._is_manager(alive) or not self.quorum.holds(alive):
            if self.reign is not None and self.reign.opening:
                self.reign = None
        elif self.reign is None:
            if now >= self.hold_off and self._is_change_wanted(alive):
                self._open(alive)
        else:
            self._ask(self.reign, alive)
            self._advance(now)
            if not self.reign.opening:
                self._update(self.reign, self._eligible(self.reign, alive, self.memory.last))

    def _eligible(self, reign: Reign, alive: Alive, last: View | None) -> Alive:
        """Who of the living can be in a view after `last`.

        Nobody may come back to the sequence who has left it: a site that is not in the last view, and may have
        been in an earlier one, is dead. It has not been in one if its first round is later than all that was
        committed before this reign, and it was not proposed in this reign. (Deviation 5.)
        """
        members = () if last is None else last.members
        eligible = {}
        for pid, view in alive.items():
            answer = reign.answers.get(pid)
            if pid in members:
                eligible[pid] = view if answer is None else max(view, answer.standing.view)
            elif answer is not None and answer.standing.since > reign.base and pid not in reign.proposed:
                eligible[pid] = answer.standing.view
            elif answer is not None:
                self._kill(pid)
        return eligible

    def _kill(self, pid: ProcessId) -> None:
        if pid == self.me:
            self.out.append(Halt("left out by an earlier manager", restart=True))
        else:
            self.links.bury(pid)

    def _is_change_wanted(self, alive: Alive) -> bool:
        last = self.memory.last
        return last is None or last != self.memory.view or members_after(last, alive) != last.members

    # ---- rules 4 and 5: a new manager ----

    def _open(self, alive: Alive) -> None:
        """Begin a reign: ask everybody what my knowledge is missing.

        Rule 4: an extension that I accepted may have been committed by the manager before me: it stays.
        Rule 5: one that was committed may not have reached everybody: it is sent again.
        """
        self.reign = Reign(Round(self.memory.promised.term + 1, self.me))
        self.memory.promise(self.reign.round)
        self.reign.asked.add(self.me)
        self.reign.answers[self.me] = Answer(self.memory.accepted, self.memory.standing)
        self._ask(self.reign, alive)

    def _ask(self, reign: Reign, alive: Alive) -> None:
        """Step 1 of an opening, to whom it has not been sent yet."""
        for pid in sorted(alive.keys() - reign.asked):
            reign.asked.add(pid)
            self._say(pid, Propose(self.memory.accepted, reign.round, opening=True))

    def _adopt(self, reign: Reign, alive: Alive) -> None:
        """End the opening: what may have been committed stays, and my own view comes after it."""
        reign.opening = False
        best = max((answer.missing for answer in reign.answers.values()), key=weight)
        reign.base = best.round
        eligible = self._eligible(reign, alive, best.views[-1] if best.views else None)
        if self.me in eligible:
            self._propose(reign, with_next(best.views, eligible, self.quorum))

    # ---- steps 1 and 3: the manager ----

    def _propose(self, reign: Reign, views: tuple[View, ...]) -> None:
        """Step 1."""
        proposed = Extension(reign.round, views)
        if not views or proposed == self.memory.accepted:
            return
        self.memory.accept(proposed)
        reign.proposed.update(views[-1].members)
        reign.acks[self.me] = views[-1].number
        for pid in views[-1].members:
            if pid != self.me:
                self._say(pid, Propose(proposed, reign.round, opening=False))

    def _advance(self, now: float) -> None:
        """Step 3: when all have answered, go on."""
        reign, last = self.reign, self.memory.last
        if reign is None:
            return
        if reign.opening:
            alive = self._alive(now)
            if reign.answers.keys() >= alive.keys() and self.quorum.holds(reign.answers):
                self._adopt(reign, alive)
        elif last is not None and last != self.memory.view and self._all_acknowledged(reign, last):
            self._commit(reign, last)

    def _all_acknowledged(self, reign: Reign, last: View) -> bool:
        return all(reign.acks.get(pid, -1) >= last.number for pid in last.members)

    def _commit(self, reign: Reign, last: View) -> None:
        """Step 3a."""
        self._install(last.number)
        for pid in last.members:
            if pid != self.me:
                self._say(pid, Commit(reign.round, last.number))

    def _update(self, reign: Reign, alive: Alive) -> None:
        """Step 3b; while nobody that is waited for has failed, newcomers wait for the commit."""
        last = self.memory.last
        is_waiting = last is not None and last != self.memory.view
        if is_waiting and last is not None and all(pid in alive for pid in last.members):
            return
        if self._is_change_wanted(alive):
            self._propose(reign, with_next(self.memory.accepted.views, alive, self.quorum))

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
        memory = self.memory
        if propose.round < memory.promised or propose.round.manager != sender:
            self._say(sender, Nack(propose.round, memory.promised, memory.accepted, memory.standing))  # 2b
            return
        if propose.round > memory.promised:
            self.reign = None
        memory.promise(propose.round)
        self.hold_off = now + HOLD_OFF * self.hello_s
        if propose.opening and self._misses_something(propose.extension):
            self._say(sender, Nack(propose.round, propose.round, memory.accepted, memory.standing))  # 2b
            return
        if not propose.opening:
            memory.accept(propose.extension)
        self._say(sender, Ack(propose.round, weight(propose.extension)[1], propose.opening, memory.standing))  # 2a

    def _misses_something(self, proposed: Extension) -> bool:
        """Whether I know of events that the proposed extension does not include."""
        return weight(self.memory.accepted) > weight(proposed)

    def _on_ack(self, sender: ProcessId, ack: Ack) -> None:
        reign = self.reign
        if reign is None or ack.round != reign.round:
            self.drop("ack of another round")
        elif ack.opening:
            reign.answers[sender] = Answer(NOTHING, ack.standing)
        else:
            reign.acks[sender] = max(ack.upto, reign.acks.get(sender, -1))

    def _on_nack(self, now: float, sender: ProcessId, nack: Nack) -> None:
        reign = self.reign
        if reign is None or nack.round != reign.round:
            self.drop("nack of another round")
        elif nack.promised > reign.round:  # another manager reigns: let it, for a while
            self.reign = None
            self.memory.promise(max(self.memory.promised, nack.promised))
            self.hold_off = now + HOLD_OFF * self.hello_s * (1 + self.random.random())
        else:
            reign.answers[sender] = Answer(nack.missing, nack.standing)

    def _on_commit(self, commit: Commit) -> None:
        last = self.memory.last
        if not commit.round == self.memory.promised == self.memory.accepted.round:
            self.drop("commit of another round")
            return
        if last is None or commit.upto > last.number:
            self.drop("commit of what was not accepted")
            return
        self._install(commit.upto)

    # ---- helpers ----

    def _install(self, upto: int) -> None:
        """Go through the sequence up to a committed view; who has left it on the way is dead."""
        for pid in self.memory.commit(upto):
            if pid != self.me:
                self.links.bury(pid)

    def _say(self, pid: ProcessId, message: ViewMessage) -> None:
        if self.links.send(pid, VIEWS, encode(message)) is None:
            self.drop("view message: no channel")
            self.links.bury(pid)

    def _is_in_last_view(self, pid: ProcessId) -> bool:
        """Whether a site is in the view that I accepted last: one that has installed it may already send to me."""
        return self.memory.last is not None and pid in self.memory.last.members

    def _excludes(self, peer: Peer) -> bool:
        """Steps 1 and 2: who is not in the extension that I accepted last is not listened to any more."""
        return self.memory.excludes(peer.pid, peer.claim)

    def check(self) -> None:
        self.memory.check(self.quorum)
        if self.reign is not None and self.reign.round != self.memory.promised:
            raise BrokenInvariant(f"{self.me} reigns in {self.reign.round}, and has promised {self.memory.promised}")
        self.links.check()
