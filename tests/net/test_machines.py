"""The host between machines, as loopback does not show it: multicast on a switch, short packets, the unreachable."""

import asyncio
import select
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from typing import Any

import pytest

from covey.kernel.effects import Cast, Send
from covey.kernel.wire import header
from covey.net.host import Host
from covey.net.keys import Key, Keys
from covey.net.sockets import Port
from tests.host.things import WAIT_S, make, probe, running, until
from tests.net.lab import Lab

pytestmark = pytest.mark.net

PORT = 7700
NOBODY = "10.77.0.99"
KEYS = Keys((Key(b"k" * 32),))


@asynccontextmanager
async def probes(lab: Lab, **more: Any) -> AsyncIterator[list[Host]]:
    """A host on each machine; none knows the address of another."""
    hosts = [make(f"{lab.address(name)}:{PORT}", keys=KEYS, **more) for name in lab.hosts]
    async with AsyncExitStack() as stack:
        for name, host in zip(lab.hosts, hosts, strict=True):
            with lab.inside(name):
                await stack.enter_async_context(running(host))
        yield hosts


async def prove(first: Host, others: list[Host], effects: list[Send] | list[Cast]) -> None:
    """Send these until the first one has proven to all others that it lives."""

    def heard() -> bool:
        first.submit(effects)
        return all(probe(host).packets for host in others)

    await until(heard, "all have heard the first")


def packet(host: Host, body: bytes) -> bytes:
    assert host.life is not None
    return header(1, host.life.pid) + body


async def arrive(packets: list[bytes], host: Host) -> None:
    await until(lambda: packets[-1] in probe(host).packets, "the last one has arrived")
    assert probe(host).packets[-len(packets) :] == packets


def test_a_cast_to_a_multicast_group_reaches_every_machine_in_one_datagram(lab: Lab) -> None:
    async def main() -> None:
        async with probes(lab, group="239.77.7.7:7701") as (first, *others):
            await prove(first, others, [Cast(packet(first, b"hello"))])
            before = first.stats()["sent datagrams"]
            packets = [packet(first, b"%d" % number) for number in range(20)]
            first.submit([Cast(each) for each in packets])
            assert first.stats()["sent datagrams"] == before + 20
            for host in others:
                await arrive(packets, host)
            assert probe(first).packets == []

    asyncio.run(main())


@pytest.mark.parametrize("lab", ["ab"], indirect=True)
@pytest.mark.parametrize("offload", [True, False], ids=["offload", "plain"])
def test_packets_longer_than_the_network_takes_arrive_whole_and_in_order(lab: Lab, offload: bool) -> None:
    async def main() -> None:
        async with probes(lab, offload=offload) as (a, b):
            await prove(a, [b], [Send(b.address, packet(a, b"hello"))])
            sizes = [*[100] * 300, *[1400] * 100, *[1500] * 3, *[9000] * 6, 60_000, 7, *[2000] * 3, 1]
            packets = [packet(a, number.to_bytes(2) + bytes(size)) for number, size in enumerate(sizes)]
            a.submit([Send(b.address, each) for each in packets])
            await arrive(packets, b)
            assert a.stats()["sent calls"] < len(packets) / 2 or not offload
            assert not any(name.startswith(("dropped: send", "dropped: socket")) for name in a.stats())

    asyncio.run(main())


@pytest.mark.parametrize("lab", ["ab"], indirect=True)
def test_a_port_that_refuses_packets_is_hinted_at_from_another_machine(lab: Lab) -> None:
    async def main() -> None:
        async with probes(lab) as (a, _):
            nobody = f"{lab.address('b')}:{PORT + 1}"
            a.submit([Send(nobody, packet(a, b"hello"))])
            await until(lambda: "hint" in probe(a).names, "the port has refused")
            assert [call[2] for call in probe(a).calls if call[0] == "hint"] == [nobody]

    asyncio.run(main())


def test_a_machine_that_is_not_there_costs_no_packet_to_another(lab: Lab) -> None:
    """What the kernel has to say about it comes seconds later, in place of an answer to another call."""
    with lab.inside("a"):
        port = Port((lab.address("a"), PORT))
    poll = select.poll()
    poll.register(port._socket, 0)
    with closing(port), lab.udp("b", PORT) as inbox:
        port.put((NOBODY, PORT), b"x")
        port.flush()
        assert poll.poll(1000 * WAIT_S), "the kernel has given it up"
        port.put(inbox.getsockname(), b"hello")
        port.flush()
        assert inbox.recv(100) == b"hello"
        assert port.refusals() == []
        assert port.drops == {"sent, but came back: EHOSTUNREACH": 1}
