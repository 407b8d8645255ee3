"""The host between machines, as loopback does not show it: multicast on a switch, short packets, the unreachable."""

import asyncio
import select
from contextlib import AsyncExitStack

import pytest

from covey.kernel.effects import Cast
from covey.kernel.wire import header
from covey.net.host import Host
from covey.net.keys import Key, Keys
from covey.net.sockets import Port
from tests.host.things import WAIT_S, make, probe, running, until
from tests.net.lab import Lab

pytestmark = pytest.mark.net

NOBODY = "10.77.0.99"
KEYS = Keys((Key(b"k" * 32),))


def packet(host: Host, body: bytes) -> bytes:
    assert host.life is not None
    return header(1, host.life.pid) + body


def test_a_machine_that_is_not_there_costs_no_packet_to_another(lab: Lab) -> None:
    """What the kernel has to say about it comes seconds later, in place of an answer to another call."""
    with lab.inside("a"):
        port = Port((lab.address("a"), 7700))
    poll = select.poll()
    poll.register(port._socket, 0)
    with lab.udp("b", 7700) as inbox:
        port.put((NOBODY, 7700), b"x")
        port.flush()
        assert poll.poll(1000 * WAIT_S), "the kernel has given it up"
        port.put(inbox.getsockname(), b"hello")
        port.flush()
        assert inbox.recv(100) == b"hello"
    assert port.refusals() == []
    assert port.drops == {"sent: EHOSTUNREACH": 1}
    port.close()


def test_a_cast_to_a_multicast_group_reaches_every_machine_in_one_datagram(lab: Lab) -> None:
    """The hosts know no address of each other: without multicast nothing would arrive."""

    async def main() -> None:
        hosts = [make(f"{lab.address(name)}:7700", keys=KEYS, group="239.77.7.7:7701") for name in lab.hosts]
        async with AsyncExitStack() as stack:
            for name, host in zip(lab.hosts, hosts, strict=True):
                with lab.inside(name):
                    await stack.enter_async_context(running(host))
            first, *others = hosts

            def heard() -> bool:
                first.submit([Cast(packet(first, b"hello"))])
                return all(probe(host).packets for host in others)

            await until(heard, "all have proof that it lives")
            before = first.stats()["sent datagrams"]
            packets = [packet(first, b"%d" % number) for number in range(20)]
            first.submit([Cast(each) for each in packets])
            assert first.stats()["sent datagrams"] == before + 20
            for host in others:
                await until(lambda host=host: packets[-1] in probe(host).packets, "the last one has arrived")
                assert probe(host).packets[-20:] == packets
            assert probe(first).packets == []

    asyncio.run(main())
