"""A sealed host among hostile datagrams: each is counted or reaches the site inside, and neither ever fails.

An input is a list of steps, each a byte for what happens, one for how, the length of a payload and the payload
(`step` writes one). All enters where the socket would call; the host has met one other member, b, which seals some
of the payloads. What the host sends must be good enough for b.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import closing
from random import Random
from typing import Any
from unittest.mock import patch

from covey.isis.links import LinkOptions
from covey.isis.messages import (
    CODEC,
    HELLO,
    NOTHING,
    RECEIPT,
    SEGMENT,
    YOU_ARE_DEAD,
    Hello,
    Propose,
    Round,
    YouAreDead,
    encode,
)
from covey.isis.sites import Sites
from covey.kernel.engine import Surroundings
from covey.kernel.ids import ProcessId
from covey.kernel.storage import next_incarnation, provision
from covey.kernel.wire import header
from covey.net import life
from covey.net.addresses import Address, show_address
from covey.net.host import Host
from covey.net.keys import Key, Keys
from covey.net.life import Life
from covey.net.seal import Refused, Seals
from covey.sim.disk import Disk
from tests.fuzz import fuzz
from tests.fuzz.sites import segment, steps

KEYS = Keys((Key(bytes(32)), Key(bytes([1]) * 32)))
FOREIGN = Keys((Key(bytes([2]) * 32),))
A, B, C, STRANGER = (f"127.0.0.1:{port}" for port in range(7001, 7005))
SITES = [A, B, C]
ME, OTHER = ProcessId(A, 1), ProcessId(B, 1)
SOURCES = [B, STRANGER, A, C]
KINDS = [HELLO, RECEIPT, SEGMENT, YOU_ARE_DEAD]
SENT_MAX = 200
"""In one step: nothing that arrives makes more work than some datagrams for each site."""
FAULTS = {"short", "magic", "unsealed", "version", "key", "kind", "forged", "late", "sender"}
"""What b must not find of a datagram that the host sent it."""


class Wire:
    """A port without a socket: it gives what the fuzzer wrote, and keeps what is sent."""

    def __init__(self) -> None:
        self.drops: Counter[str] = Counter()
        self.group = None
        self.is_loaded = False
        self.on_readable: Callable[[], None] | None = None
        self.arrived: list[tuple[str, bytes]] = []
        self.refused: list[str] = []
        self.sent: list[tuple[str, bytes]] = []

    def listen(self, loop: asyncio.AbstractEventLoop, on_readable: Callable[[], None]) -> None:
        self.on_readable = on_readable

    def rest(self) -> None:
        self.on_readable = None

    def close(self) -> None: ...

    def receive(self) -> list[tuple[str, bytes]]:
        arrived, self.arrived = self.arrived, []
        return arrived

    def refusals(self) -> list[str]:
        refused, self.refused = self.refused, []
        return refused

    def put(self, to: Address, datagram: bytes) -> None:
        self.sent.append((show_address(to), datagram))

    def flush(self) -> None: ...


class Loop(asyncio.SelectorEventLoop):
    """A loop whose threads are done at once."""

    def run_in_executor(self, executor: Executor | None, work: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        done = self.create_future()
        done.set_result(work(*args))
        return done


class Site(Sites):
    """A site that counts what reaches it."""

    received = 0

    def receive(self, now: float, source: str, packet: bytes) -> None:
        self.received += 1
        super().receive(now, source, packet)


class Bench:
    """The host, its clock, and the other member."""

    def __init__(self) -> None:
        self.now = 1.0
        self.wire = Wire()
        disk = Disk()
        provision(disk, A, A)
        me = next_incarnation(disk, str, A)
        self.site = Site(Surroundings(me, A, disk, Random(1)), SITES, SITES, LinkOptions())
        host = Host(lambda around, addresses: self.site, A, SITES, disk, None, KEYS)
        self.life = Life(host, me, self.site, self.wire, Seals(KEYS, me, bytes(16)), 0.0, host.peers)  # type: ignore[arg-type]
        self.b = Seals(KEYS, OTHER, bytes([1]) * 16)
        self.said: list[bytes] = []

    async def begin(self) -> None:
        with patch.object(life, "TICK_S", 3600.0):
            self.life.start()
        await self.settle()
        for _ in range(3):  # b is challenged and answers, then it is heard
            await self.hello()

    @property
    def is_over(self) -> bool:
        return self.life.is_over

    async def hello(self) -> None:
        """What b would say now."""
        now = self.now
        await self.seal(CODEC.control(OTHER, Hello(now, now, 0.0, ME, self.site.memory.number)))

    async def seal(self, packet: bytes) -> None:
        self.said.append(self.b.seal(packet))
        await self.arrive(self.said[-1], B)

    async def arrive(self, datagram: bytes, source: str) -> None:
        """Datagrams wait in the kernel while the disk writes."""
        self.wire.arrived.append((source, datagram))
        if self.wire.on_readable is not None:
            self.wire.on_readable()
        await self.settle()

    async def settle(self) -> None:
        """Let the disk be written; then look at what came of it all."""
        while self.life.is_writing:  # noqa: ASYNC110
            await asyncio.sleep(0)
        if self.life.ended.done():
            self.life.ended.result()  # raises what the host was ended by
        self.site.check()
        if not self.is_over:
            refused = sum(count for why, count in self.wire.drops.items() if why.startswith("refused: "))
            assert self.life.received == self.site.received + refused
        await self.hear()

    async def hear(self) -> None:
        """B opens what it is sent, and answers a challenge."""
        sent, self.wire.sent = self.wire.sent, []
        assert len(sent) <= SENT_MAX
        for to, datagram in sent:
            if to == B and isinstance(found := self.b.open(datagram, A, self.now), Refused):
                assert found.reason not in FAULTS, found
        replies, self.b.replies = self.b.replies, []
        for _, datagram in replies:
            self.said.append(datagram)
            await self.arrive(datagram, B)


# --- the steps

Step = Callable[[Bench, int, bytes], Coroutine[Any, Any, None]]


async def raw(bench: Bench, how: int, payload: bytes) -> None:
    await bench.arrive(payload, SOURCES[how % len(SOURCES)])


async def sealed(bench: Bench, how: int, payload: bytes) -> None:
    await bench.seal(payload)


async def packet(bench: Bench, how: int, payload: bytes) -> None:
    await bench.seal(header(KINDS[how % len(KINDS)], OTHER) + payload)


async def damaged(bench: Bench, how: int, payload: bytes) -> None:
    """The payload is laid over something that was said before, from some byte on."""
    said = bytearray(bench.said[-1 - how % len(bench.said)])
    at = payload[0] % len(said) if payload else 0
    said[at : at + len(payload[1:])] = payload[1:]
    await bench.arrive(bytes(said), B)


async def cut(bench: Bench, how: int, payload: bytes) -> None:
    said = bench.said[-1 - len(payload) % len(bench.said)]
    await bench.arrive(said[:how], B)


async def replayed(bench: Bench, how: int, payload: bytes) -> None:
    await bench.arrive(bench.said[how % len(bench.said)], SOURCES[len(payload) % len(SOURCES)])


async def hello(bench: Bench, how: int, payload: bytes) -> None:
    await bench.hello()


async def time(bench: Bench, how: int, payload: bytes) -> None:
    bench.now += how / 64
    bench.life._on_timer()
    await bench.settle()


async def refusal(bench: Bench, how: int, payload: bytes) -> None:
    bench.wire.refused.append(SOURCES[how % len(SOURCES)])
    await bench.arrive(payload, STRANGER)


STEPS: list[Step] = [raw, sealed, packet, damaged, cut, replayed, hello, time, refusal]


def one_input(data: bytes) -> None:
    with closing(Loop()) as loop:
        loop.run_until_complete(play(data))


async def play(data: bytes) -> None:
    bench: Bench | None = None
    with patch.object(life, "boottime", lambda: 1.0 if bench is None else bench.now):
        bench = Bench()
        await bench.begin()
        for what, how, payload in steps(data):
            if bench.is_over:
                break
            await STEPS[what % len(STEPS)](bench, how, payload)


def step(what: Step, how: int = 0, payload: bytes = b"") -> bytes:
    return bytes([STEPS.index(what), how]) + len(payload).to_bytes(2) + payload


# --- what it begins with


def seeds() -> list[bytes]:
    foreign = Seals(FOREIGN, OTHER, bytes(16)).seal(header(HELLO, OTHER))
    round_ = Round(2, OTHER)
    proposal = encode(Propose(NOTHING, round_, opening=True))
    return [
        step(raw, 0, foreign) + step(raw, 1, b"") + step(raw, 2, header(HELLO, OTHER) + b"hello"),
        step(packet, 0, encode(Hello(2.0, 1.0, 0.1, ME, 0))) + step(time, 16) * 4,
        step(sealed, 0, CODEC.control(OTHER, YouAreDead(ME))),
        step(sealed, 0, segment(OTHER, ME, 1, 0, proposal)) + step(hello) + step(time, 9),
        (step(hello) + step(time, 16)) * 9 + step(damaged, 0, b"\x30changed") + step(damaged, 3, b"\0cs\2"),
        step(cut, 7) + step(cut, 40, b"1") + step(cut, 79, b"22") + step(replayed, 0) + step(replayed, 1, b"1"),
        step(refusal, 0) + step(time, 255) + step(hello) + step(refusal, 3, b"x"),
    ]


if __name__ == "__main__":
    fuzz(seeds, one_input)
