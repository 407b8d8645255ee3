"""Extended virtual synchrony: one process (evs-1994, on a Totem ring).

What happens enters here, and what is to be done leaves here; the parts know their own business only: the ring
orders frames (`covey.evs.ring`), the membership protocol finds out who is there (`covey.evs.membership`), the
recovery algorithm decides what becomes of the old configuration's messages (`covey.evs.recovery`), and
`covey.evs.primary` which configuration is the primary component.

A process begins in a configuration of its own (section 2), and goes from one regular configuration to the next
through a transitional one. A message is *sent* when the ring gives it its number: what the application handed over
meanwhile waits (step 2) and is sent in the next configuration.

Decisions:

- Causal messages are ordered like agreed ones: total order on one ring costs nothing more.
- Frames of the old ring are taken while it is operational; from gather on, only by the rebroadcast (step 5.a). What
  was told in step 3 stays true.
- A process acknowledges the rebroadcast messages (5.c) by passing a token on with all of them received, and has
  then included the others' obligations, and stored that somebody may install the primary component. It installs the
  new configuration before it passes on the token that told it of everybody's acknowledgement: so whoever
  acknowledges a message of the new ring has installed its configuration (Specification 7.2).
- A quiet token rests with the member that sent last, and makes one round now and then. Who has something to send
  asks for it.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from covey.evs.circulation import Circulation
from covey.evs.membership import RING_STEP, Forming, Membership, State
from covey.evs.messages import (
    CHANGE,
    CODEC,
    FRAME,
    RECOVERED,
    SERVICES,
    Ack,
    Commit,
    Frame,
    Info,
    Join,
    Leave,
    Probe,
    RingId,
    RingMessage,
    Token,
    Want,
    read_ring,
    tell,
)
from covey.evs.outbox import FRAME_BYTES, Change, Outbox
from covey.evs.primary import Component, Primary, Standing, Verdict
from covey.evs.ring import Fresh, Ring, to_ranges
from covey.kernel.effects import Cast, Deliver, Halt, Install, Note, Send, Store
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.errors import BrokenInvariant, MisuseError, WorldError
from covey.kernel.ids import ProcessId
from covey.kernel.wire import Dropped, header, unpack_messages

RING_KEY = "evs.ring"
"""Stable storage: the highest number of a ring that this process knows."""
PLACES = 2**16
"""An ordinal is the number of the frame and the place in it."""
CHANGES_MAX = 16
"""So many changes of the configured set wait to be sent."""
ADDRESSES_MAX = 1024
"""So many addresses are remembered at which others were heard."""

TAKES: dict[State, tuple[type[RingMessage] | type[Frame], ...]] = {
    State.OPERATIONAL: (Frame, Token, Ack, Want, Join, Probe, Leave, Commit),
    State.GATHER: (Join, Probe, Leave, Commit),
    State.COMMIT: (Ack, Join, Probe, Leave, Commit),
    State.RECOVER: (Frame, Token, Ack, Join, Probe, Leave, Commit),
}
"""What means something in each state; anything else is dropped under its name."""


class Evs(Engine):
    """One incarnation of a process."""

    def __init__(
        self,
        around: Surroundings,
        addresses: Sequence[str],
        configured: Sequence[str],
        *,
        dynamic: bool = False,
        primary_only: bool = False,
        frame_bytes: int = FRAME_BYTES,
    ) -> None:
        """Find others at `addresses`; `configured` names the processes whose majority is a primary component.

        With `dynamic`, it is a majority of the last one instead. With `primary_only`, messages of the application
        wait while this process is not in the primary component (section 5, rule 2). A frame has up to `frame_bytes`.
        """
        super().__init__(around)
        self.address = around.address
        self.addresses = self._others(addresses)
        self.primary = Primary(self, around, configured, "dynamic" if dynamic else "majority")
        self.primary_only = primary_only
        self.stored = around.stable
        self.ring_seq = 0
        self.outbox = Outbox(frame_bytes)
        self.head = header(FRAME, self.me)
        self.met: dict[ProcessId, str] = {}
        """Where other processes were heard."""
        self.obligations: frozenset[str] = frozenset()
        self.is_changing = False
        """Whether a change of the configured set waits for the next configuration."""

    # ---- the engine's surface ----

    def start(self, now: float) -> None:
        self.remember(self._stored_seq() + RING_STEP)
        self.ring = Ring(RingId(self.ring_seq, self.me.name), (self.me,), self.me)
        self.ring.safe = 0
        self.circulation = Circulation(self, now)
        self.membership = Membership(self)
        verdict = self._decide(self.ring, {self.me.name: self.primary.standing})
        self.primary.acknowledge(verdict)
        self._enter(self.ring, verdict)
        self._settle(now)

    def receive(self, now: float, source: str, packet: bytes) -> None:
        read = CODEC.decode(packet)
        if isinstance(read, Dropped):
            self.drop(f"packet: {read.reason}")
            return
        sender = read.sender
        if sender == self.me:
            self.drop("packet: my own")
            return
        kind = Frame if read.kind == FRAME else type(read.body)
        if kind not in TAKES[self.membership.state]:
            self.drop(f"{kind.__name__.lower()} while {self.membership.state.value}")
            return
        match read.body:
            case bytes():
                self._on_frame(now, sender, read.body)
            case Token():
                self.circulation.on_token(now, sender, source, read.body)
            case Ack():
                self.circulation.on_ack(now, read.body)
            case Want():
                self.circulation.on_want(now, read.body)
            case Join():
                self._meet(sender, source)
                self.membership.on_join(now, sender, read.body)
            case Probe():
                self._meet(sender, source)
                self.membership.on_probe(now, sender, read.body)
            case Leave():
                self.membership.on_leave(now, sender, read.body)
            case Commit():
                self.membership.on_commit(now, source, read.body)
        self._settle(now)

    def wake(self, now: float) -> None:
        self.circulation.wake(now)
        self.membership.wake(now)
        self.note_drops(now)
        self._settle(now)

    @property
    def room(self) -> int:
        return self.outbox.room

    def submit(self, now: float, batch: Sequence[bytes], service: str = "") -> int:
        """Take messages to be sent `causal`, `agreed` (unless told otherwise) or `safe`."""
        taken = self.outbox.add(batch, service or "agreed")
        self.circulation.see_to_the_outbox(now)
        self._settle(now)
        return taken

    def replace(self, now: float, old: str, new: str) -> None:
        """Ask for a change of the configured set: a process that is dead for good makes way for another one.

        It is ordered with the messages, counts if it becomes safe in a primary component, and takes effect with the
        next one.
        """
        self.primary.check_change(old, new)
        if len(self.outbox.changes) >= CHANGES_MAX:
            raise MisuseError(f"{CHANGES_MAX} changes wait to be sent already; wait until they have taken effect")
        self.outbox.changes.append(Change(old, new))
        self.circulation.see_to_the_outbox(now)
        self._settle(now)

    def hint(self, now: float, peer: str) -> None:
        for pid, address in list(self.met.items()):
            if address == peer:
                self.membership.on_failure(now, pid)
        self._settle(now)

    def meet(self, now: float, addresses: Sequence[str]) -> None:
        self.addresses = self._others(addresses)
        self.membership.probe_at = now
        self._settle(now)

    def paused(self, now: float, seconds: float) -> None:
        """I was not there: before I suspect anybody, I suspect myself."""
        self.circulation.passing.excuse(now)
        self.membership.excuse(now)
        self._settle(now)

    def leave(self, now: float) -> None:
        self.cast(Leave(self.ring.id), self.reach(self.turning.members))
        self.out.append(Halt("left", restart=False))

    def _settle(self, now: float) -> None:
        self.deadline = min(self.membership.deadline, self.circulation.deadline)

    # ---- what the parts ask for ----

    @property
    def turning(self) -> Ring:
        """The ring whose token is expected: the one that is being formed, or the one that is installed."""
        forming = self.membership.forming
        return self.ring if forming is None else forming.ring

    def note(self, counters: dict[str, int]) -> None:
        self.out.append(Note("state", {"counters": counters}))

    def remember(self, ring_seq: int) -> None:
        """Before the number of a ring is used it is in stable storage."""
        self.ring_seq = ring_seq
        self.out.append(Store(RING_KEY, b"%d" % ring_seq))

    def _stored_seq(self) -> int:
        stored = self.stored.get(RING_KEY) or b"0"
        if not stored.isdigit():
            raise WorldError(
                f"the storage of {self.me.name} is damaged: under {RING_KEY} it holds {stored!r}. Set it aside; "
                "without it this process comes back under a fresh name"
            )
        return int(stored)

    def info(self, components: tuple[Component, ...]) -> tuple[Info, tuple[Component, ...]]:
        """Step 3: what I tell the others, and the table of components that it refers to."""
        ring = self.ring
        told, components = tell(self.primary.standing, components)
        have, obligations = to_ranges(ring.beyond), tuple(sorted(self.obligations))
        return Info(ring.id, ring.aru, have, max(ring.safe, 0), obligations, told), components

    def is_superseded(self, pid: ProcessId) -> bool:
        """Whether a later incarnation of that process is in my configuration."""
        return any(pid.name == name and pid.incarnation < incarnation for name, incarnation in self.ring.members)

    def address_of(self, pid: ProcessId) -> str:
        return self.address if pid == self.me else self.met.get(pid, "")

    def cast_to_all(self, message: RingMessage) -> None:
        """Send to wherever anybody may be."""
        self.cast(message, self.addresses)

    def probe(self) -> None:
        """Look for others where none of my configuration is."""
        mine = self.reach(self.ring.members)
        others = tuple(address for address in self.addresses if address not in mine)
        self.cast(Probe(self.ring.id), others)

    def acknowledge(self, to: str, ring: RingId, hop: int) -> None:
        self.out.append(Send(to, CODEC.control(self.me, Ack(ring, hop))))

    def cast(self, message: RingMessage, to: tuple[str, ...]) -> None:
        if to:
            self.out.append(Cast(CODEC.control(self.me, message), to))

    def reach(self, members: Sequence[ProcessId]) -> tuple[str, ...]:
        return tuple(self.met[pid] for pid in members if pid in self.met)

    def _meet(self, pid: ProcessId, address: str) -> None:
        if pid in self.met or len(self.met) < ADDRESSES_MAX:
            self.met[pid] = address
        if address not in self.addresses and len(self.addresses) < ADDRESSES_MAX:
            self.addresses = (*self.addresses, address)

    def _others(self, addresses: Sequence[str]) -> tuple[str, ...]:
        return tuple(address for address in addresses if address != self.address)

    # ---- frames ----

    def _on_frame(self, now: float, sender: ProcessId, body: bytes) -> None:
        ring = self.turning
        if not body.startswith(ring.bytes):
            self._on_other_ring(now, sender, read_ring(body))
            return
        frame = ring.read(body)
        if frame is None:
            self.drop("frame: malformed")
            return
        if self.circulation.rests is not None or not ring.take(frame):
            self.drop("frame: again")  # where the token rests, nobody has sent any that is not known
            return
        if frame.seq > self.circulation.passing.seq:
            self.circulation.passing.sign(now)
        if frame.service == RECOVERED:
            self._recover_frame(frame)
        if self.membership.state is State.OPERATIONAL:
            self.deliver(now)

    def _on_other_ring(self, now: float, sender: ProcessId, ring: RingId | None) -> None:
        if ring is None:
            self.drop("frame: malformed")
        else:
            self.membership.on_foreign(now, sender, ring)

    def _recover_frame(self, frame: Frame) -> None:
        """Step 5.a: a frame of an old ring, which may be mine."""
        body = frame.body[frame.at :]
        if body.startswith(self.ring.bytes) and (old := self.ring.read(body)) is not None:
            self.ring.take(old)

    def deliver(self, now: float) -> None:
        """Step 1: what is next in the order, as far as it may be delivered."""
        for frame in self.ring.ready():
            if frame.service == CHANGE:
                self._change(frame)
            elif frame.service != RECOVERED:
                self._hand_over(frame, self.ring, self.ring.config)
        self.ring.discard()
        if self.is_changing and self.membership.state is State.OPERATIONAL:
            self.membership.gather(now)

    def _hand_over(self, frame: Frame, ring: Ring, config: str) -> None:
        messages = unpack_messages(frame.body, frame.at)
        if not messages:
            self.drop("frame: messages malformed")
            return
        origin = ring.members[frame.origin]
        self.out.append(Deliver(origin, frame.number, messages, config, frame.seq * PLACES))

    def _change(self, frame: Frame) -> None:
        """A change of the configured set has become safe."""
        try:
            change = msgspec.msgpack.decode(frame.body[frame.at :], type=Change)
        except msgspec.DecodeError:
            self.drop("change: malformed")
            return
        if self.primary.change(change.old, change.new):
            self.is_changing = True
        else:
            self.drop("change: does not apply")

    # ---- what there is to send ----

    def cast_frames(self, ring: Ring, frames: Sequence[Frame]) -> None:
        reach = self.reach(ring.members)
        self.out += [Cast(self.head + frame.body, reach) for frame in frames]

    def fresh(self, limit: int) -> list[Fresh]:
        """New frames, and in the trace that they are sent."""
        if limit <= 0 or not self.may_send:
            return []
        fresh = self.outbox.cut(limit)
        for service, number, count, _ in fresh:
            if service < len(SERVICES):
                columns = {"config": self.ring.config, "service": SERVICES[service], "count": count}
                self.out.append(Note("send", {"message": f"{self.me}/{number}", **columns}))
        return fresh

    @property
    def may_send(self) -> bool:
        return self.primary.standing.since > 0 or not self.primary_only

    # ---- recovery ----

    def begin_recovery(self, forming: Forming, standings: dict[str, Standing]) -> None:
        """Step 4 is done: whether the new configuration is a primary component is decided, too."""
        met = {**self.met, **{seat.pid: seat.address for seat in forming.seats if seat.pid != self.me}}
        members = {*self.ring.members, *forming.ring.members}
        self.met = {pid: address for pid, address in met.items() if pid in members}
        forming.verdict = self._decide(forming.ring, standings)

    def _decide(self, ring: Ring, standings: dict[str, Standing]) -> Verdict:
        """Whether a configuration is a primary component, after what its members told of earlier ones."""
        return self.primary.verdict(ring.id.seq, ring.config, standings)

    def hold_while_recovering(self, now: float, forming: Forming, token: Token) -> None:
        """Step 5: rebroadcast what I have to, and go on to step 6 when all have acknowledged all."""
        recovery, ring = forming.recovery, forming.ring
        assert recovery is not None
        passed, frames = ring.visit(token, lambda limit: self._rebroadcast(recovery.mine, limit))
        for frame in frames:
            if frame.service == RECOVERED:
                self._recover_frame(frame)
        if ring.aru >= recovery.total and not forming.is_acknowledged:  # 5.c
            forming.is_acknowledged = True
            self.obligations = recovery.obligations()
            self.primary.acknowledge(forming.verdict)
        if ring.is_alone:
            ring.safe = ring.aru
        if (token.is_installed and forming.is_acknowledged) or (
            ring.safe >= recovery.total and self._may_be_first(forming.verdict)
        ):  # 5.b
            self._install(now, forming)
            passed = replace(passed, is_installed=True)
        if ring.is_alone:
            self.circulation.see_to_the_outbox(now)
        else:
            self.circulation.pass_token(now, ring, passed, frames)
        if self.membership.state is State.OPERATIONAL:
            self.deliver(now)
            self.membership.welcome(now)

    def _may_be_first(self, verdict: Verdict) -> bool:
        """A primary component is installed by its founder first."""
        return verdict.component is None or verdict.component.founder == self.me.name

    def _rebroadcast(self, mine: list[int], limit: int) -> list[Fresh]:
        """Step 5.a."""
        seqs = mine[: max(limit, 0)]
        del mine[: len(seqs)]
        return [Fresh(RECOVERED, 0, 0, self.ring.frames[seq].body) for seq in seqs]

    def _install(self, now: float, forming: Forming) -> None:
        """Step 6, a local atomic action."""
        recovery, ring, old = forming.recovery, forming.ring, self.ring
        assert recovery is not None
        left = recovery.deliveries(self.obligations)  # 6.a
        self.note(left.counters)
        self._hand_over_old(left.regular, old, old.config)  # 6.b
        transitional = f"{old.config}>{ring.config}"
        names = tuple(pid.name for pid in recovery.members)
        self.out.append(
            Install(transitional, ring.id.seq - 1, names, "transitional", primary=False, previous=old.config)
        )  # 6.c
        self._hand_over_old(left.transitional, old, transitional)  # 6.d
        self._enter(ring, forming.verdict)  # 6.e
        self.ring = ring
        ring.delivered = recovery.total
        self.obligations = frozenset()  # step 1
        self.is_changing = False
        self.met = {pid: address for pid, address in self.met.items() if pid in ring.members}
        self.membership.installed(now)

    def _enter(self, ring: Ring, verdict: Verdict) -> None:
        """Install a regular configuration."""
        install = Install(ring.config, ring.id.seq, ring.names, primary=verdict.is_primary, since=verdict.since)
        self.primary.install(verdict, install)

    def _hand_over_old(self, frames: Sequence[Frame], old: Ring, config: str) -> None:
        for frame in frames:
            if frame.service == CHANGE:
                self.drop("change: its configuration is over")
            elif frame.service != RECOVERED:
                self._hand_over(frame, old, config)

    def check(self) -> None:
        self.ring.check()
        self.turning.check()
        if self.ring.id.seq > self.ring_seq or self.turning.id.seq > self.ring_seq:
            raise BrokenInvariant(f"{self.me} is on ring {self.turning.config} and remembers {self.ring_seq}")
        if (self.circulation.rests is not None) > (self.membership.state is State.OPERATIONAL):
            raise BrokenInvariant(f"{self.me} lets a token rest while {self.membership.state.value}")
