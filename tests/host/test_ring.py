"""A ring on real sockets, through a partition and a merge: it keeps what the simulated ones do.

The traces of all three hosts are judged together, by the same judge as the simulator's.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from covey.evs.engine import Evs
from covey.kernel.effects import Deliver, Install
from covey.kernel.engine import Surroundings
from covey.kernel.storage import provision
from covey.net.host import Host
from covey.sim.disk import Disk
from covey.trace import MemorySink, Recorder
from tests.evs.judge import judge
from tests.host.things import free_addresses, running, until

NAMES = ("a", "b", "c")
SERVICES = ("causal", "agreed", "safe")


class Member:
    """A host on a ring, and what its application was told."""

    def __init__(self, name: str, address: str, peers: Sequence[str], recorder: Recorder) -> None:
        disk = Disk()
        provision(disk, name, f"the disk of {name}")
        self.name = name
        self.told: list[Deliver | Install] = []
        self.host = Host(self.build, address, peers, disk, recorder, on_effect=self.told.append, run="ring")

    def build(self, around: Surroundings, addresses: Sequence[str]) -> Evs:
        return Evs(around, addresses, NAMES, frame_bytes=200)

    @property
    def members(self) -> tuple[str, ...]:
        return [effect for effect in self.told if isinstance(effect, Install)][-1].members

    @property
    def delivered(self) -> list[bytes]:
        return [message for effect in self.told if isinstance(effect, Deliver) for message in effect.messages]

    def send(self, count: int) -> None:
        for number in range(count):
            life = self.host.life
            assert life is not None
            service = SERVICES[number % len(SERVICES)]
            assert self.host.submit([f"{self.name} {number}".encode()], service) == 1


async def through_a_partition(recorder: Recorder) -> list[Member]:
    addresses = free_addresses(len(NAMES))
    ring = [Member(name, address, addresses, recorder) for name, address in zip(NAMES, addresses, strict=True)]
    a, b, c = ring
    async with AsyncExitStack() as stack:
        for member in ring:
            await stack.enter_async_context(running(member.host))
        await until(lambda: all(member.members == NAMES for member in ring), "they form one configuration")
        for member in ring:
            member.send(60)
        await until(lambda: all(len(member.delivered) == 180 for member in ring), "all is delivered to all")
        assert a.delivered == b.delivered == c.delivered
        c.host.cut_off(addresses[:2])
        for member in ring:
            member.send(20)
        await until(lambda: (a.members, b.members, c.members) == (("a", "b"), ("a", "b"), ("c",)), "they part")
        await until(lambda: len(c.delivered) >= 200 and len(a.delivered) >= 220, "each delivers its own")
        c.host.cut_off(())
        await until(lambda: all(member.members == NAMES for member in ring), "they merge")
        c.send(10)
        await until(lambda: all(member.delivered[-1] == b"c 9" for member in ring), "the last message is everywhere")
    return ring


def test_a_ring_on_real_sockets_keeps_what_the_model_promises() -> None:
    sink = MemorySink()
    recorder = Recorder(sink)
    recorder.header("ring", "evs")
    asyncio.run(through_a_partition(recorder))
    rows: list[dict[str, Any]] = sink.rows
    assert judge(rows) == []
