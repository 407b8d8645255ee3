"""The asyncio host keeps the duties of a host (`covey.kernel.engine`), on real sockets."""

import asyncio
import socket

import pytest

from covey.kernel.effects import Cast, Effect, Send
from covey.kernel.errors import MisuseError, WorldError
from covey.net.host import Host
from covey.net.plain import Refused
from tests.host.things import free_addresses, make, probe, running, until

# ---- packets ----


async def pass_between(host: Host, other: Host, packets: list[bytes]) -> None:
    host.submit([Send(other.address, packet) for packet in packets])
    await until(lambda: len(probe(other).packets) >= len(packets), "all have arrived")
    assert probe(other).packets == packets
    assert {call[2] for call in probe(other).calls if call[0] == "receive"} == {host.address}


@pytest.mark.parametrize("offload", [True, False], ids=["offload", "plain"])
def test_packets_of_all_sizes_arrive_in_order_and_name_their_source(offload: bool) -> None:
    async def main() -> None:
        a, b = make(offload=offload), make(offload=offload)
        async with running(a), running(b):
            sizes = [*[100] * 300, 99, 100, 0, 0, 5, 65507, 1, *[1400] * 100, 1399]
            await pass_between(a, b, [bytes([number % 251]) * size for number, size in enumerate(sizes)])

    asyncio.run(main())


def test_trains_take_fewer_calls_than_they_have_packets() -> None:
    async def main() -> int:
        a, b = make(), make()
        async with running(a), running(b):
            await pass_between(a, b, [bytes(100)] * 256)
            return int(a.stats()["sent calls"])

    assert asyncio.run(main()) == 2


@pytest.mark.parametrize("group", [None, "239.77.7.7:0"], ids=["unicast", "multicast"])
def test_a_cast_reaches_everybody_but_its_sender(group: str | None) -> None:
    addresses = free_addresses(4)
    if group is not None:
        group = group.replace(":0", ":" + addresses.pop().rpartition(":")[2])

    async def main() -> None:
        hosts = [make(address, addresses[:3], group=group) for address in addresses[:3]]
        async with running(hosts[0]), running(hosts[1]), running(hosts[2]):
            hosts[0].submit([Cast(b"1"), Cast(b"2"), Send(addresses[0], b"end")])
            for host in hosts[1:]:
                await until(lambda host=host: probe(host).packets == [b"1", b"2"], "both copies have arrived")
            await until(lambda: probe(hosts[0]).packets, "its own packet has arrived")
            assert probe(hosts[0]).packets == [b"end"]

    asyncio.run(main())


def test_a_port_that_refuses_packets_is_hinted_at() -> None:
    (nobody,) = free_addresses(1)

    async def main() -> None:
        host = make()
        async with running(host):
            host.submit([Send(nobody, b"hello")] * 3)
            await until(lambda: "hint" in probe(host).names, "the port has refused")
            assert {call[2] for call in probe(host).calls if call[0] == "hint"} == {nobody}

    asyncio.run(main())


def test_after_a_refusal_no_packet_to_others_is_lost() -> None:
    (nobody,) = free_addresses(1)

    async def main() -> None:
        a, b = make(), make()
        async with running(a), running(b):
            packets = [b"%d" % number for number in range(50)]
            for packet in packets:
                a.submit([Send(nobody, b"hello"), Send(b.address, packet)])
            await until(lambda: len(probe(b).packets) == 50, "all have arrived")
            assert probe(b).packets == packets

    asyncio.run(main())


@pytest.mark.parametrize(
    ("effect", "name"),
    [
        (Send("127.0.0.1:9", bytes(65508)), "dropped: send: too large"),
        (Send("example.org:80", b"x"), "dropped: send: no such address"),
        (Send("127.0.0.1:99999", b"x"), "dropped: send: no such address"),
        (Send("127.0.0.1:0", b"x"), "dropped: send: EINVAL"),
    ],
)
def test_what_cannot_be_sent_is_counted_by_name(effect: Effect, name: str) -> None:
    async def main() -> None:
        host = make()
        async with running(host) as task:
            host.submit([effect])
            assert host.stats()[name] == 1
            assert not task.done()

    asyncio.run(main())


class Picky:
    """Refuses what begins with x, and answers it."""

    def __init__(self) -> None:
        self.replies: list[tuple[str, bytes]] = []

    def open(self, datagram: bytes, source: str, now: float) -> bytes | Refused:
        if not datagram.startswith(b"x"):
            return datagram[1:]
        self.replies.append((source, b"!no"))
        return Refused("begins with x")

    def seal(self, packet: bytes) -> bytes:
        return b"!" + packet


def test_what_a_seal_refuses_is_counted_and_answered_and_reaches_no_engine() -> None:
    async def main() -> None:
        host, other = make(seals=Picky()), make()
        async with running(host), running(other):
            other.submit([Send(host.address, b"x1"), Send(host.address, b"?2")])
            await until(lambda: probe(other).packets, "it has been answered")
            await until(lambda: probe(host).packets, "the other one has arrived")
            assert probe(host).packets == [b"2"]
            assert probe(other).packets == [b"!no"]
            assert host.stats()["dropped: refused: begins with x"] == 1

    asyncio.run(main())


# ---- where ----


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("10.0.0.1:7700", "covey key new"),
        ("0.0.0.0:7700", "all addresses of this machine"),
        ("localhost:7700", "not a numeric IPv4 address"),
        ("127.0.0.1", "not a numeric IPv4 address"),
    ],
)
def test_an_address_that_cannot_be_is_refused_with_what_to_do(address: str, what: str) -> None:
    with pytest.raises(MisuseError, match=what):
        make(address)


def test_a_group_that_is_none_is_refused() -> None:
    with pytest.raises(MisuseError, match="no multicast group"):
        make(group="127.0.0.1:7700")


def test_with_seals_any_address_is_allowed() -> None:
    assert make("10.0.0.1:7700", seals=Picky()).address == "10.0.0.1:7700"


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(WorldError, match="another process does already"):
            asyncio.run(make(f"127.0.0.1:{taken.getsockname()[1]}").run())
