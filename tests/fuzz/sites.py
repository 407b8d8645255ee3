"""A site of isis-1985 among hostile packets: it never raises, and its invariants hold after each of them.

An input is a list of steps, each a byte for what happens, one for to whom, the length of a payload and
the payload (`step` writes one). Site a has started and hears b and c. Payloads become packets: as they
are, as the body of a control message, or as a view message that comes next on a peer's channel.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any
from unittest.mock import patch

from covey.isis import links
from covey.isis.links import APPLICATION, VIEWS, LinkOptions
from covey.isis.messages import (
    CODEC,
    COUNT_MAX,
    HELLO,
    NO_ROUND,
    NOTHING,
    RECEIPT,
    SEGMENT,
    SEGMENT_HEADER,
    VIEW_MESSAGE,
    YOU_ARE_DEAD,
    Ack,
    Commit,
    Extension,
    Hello,
    Nack,
    Propose,
    Receipt,
    Round,
    Standing,
    View,
    YouAreDead,
    encode,
)
from covey.isis.sites import Outgoing, Sites
from covey.kernel.effects import Append, Deliver, Effect, Halt, Send, Store
from covey.kernel.engine import Surroundings
from covey.kernel.ids import ProcessId
from covey.kernel.storage import next_incarnation, provision
from covey.kernel.wire import Packet, header, pack_messages, unpack_messages
from covey.sim.disk import Disk
from tests.fuzz import fuzz

NAMES = ["a", "b", "c"]
SENDERS = [
    ProcessId("b", 1),
    ProcessId("c", 1),
    ProcessId("b", 2),
    ProcessId("d", 1),
    ProcessId("a", 1),
    ProcessId("a", 9),
]
CONTROLS = [HELLO, RECEIPT, YOU_ARE_DEAD]
EFFECTS_MAX = 200
"""Of one input: nothing that a peer can send makes more work than some packets for each peer."""


class Bench:
    """Site a, its disk and its clock, and what its peers would need to keep it believing that they live."""

    def __init__(self) -> None:
        self.now = 1.0
        self.disk = Disk()
        provision(self.disk, "a", "the disk")
        self.start()
        for sender in SENDERS[:2]:
            self.hello(sender, -1)

    def start(self) -> None:
        """Begin the next incarnation with what the one before left on the disk."""
        me = next_incarnation(self.disk, str, "the disk")
        around = Surroundings(me, "a", self.disk, Random(1))
        self.site = Sites(around, NAMES, NAMES, LinkOptions())
        self.site.start(self.now)
        self.drain()
        self.wake()

    def receive(self, sender: ProcessId, packet: bytes) -> None:
        self.site.receive(self.now, sender.name, packet)
        self.drain()

    def hello(self, sender: ProcessId, view: int) -> None:
        """What a peer that hears this site would say now."""
        self.receive(sender, CODEC.control(sender, Hello(self.now, self.now, 0.0, self.site.me, view)))

    def segment(self, sender: ProcessId, port: int, *messages: bytes) -> None:
        """The next segment of that sender."""
        peer = self.site.links.peers.get(sender.name)
        number = 1 if peer is None else peer.channels[port].received_upto + 1
        self.receive(sender, segment(sender, self.site.me, number, port, *messages))

    def wake(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.site.wake(self.now)
        self.drain()

    def drain(self) -> None:
        """Carry out the effects, as far as one site alone can, and look at what it sends."""
        self.site.check()
        effects = self.site.take()
        assert len(effects) <= EFFECTS_MAX
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
            case Deliver(origin, _, messages):
                assert messages
                assert origin != self.site.me
            case Send(_, packet):
                self.disk.flush()
                understand(packet)


def understand(packet: bytes) -> None:
    """What a site sends is understood by another, whatever it was fed."""
    parsed = CODEC.decode(packet)
    assert isinstance(parsed, Packet)
    if parsed.kind == SEGMENT:
        _, port, _, length = SEGMENT_HEADER.unpack_from(parsed.body)
        messages = unpack_messages(parsed.body, SEGMENT_HEADER.size + length)
        assert messages
        for message in messages if port == VIEWS else ():
            VIEW_MESSAGE.decode(message)


def segment(sender: ProcessId, to: ProcessId, number: int, port: int, *messages: bytes) -> bytes:
    name = to.name.encode()
    head = SEGMENT_HEADER.pack(number, port, to.incarnation, len(name))
    return header(SEGMENT, sender) + head + name + pack_messages(messages)


# --- the steps

Step = Callable[[Bench, int, bytes], None]


def sender_of(how: int) -> ProcessId:
    return SENDERS[how % len(SENDERS)]


def raw(bench: Bench, how: int, payload: bytes) -> None:
    bench.receive(sender_of(how), payload)


def control(bench: Bench, how: int, payload: bytes) -> None:
    sender = sender_of(how)
    bench.receive(sender, header(CONTROLS[how // len(SENDERS) % 3], sender) + payload)


def view_message(bench: Bench, how: int, payload: bytes) -> None:
    bench.segment(sender_of(how), VIEWS, payload)


def said(bench: Bench, how: int, payload: bytes) -> None:
    """A view message made of small numbers: of sites, rounds and views that there are, or could be."""
    numbers = iter(payload + bytes(99))
    sites = [bench.site.me, *SENDERS, ProcessId("", 0)]

    def pick(several: Sequence[Any]) -> Any:
        return several[next(numbers) % len(several)]

    def term() -> tuple[int, ProcessId]:
        return pick((0, 1, 2, 3, 4, 5, COUNT_MAX)), pick(sites)

    def extension() -> object:
        first, step, masks = next(numbers) % 8, pick((1, 1, 1, 2)), [next(numbers) for _ in range(next(numbers) % 4)]
        members = [[pid for bit, pid in enumerate(sites) if mask >> bit & 1] for mask in masks]
        return term(), [(first + step * at, some) for at, some in enumerate(members)]

    def standing() -> object:
        return next(numbers) % 8 - 1, term()

    message = pick(
        (
            lambda: ("propose", extension(), term(), bool(next(numbers) % 2)),
            lambda: ("ack", term(), next(numbers) % 8 - 1, bool(next(numbers) % 2), standing()),
            lambda: ("nack", term(), term(), extension(), standing()),
            lambda: ("commit", term(), next(numbers) % 8),
        )
    )
    bench.segment(sender_of(how), VIEWS, encode(message()))


def application(bench: Bench, how: int, payload: bytes) -> None:
    bench.segment(sender_of(how), APPLICATION, payload)


def frame(bench: Bench, how: int, payload: bytes) -> None:
    bench.receive(sender_of(how), header(SEGMENT, sender_of(how)) + payload)


def time(bench: Bench, how: int, payload: bytes) -> None:
    bench.wake(how / 32)


def alive(bench: Bench, how: int, payload: bytes) -> None:
    """Time passes, and both peers are there."""
    for sender in SENDERS[:2]:
        bench.hello(sender, how % 16 - 1)
    bench.wake(0.25)


def crowd(bench: Bench, how: int, payload: bytes) -> None:
    """Strangers whom nobody expects, all at once; the payload counts their incarnations."""
    for number in range(how % 32):
        sender = ProcessId(f"stranger {number}", 1 + len(payload))
        bench.site.receive(bench.now, sender.name, CODEC.control(sender, Hello(bench.now, -1.0, 0.0, None, -1)))
    bench.drain()


def host(bench: Bench, how: int, payload: bytes) -> None:
    """What the host and the application may do."""
    match how % 8:
        case 0:
            bench.site.hint(bench.now, sender_of(how // 8).name)
        case 1:
            bench.now += how / 4
            bench.site.paused(bench.now, how / 4)
        case 2:
            bench.site.submit(bench.now, [Outgoing(sender_of(how // 8), payload)])
        case 3:
            bench.disk.crash(how / 256)
            bench.start()
        case 4:
            bench.site.leave(bench.now)
        case _:
            assert bench.site.room >= 0
    bench.drain()


STEPS: list[Step] = [raw, control, view_message, said, application, frame, time, alive, crowd, host]


@patch.multiple(links, PEERS_MAX=8, GRAVES_MAX=16)  # so that they are reached
def one_input(data: bytes) -> None:
    bench = Bench()
    for what, how, payload in steps(data):
        STEPS[what % len(STEPS)](bench, how, payload)
    bench.start()


def steps(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        what, how, size = data[at], data[at + 1], int.from_bytes(data[at + 2 : at + 4])
        yield what, how, data[at + 4 : at + 4 + size]
        at += 4 + size


def step(what: Step, how: int = 0, payload: bytes = b"") -> bytes:
    return bytes([STEPS.index(what), how]) + len(payload).to_bytes(2) + payload


# --- what it begins with

A, B, C = ProcessId("a", 1), *SENDERS[:2]
FIRST = View(0, (A, B, C))
SECOND = View(1, (A, B))
ROUND = Round(2, B)
MINE = Round(1, A)


def seeds() -> list[bytes]:
    first, both = Extension(ROUND, (FIRST,)), Extension(ROUND, (FIRST, SECOND))
    ready = [step(view_message, how, encode(Ack(MINE, -1, True, Standing(-1, MINE)))) for how in (0, 1)]
    managing = step(alive) * 4 + b"".join(ready)
    accepted = [step(view_message, how, encode(Ack(MINE, 0, False, Standing(-1, MINE)))) for how in (0, 1)]
    nack = Nack(MINE, MINE, NOTHING, Standing(-1, MINE))
    refusal = Nack(MINE, ROUND, first, Standing(0, ROUND))
    missing = Nack(Round(3, A), Round(3, A), both, Standing(1, ROUND))
    return [
        step(raw, 0, CODEC.control(B, Hello(2.0, 1.0, 0.1, A, 0))),
        step(raw, 0, CODEC.control(B, YouAreDead(A))),
        step(raw, 0, segment(B, A, 2, VIEWS, encode(Commit(ROUND, 0)), b"x")),
        step(control, 0, encode(Hello(2.0, -1.0, 0.0, None, -1, leaving=True))),
        step(control, 6, encode(Receipt(A, VIEWS, 1, 1))),
        step(control, 12, encode(YouAreDead(A))),
        step(view_message, 0, encode(Propose(NOTHING, ROUND, opening=True)))
        + step(view_message, 0, encode(Propose(first, ROUND, opening=False)))
        + step(view_message, 0, encode(Commit(ROUND, 0)))
        + step(view_message, 0, encode(Propose(both, ROUND, opening=False)))
        + step(view_message, 0, encode(Commit(ROUND, 1))),
        managing + b"".join(accepted) + step(alive, 1) * 2 + step(time, 255) + step(alive, 1),
        step(alive) * 4 + step(view_message, 0, encode(nack)) + ready[1] + b"".join(accepted),
        step(alive) * 4 + step(view_message, 0, encode(refusal)) + step(alive) * 12,
        step(alive) * 4
        + step(view_message, 0, encode(refusal))
        + step(alive) * 12
        + step(view_message, 0, encode(missing)),
        managing + step(host, 3) + step(alive) * 6,
        step(crowd, 9) + step(crowd, 9, b"2") + step(time, 255) * 9 + step(crowd, 31, b"33") + step(host, 4),
        step(application, 0, b"hello") + step(host, 2, b"hello") + step(time, 40) + step(host, 1) + step(host, 0),
        # proposed by b in its round 2: view 0 of a, b and c; committed; then view 1 without c
        step(said, 0, bytes((0, 0, 0, 1, 7, 2, 1, 2, 1, 0)))
        + step(said, 0, bytes((3, 2, 1, 0)))
        + step(said, 0, bytes((0, 0, 0, 2, 7, 3, 2, 1, 2, 1, 0)))
        + step(said, 0, bytes((3, 2, 1, 1))),
        step(alive) * 4
        + step(said, 0, bytes((1, 1, 0, 0, 1, 0, 1, 0)))
        + step(said, 1, bytes((1, 1, 0, 0, 1, 0, 1, 0))),
        step(frame, 0, SEGMENT_HEADER.pack(1, VIEWS, 1, 1) + b"a" + pack_messages([encode(Commit(NO_ROUND, 0))])),
    ]


if __name__ == "__main__":
    fuzz(seeds, one_input)
