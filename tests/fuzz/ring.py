"""A process of a ring among hostile packets: it never raises, its invariants hold, and it keeps only so much.

An input is a list of steps, each a byte for what happens, one for how, the length of a payload and the payload
(`step` writes one). Process b has started, and others may be at a, c and d. Payloads become packets: as they are, as
the body of a control message, as a frame of b's ring, or as the numbers that a message is made of. And the others may
do their part, so that b gets into every state.
"""

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from random import Random
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from covey.evs import engine as engine_module
from covey.evs.circulation import HOLD_S
from covey.evs.engine import Evs
from covey.evs.membership import State
from covey.evs.messages import (
    CHANGE,
    CODEC,
    COUNT_MAX,
    FRAME,
    MEMBERS_MAX,
    RECOVERED,
    RING_MAX,
    SERVICES,
    Ack,
    Commit,
    Info,
    Join,
    Leave,
    Probe,
    Range,
    RingId,
    RingMessage,
    Seat,
    Token,
    Want,
    pack_frame,
    read_ring,
    tell,
)
from covey.evs.primary import Component, Standing
from covey.evs.ring import UNSAFE_MAX, WINDOW
from covey.kernel.effects import Append, Cast, Deliver, Effect, Halt, Send, Store
from covey.kernel.engine import Surroundings
from covey.kernel.errors import MisuseError
from covey.kernel.ids import ProcessId
from covey.kernel.storage import next_incarnation, provision
from covey.kernel.wire import Packet, header, pack_messages
from covey.sim.disk import Disk
from tests.fuzz import fuzz

NAMES = ["a", "b", "c"]
A, C = ProcessId("a", 1), ProcessId("c", 1)
SENDERS = [A, C, ProcessId("a", 2), ProcessId("d", 1), ProcessId("b", 1), ProcessId("b", 9)]
CONTROLS: list[type[Any]] = [Token, Ack, Want, Join, Probe, Leave, Commit]
KINDS = {Token: 33, Ack: 34, Want: 35, Join: 36, Probe: 37, Commit: 38, Leave: 39}
EFFECTS_MAX = 2 * UNSAFE_MAX
"""Of one input: all frames that wait may become safe at once."""
SERVICE_MAX = CHANGE


class Bench:
    """Process b, its disk and its clock."""

    def __init__(self) -> None:
        self.now = 1.0
        self.disk = Disk()
        provision(self.disk, "b", "the disk")
        self.states: set[State] = set()
        self.passed: RingMessage | None = None
        """The token or commit token that b passed on last."""
        self.start()

    def start(self) -> None:
        """Begin the next incarnation with what the one before left on the disk."""
        me = next_incarnation(self.disk, str, "the disk")
        self.engine = Evs(Surroundings(me, "b", self.disk, Random(1)), NAMES, NAMES, frame_bytes=16)
        self.engine.start(self.now)
        self.drain()
        self.wake()

    def receive(self, sender: ProcessId, packet: bytes) -> None:
        self.engine.receive(self.now, sender.name, packet)
        self.drain()

    def hear(self, sender: ProcessId, message: RingMessage) -> None:
        self.receive(sender, CODEC.control(sender, message))

    def hear_made(self, sender: ProcessId, make: Callable[[], RingMessage]) -> None:
        """Hear a message, if such a one can be made at all."""
        try:
            made = make()
        except ValueError:
            return
        self.hear(sender, made)

    def wake(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.engine.wake(self.now)
        self.drain()

    def drain(self) -> None:
        """Carry out the effects, as far as one process alone can, and look at what it sends and keeps."""
        engine = self.engine
        engine.check()
        self.states.add(engine.membership.state)
        effects = engine.take()
        assert len(effects) <= EFFECTS_MAX
        assert len(engine.ring.frames) <= UNSAFE_MAX
        assert len(engine.turning.frames) <= UNSAFE_MAX
        assert len(engine.addresses) <= engine_module.ADDRESSES_MAX
        assert len(engine.met) <= engine_module.ADDRESSES_MAX
        assert len(engine.membership.strangers) <= MEMBERS_MAX
        assert len(engine.membership.gathering.heard) <= MEMBERS_MAX
        for effect in effects:
            if isinstance(effect, Halt):
                self.disk.flush()
                self.start()
                return
            self.act(effect)

    def act(self, effect: Effect) -> None:
        match effect:
            case Store(key, value):
                self.disk.put(key, value)
            case Append(record):
                self.disk.append(record)
            case Deliver(_, number, messages):
                assert messages
                assert 0 <= number <= COUNT_MAX
            case Send(_, packet) | Cast(packet):
                self.disk.flush()
                self.understand(packet)

    def understand(self, packet: bytes) -> None:
        """What a process sends is understood by another, whatever it was fed."""
        parsed = CODEC.decode(packet)
        if isinstance(parsed, Packet) and isinstance(parsed.body, Token | Commit):
            self.passed = parsed.body
        if self.engine.ring_seq > RING_MAX - 4:
            return  # no number is left: the others do not hear it any more
        assert isinstance(parsed, Packet), parsed
        assert parsed.kind != FRAME or read_ring(parsed.body) is not None

    @property
    def others(self) -> list[ProcessId]:
        """The other members of the ring that b is on, or forms."""
        return [pid for pid in self.engine.turning.members if pid != self.engine.me]


# --- the steps

Step = Callable[[Bench, int, bytes], None]


def sender_of(how: int) -> ProcessId:
    return SENDERS[how % len(SENDERS)]


def raw(bench: Bench, how: int, payload: bytes) -> None:
    bench.receive(sender_of(how), payload)


def control(bench: Bench, how: int, payload: bytes) -> None:
    sender = sender_of(how)
    kind = KINDS[CONTROLS[how // len(SENDERS) % len(CONTROLS)]]
    bench.receive(sender, header(kind, sender) + payload)


def frame(bench: Bench, how: int, payload: bytes) -> None:
    """Of the ring that goes round now: its fixed part is as b knows it, or begins with the payload."""
    sender = sender_of(how)
    bench.receive(sender, header(FRAME, sender) + bench.engine.turning.bytes + payload)


class Numbers:
    """Small numbers, and some that are wrong, out of a payload."""

    def __init__(self, bench: Bench, payload: bytes) -> None:
        self.bench = bench
        self.bytes = chain(payload, repeat(0))

    def next(self, below: int = 256) -> int:
        return next(self.bytes) % below

    def pick(self, *several: Any) -> Any:
        return several[self.next(len(several))]

    def near(self, number: int) -> int:
        """That number, or one near it, or none of the kind."""
        steps = (0, 0, 0, 1, 1, 2, -1, 5, WINDOW, UNSAFE_MAX, 2**20, COUNT_MAX)
        return min(max(0, number + self.pick(*steps)), COUNT_MAX)

    def ring(self) -> RingId:
        engine = self.bench.engine
        rings = (engine.turning.id, engine.turning.id, engine.ring.id, RingId(engine.ring_seq + 2, "a"))
        return self.pick(*rings, RingId(engine.ring_seq + 2, "b"), RingId(2, "d"), RingId(RING_MAX, "c"))

    def pids(self) -> tuple[ProcessId, ...]:
        several = sorted({self.bench.engine.me, *SENDERS, ProcessId("a" + 250 * "\u00e9", 1)})
        mask = self.next()
        return tuple(pid for bit, pid in enumerate(several) if mask >> bit & 1)

    def ranges(self, first: int) -> tuple[Range, ...]:
        found = []
        for _ in range(self.next(4)):
            first += 1 + self.next(3)
            last = first + self.next(3)
            found.append(Range(first, last))
            first = last + 1
        return tuple(found)

    def component(self) -> Component | None:
        if self.next(2):
            return None
        members = self.pick(("a",), ("a", "b"), ("a", "b", "c"))
        return Component(self.pick(0, 2, 4, 6, RING_MAX), self.pick("", "4.a"), members, ("a", "b", "c"), "a")

    def standing(self) -> Standing:
        last = self.component()
        try:
            return Standing(last, bool(self.next(2)) and last is not None, self.component())
        except ValueError:
            return Standing(last)

    def info(self, table: Any) -> tuple[Info, Any]:
        mine = self.bench.engine.ring
        aru = self.near(mine.aru)
        have = self.ranges(aru + 1)
        safe = min(aru, self.near(mine.safe))
        told, table = tell(self.standing(), table)
        obligations = tuple(pid.name for pid in self.pids())
        return Info(self.pick(mine.id, self.ring()), aru, have, safe, obligations, told), table


def message(bench: Bench, how: int, payload: bytes) -> None:
    """A message made of small numbers: of rings, processes and frames that there are, or could be."""
    numbers = Numbers(bench, payload)

    def token() -> RingMessage:
        ring = bench.engine.turning
        seq = numbers.near(max(ring.token_seq, ring.aru))
        aru = numbers.pick(seq, min(seq, ring.aru), 0)
        missing = tuple(each for each in numbers.ranges(aru) if each.last <= seq)
        lowered_by = numbers.pick("", "a", "b", "x")
        flow = numbers.next()
        return Token(
            numbers.ring(), numbers.near(ring.hop + 1), seq, aru, lowered_by, missing, flow, bool(numbers.next(2))
        )

    def commit() -> RingMessage:
        pids = numbers.pick(numbers.pids() or SENDERS[:1], bench.engine.membership.gathering.living)
        seats = tuple(Seat(pid, pid.name) for pid in pids)
        ring = RingId(numbers.pick(bench.engine.ring_seq + 2, RING_MAX, 2), pids[0].name)
        hop = numbers.next(8)
        infos: list[Info] = []
        table: Any = ()
        for _ in range(min(hop, len(seats))):
            each, table = numbers.info(table)
            infos.append(each)
        return Commit(ring, hop, seats, tuple(infos), table)

    made = (
        lambda: Join(numbers.pick(bench.engine.ring_seq, 0, RING_MAX), numbers.pids(), numbers.pids()),
        token,
        commit,
        lambda: Ack(numbers.ring(), numbers.near(bench.engine.turning.hop)),
        lambda: Want(numbers.ring()),
        lambda: Probe(numbers.ring()),
        lambda: Leave(numbers.ring()),
    )
    bench.hear_made(sender_of(how), made[how // len(SENDERS) % len(made)])


def made_frame(bench: Bench, how: int, payload: bytes) -> None:
    """A frame of the ring that goes round now, new or wrong; or one of the old ring in it."""
    numbers = Numbers(bench, payload)
    ring, old = bench.engine.turning, bench.engine.ring
    seq, origin, service = numbers.near(ring.aru + 1), numbers.next(4), numbers.next(SERVICE_MAX + 2)
    number = numbers.pick(1, 2, 0, 2**63)
    content = numbers.pick(
        pack_messages([b"x"]), pack_messages([b"x", b"y"]), pack_messages([]), b"", b"\x92\xa1a\xa1d"
    )
    if service == RECOVERED:
        content = pack_frame(old.bytes, numbers.near(old.aru + 1), numbers.next(4), numbers.next(6), 1, content).body
    packed = pack_frame(ring.bytes, seq, origin, service, number, content)
    bench.receive(sender_of(how), header(FRAME, sender_of(how)) + packed.body)


def agree(bench: Bench, how: int, payload: bytes) -> None:
    """Another says in a Join what b says."""
    gathering = bench.engine.membership.gathering
    if bench.engine.membership.state is not State.GATHER:
        bench.hear(sender_of(how), Probe(RingId(2, sender_of(how).name)))
    for pid in SENDERS[:4]:
        if bench.engine.membership.state is State.GATHER and pid in gathering.living:
            bench.hear(pid, bench.engine.membership.gathering.join(bench.engine.ring_seq))


def propose(bench: Bench, how: int, payload: bytes) -> None:
    """The representative proposes what was agreed upon; those before b tell something."""
    living = bench.engine.membership.gathering.living
    if bench.engine.membership.state is not State.GATHER:
        return
    seats = tuple(Seat(pid, pid.name) for pid in living)
    numbers = Numbers(bench, payload)
    infos: list[Info] = []
    table: Any = ()
    for _ in range(living.index(bench.engine.me)):
        each, table = numbers.info(table)
        infos.append(each)
    ring = RingId(bench.engine.ring_seq + 2, living[0].name)
    if infos and len({pid.name for pid in living}) == len(living):
        bench.hear_made(living[0], lambda: Commit(ring, len(infos), seats, tuple(infos), table))


def go_round(bench: Bench, how: int, payload: bytes) -> None:
    """What b passed on goes round, the others adding what they should, and comes to b again."""
    numbers = Numbers(bench, payload)
    ring, passed = bench.engine.turning, bench.passed
    if not bench.others or passed is None or passed.ring != ring.id:
        return
    last = ring.members[ring.place - 1]
    if isinstance(passed, Token):
        bench.hear(last, replace(passed, hop=passed.hop + len(bench.others), is_installed=bool(how % 2)))
    elif isinstance(passed, Commit):
        infos, table = list(passed.infos), passed.components
        while len(infos) < len(passed.seats):
            each, table = numbers.info(table)
            infos.append(each)
        hop = len(passed.seats) + ring.place
        bench.hear_made(last, lambda: replace(passed, hop=hop, infos=tuple(infos), components=table))


def time(bench: Bench, how: int, payload: bytes) -> None:
    bench.wake(how / 64)


def crowd(bench: Bench, how: int, payload: bytes) -> None:
    """Strangers whom nobody expects, all at once; the payload counts their incarnations."""
    for number in range(how % 32):
        sender = ProcessId(f"stranger {number}", 1 + len(payload))
        said: RingMessage = Join(0, (sender,), ()) if how & 32 else Probe(RingId(2, sender.name))
        bench.engine.receive(bench.now, sender.name, CODEC.control(sender, said))
    bench.drain()


def host(bench: Bench, how: int, payload: bytes) -> None:
    """What the host and the application may do."""
    match how % 8:
        case 0:
            bench.engine.hint(bench.now, sender_of(how // 8).name)
        case 1:
            bench.now += how / 4
            bench.engine.paused(bench.now, how / 4)
        case 2:
            bench.engine.submit(bench.now, [payload[:12]] * (1 + how // 16), SERVICES[how // 8 % 3])
        case 3:
            bench.disk.crash(how / 256)
            bench.start()
        case 4:
            bench.engine.leave(bench.now)
        case 5:
            bench.engine.meet(bench.now, [sender_of(how // 8).name, "nobody"])
        case 6:
            try:
                bench.engine.replace(bench.now, "c", "d")
            except MisuseError:
                bench.engine.drop("change: refused")
        case _:
            assert bench.engine.room >= 0
    bench.drain()


STEPS: list[Step] = [raw, control, frame, message, made_frame, agree, propose, go_round, time, crowd, host]


@patch.multiple(engine_module, ADDRESSES_MAX=100)  # so that it is reached
def one_input(data: bytes) -> None:
    run(data)


def run(data: bytes) -> Bench:
    bench = Bench()
    for what, how, payload in steps(data):
        STEPS[what % len(STEPS)](bench, how, payload)
    bench.start()
    return bench


def steps(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        what, how, size = data[at], data[at + 1], int.from_bytes(data[at + 2 : at + 4])
        yield what, how, data[at + 4 : at + 4 + size]
        at += 4 + size


def step(what: Step, how: int = 0, payload: bytes = b"") -> bytes:
    return bytes([STEPS.index(what), how]) + len(payload).to_bytes(2) + payload


# --- what it begins with


def seeds() -> list[bytes]:
    say = step(host, 2, b"hello") + step(host, 2 + 16, b"safe")
    with_a = step(agree, 0) + step(time, 5) + step(agree, 0) + step(propose, 0)
    with_c = step(agree, 1) + step(time, 5) + step(agree, 1)
    rounds = step(go_round) * 6
    return [
        step(raw, 0, CODEC.control(A, Join(4, (A, C), ()))) + step(raw, 1, CODEC.control(C, Probe(RingId(2, "c")))),
        step(control, 18, b"\x93\x02\x91\x92\xa1a\x01\x90") + step(time, 60) * 8,
        with_a + rounds + say + rounds + step(time, 80) + rounds,
        with_c + rounds + say + rounds + step(host, 4),
        with_c + rounds + say + step(made_frame, 1) + rounds + step(agree, 3) + step(time, 5) + step(agree, 1),
        with_a + rounds + step(made_frame, 0, bytes((0, 0, 3))) + with_a + rounds,
        with_a + step(go_round) + step(message, 6, bytes(20)) + rounds + step(host, 6),
        with_a + step(message, 3) + step(made_frame, 0, bytes((0, 0, 1))) + rounds + step(host, 1) + step(host, 5),
        with_c + step(time, 100) + step(time, 100) + step(host, 3) + with_c + rounds,
        with_c
        + rounds
        + step(host, 7)
        + step(host, 0)
        + with_a
        + step(crowd, 31)
        + step(crowd, 63)
        + step(time, 90) * 9,
        step(frame, 0, bytes(30))
        + with_c
        + rounds
        + step(frame, 1, bytes(30))
        + step(time, int(HOLD_S * 64) + 1)
        + rounds,
        b"".join(step(message, how, bytes((1, 2, 3))) for how in range(42)),
    ]


if __name__ == "__main__":
    fuzz(seeds, one_input)
