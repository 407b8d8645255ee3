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
part in no round below the last that it took part in. For view management that takes the place of the
paper's "ceases to accept messages from sites not in the view", which alone does not order managers that
restart; the messages of applications are refused as the paper has it. A new manager begins with
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
And a commit counts for what was accepted in its round, also where a later round has been promised since.

Deviation 5. No incarnation comes back to the sequence once it has left it. A manager that has not seen the
whole sequence cannot tell a newcomer from one that an earlier manager took in and left out again; so a site
that is in no view says in which round it first took part, and only one that began after all that the manager
adopted is new. Any other is told that it is dead, and comes again as the next incarnation.

A site is *recovering*, *operational*, or *manager* in a reign of its own (`covey.isis.reign`: steps 1 and 3,
rules 4 and 5); `TAKES` says which messages mean something to it. Step 2, which all take part in, is here.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import msgspec

from covey.isis.links import APPLICATION, VIEWS, LinkOptions, Links
from covey.isis.messages import (
    COUNT_MAX,
    VIEW_MESSAGE,
    Ack,
    Commit,
    Extension,
    Nack,
    Propose,
    ViewMessage,
    encode,
)
from covey.isis.reign import Alive, Reign, is_change_wanted
from covey.isis.sequence import Memory, Quorum, weight
from covey.kernel.effects import Deliver, Halt
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.errors import BrokenInvariant, MisuseError
from covey.kernel.ids import ProcessId

LINK_OPTIONS = LinkOptions()
HOLD_OFF = 4
"""For so many hello intervals nobody begins a reign while another manager is at work."""
MESSAGE_BYTES_MAX = 60_000
"""A message travels in one segment, and that in one datagram."""


class Outgoing(NamedTuple):
    """A message of the application to one site."""

    dest: ProcessId
    message: bytes


class State(Enum):
    """What a site is to the sequence of views."""

    RECOVERING = "recovering"
    """In no view: it has just started."""
    OPERATIONAL = "operational"
    """In the view that it installed last."""
    MANAGER = "manager"
    """Recovering or operational, and in a reign of its own."""


TAKES: dict[State, tuple[type[ViewMessage], ...]] = {
    State.RECOVERING: (Propose, Commit),
    State.OPERATIONAL: (Propose, Commit),
    State.MANAGER: (Propose, Ack, Nack, Commit),
}
"""The messages that mean something in each state; any other is dropped under its name."""


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
        self.address = around.address
        self.links = Links(self, self._others(addresses), options, self._is_in_last_view)
        self.hello_s = options.hello_s
        self.reign: Reign | None = None
        self.review_at = 0.0
        self.hold_off = 0.0
        self.seen: set[ProcessId] = set()
        """Who was alive at the last review."""

    # ---- the engine's surface ----

    def start(self, now: float) -> None:
        self._settle(now)

    def receive(self, now: float, source: str, packet: bytes) -> None:
        for sender, port, number, messages in self.links.receive(now, source, packet):
            if port == APPLICATION:
                self.out.append(Deliver(sender, number, messages))
                continue
            for message in messages:
                self._on_view_message(now, sender, message)
            if self.reign is not None:
                self.reign.advance(self._alive(now))
        self._settle(now)

    def wake(self, now: float) -> None:
        self.links.wake(now)
        if now >= self.review_at:
            self.review_at = now + self.hello_s
            self._review(now)
        self.note_drops(now)
        self._settle(now)

    def hint(self, now: float, peer: str) -> None:
        self.links.hint(now, peer)
        self._settle(now)

    def meet(self, now: float, addresses: Sequence[str]) -> None:
        self.links.addresses = self._others(addresses)

    def _others(self, addresses: Sequence[str]) -> tuple[str, ...]:
        return tuple(address for address in addresses if address != self.address)

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

    def submit(self, now: float, batch: Sequence[Outgoing], service: str = "") -> int:
        """Send messages to sites of the view (`links.send` for one whose status is wanted).

        What is for a site that is not in the view counts as sent: nobody will see that it did not arrive.
        """
        if service:
            raise MisuseError(
                f"sites have no service {service!r}; leave it out: the order of each channel is what there is"
            )
        if any(len(message) > MESSAGE_BYTES_MAX for _, message in batch):
            raise MisuseError(f"a message between sites has at most {MESSAGE_BYTES_MAX} bytes; send it in parts")
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
        """After every input: say in hellos what is true now, send what is queued, set the next deadline."""
        self.links.view = self.memory.number
        self.links.flush(now)
        self.deadline = min(self.links.deadline(now), self.review_at)

    # ---- who manages ----

    def _alive(self, now: float) -> Alive:
        alive = {peer.pid: peer.view for peer in self.links.alive(now)}
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
        """Once a hello interval, so that changes are bundled: does the sequence need an extension from me?

        Where somebody has come, others may be about to, as when a cut ends: they are given an interval.
        """
        alive = self._alive(now)
        is_growing = not alive.keys() <= self.seen
        self.seen = set(alive)
        if is_growing:
            return
        if not self._is_manager(alive) or not self.quorum.holds(alive):
            if self.reign is not None and self.reign.opening:
                self.reign = None
        elif self.reign is not None:
            self.reign.review(alive)
        elif self.memory.promised.term == COUNT_MAX:
            self.drop("reign: no term is left")
        elif now >= self.hold_off and is_change_wanted(self.memory.last, self.memory.view, alive):
            self.reign = Reign(self)
            self.reign.open(alive)

    # ---- step 2: every site ----

    @property
    def state(self) -> State:
        if self.reign is not None:
            return State.MANAGER
        return State.RECOVERING if self.memory.view is None else State.OPERATIONAL

    def _on_view_message(self, now: float, sender: ProcessId, packed: bytes) -> None:
        try:
            message: ViewMessage = VIEW_MESSAGE.decode(packed)
        except (msgspec.DecodeError, ValueError, RecursionError):
            self.drop("view message: malformed")
            return
        if not isinstance(message, TAKES[self.state]):
            self.drop(f"{type(message).__name__.lower()} while {self.state.value}")
            return
        match message:
            case Propose():
                self._on_propose(now, sender, message)
            case Commit():
                self._on_commit(message)
            case Ack() | Nack():
                self._on_answer(now, sender, message)

    def _on_propose(self, now: float, sender: ProcessId, propose: Propose) -> None:
        """Step 2."""
        memory = self.memory
        if propose.round.manager != sender:
            self.drop("proposal in the name of another")
            return
        if propose.round < memory.promised:
            self.say(sender, Nack(propose.round, memory.promised, memory.accepted, memory.standing))  # 2b
            return
        if not propose.opening and not memory.can_follow(propose.extension, self.quorum):
            self.drop("extension that cannot follow")
            return
        if propose.round > memory.promised:
            self.reign = None
        memory.promise(propose.round)
        self.hold_off = now + HOLD_OFF * self.hello_s
        if propose.opening and self._misses_something(propose.extension):
            self.say(sender, Nack(propose.round, propose.round, memory.accepted, memory.standing))  # 2b
            return
        if not propose.opening:
            memory.accept(propose.extension)
        self.say(sender, Ack(propose.round, weight(propose.extension)[1], propose.opening, memory.standing))  # 2a

    def _misses_something(self, proposed: Extension) -> bool:
        """Whether I know of events that the proposed extension does not include."""
        return weight(self.memory.accepted) > weight(proposed)

    def _on_answer(self, now: float, sender: ProcessId, answer: Ack | Nack) -> None:
        """Step 3: the manager collects acknowledgements."""
        reign = self.reign
        if reign is None or answer.round != reign.round or sender not in reign.asked | reign.proposed:
            self.drop("answer of another round")
        elif isinstance(answer, Ack):
            reign.on_ack(sender, answer)
        elif answer.promised > reign.round:  # another manager reigns: let it, for a while
            self.reign = None
            self.memory.promise(max(self.memory.promised, answer.promised))
            self.hold_off = now + HOLD_OFF * self.hello_s * (1 + self.random.random())
        elif self.memory.can_follow(answer.missing, self.quorum):
            reign.on_nack(sender, answer)
        else:
            self.drop("extension that cannot follow")

    def _on_commit(self, commit: Commit) -> None:
        """Install what I accepted in that round: it is committed, whatever I have promised since."""
        last = self.memory.last
        if commit.round != self.memory.accepted.round:
            self.drop("commit of another round")
        elif last is None or commit.upto > last.number:
            self.drop("commit of what was not accepted")
        else:
            self.install(commit.upto)

    # ---- what a reign, and step 2, do to the world ----

    def say(self, pid: ProcessId, message: ViewMessage) -> None:
        """Send a message of view management; a site that takes no more of them is given up."""
        if self.links.send(pid, VIEWS, encode(message)) is None:
            self.drop("view message: no channel")
            self.links.bury(pid)

    def install(self, upto: int) -> None:
        """Go through the sequence up to a committed view; who has left it on the way is dead."""
        for pid in self.memory.commit(upto):
            self.kill(pid)

    def kill(self, pid: ProcessId) -> None:
        """Make a site undergo recovery, which may be this one."""
        if pid == self.me:
            self.out.append(Halt("left out of the view", restart=True))
        else:
            self.links.bury(pid)

    # ---- whom I listen to ----

    def _is_in_last_view(self, pid: ProcessId) -> bool:
        """Whether a site is in the view that I accepted last: one that has installed it may already send to me."""
        return self.memory.last is not None and pid in self.memory.last.members

    def check(self) -> None:
        self.memory.check(self.quorum)
        if self.reign is not None and self.reign.round != self.memory.promised:
            raise BrokenInvariant(f"{self.me} reigns in {self.reign.round}, and has promised {self.memory.promised}")
        self.links.check()
