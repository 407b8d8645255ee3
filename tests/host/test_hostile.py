"""Three sealed sites at full load go on undisturbed while someone without the key does all that the network lets him.

He hears every datagram, and has a socket. He damages copies and has them overtake what they were made of, replays
what was accepted, and sends what was never any; what is on its way is reordered, too. A burst is counted before the
next one is sent, so that the counts are exact.
"""

import asyncio
import socket
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import pytest

from covey.isis.links import LinkOptions
from covey.isis.sites import Outgoing, Sites
from covey.kernel.effects import Deliver, Install
from covey.kernel.engine import Surroundings
from covey.kernel.ids import ProcessId
from covey.kernel.storage import provision
from covey.kernel.wire import VERSION, header
from covey.net.addresses import Address, parse_address
from covey.net.host import Host
from covey.net.keys import Key, Keys
from covey.net.seal import ANSWER, CHALLENGE, DATA, DATA_BYTES_MIN, NOTICE, WINDOW, Refused, Seals
from covey.net.sockets import DATAGRAM_MAX, Port
from covey.sim.disk import Disk
from tests.host.things import WAIT_S, free_addresses, running, until

KEYS = Keys((Key(b"k" * 32),))
FOREIGN = Keys((Key(b"f" * 32),))
STRANGER = ProcessId("stranger", 1)
OPTIONS = LinkOptions(hello_s=0.5)
MESSAGES = 1500
"""From each site to each other."""
BURSTS = 150
HEAD_BYTES, PREFIX_BYTES, START = 8, 24, 32

Attack = Callable[[bytes], bytes]


def flip(at: int, bit: int = 0) -> Attack:
    """Change one bit of a datagram."""
    return lambda genuine: genuine[:at] + bytes([genuine[at] ^ 1 << bit]) + genuine[at:][1:]


ATTACKS: list[tuple[str, Attack]] = [
    ("short", lambda genuine: b""),
    ("short", lambda genuine: genuine[: HEAD_BYTES - 1]),
    ("short", lambda genuine: genuine[: DATA_BYTES_MIN - 1]),
    ("magic", lambda genuine: bytes(len(genuine))),
    ("magic", lambda genuine: b"\xff" * DATAGRAM_MAX),
    ("magic", flip(0)),
    ("unsealed", lambda genuine: header(1, STRANGER) + b"hello"),
    ("version", flip(2)),
    ("version", lambda genuine: genuine[:2] + bytes([VERSION + 1]) + genuine[3:]),
    ("kind", flip(3, 7)),
    ("notice", lambda genuine: genuine[:3] + bytes([NOTICE]) + genuine[4:]),
    ("notice", lambda genuine: genuine[:3] + bytes([NOTICE]) + genuine[4:HEAD_BYTES]),
    ("key", flip(HEAD_BYTES - 1)),
    ("key", lambda genuine: Seals(FOREIGN, STRANGER, bytes(16)).seal(header(1, STRANGER))),
    ("unproven", flip(HEAD_BYTES)),
    ("forged", flip(PREFIX_BYTES, 7)),
    ("forged", lambda genuine: genuine[:PREFIX_BYTES] + b"\xff" * (DATAGRAM_MAX - PREFIX_BYTES)),
    ("forged", lambda genuine: genuine[:3] + bytes([CHALLENGE]) + genuine[4:]),
    ("forged", lambda genuine: genuine[:3] + bytes([ANSWER]) + genuine[4:]),
    ("replayed", lambda genuine: genuine),
    ("replayed", flip(START)),
    ("replayed", lambda genuine: genuine + b"more"),
]
"""What becomes of a datagram that was accepted, and how it is refused."""


RECORDED = {"unproven": "early", "challenged": "replayed", "proven": "stale", "accepted": "late"}
"""What became of a datagram when it came first, and how it is refused when it comes again much later."""


class Network:
    """What he hears, and what he does to what is on its way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.heard: dict[tuple[str, str], list[bytes]] = defaultdict(list)
        """By the name of who opened them, and what came of it."""
        self.expected: dict[str, Counter[str]] = defaultdict(Counter)
        """By address: what he sent there, by the reason for which it must be refused."""
        self.sites: set[Address] = set()
        self.is_hostile = False
        self._held: dict[tuple[Port, Address], bytes] = {}
        self._open, self._put = Seals.open, Port.put
        monkeypatch.setattr(Seals, "open", lambda *call: self.open(*call))
        monkeypatch.setattr(Port, "put", lambda *call: self.put(*call))

    def __enter__(self) -> "Network":
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def rest(self) -> None:
        """What is held back is lost."""
        self.is_hostile = False
        self._held.clear()

    def open(self, seals: Seals, datagram: bytes, source: str, now: float) -> bytes | Refused:
        found = self._open(seals, datagram, source, now)
        self.heard[seals.me.name, found.reason if isinstance(found, Refused) else "accepted"].append(datagram)
        return found

    def put(self, port: Port, to: Address, datagram: bytes) -> None:
        """A damaged copy overtakes every datagram, a good one goes to a third site, and some come after the next."""
        if self.is_hostile and datagram[3] == DATA and to in self.sites:
            self.send(to, "forged", flip(len(datagram) - 1)(datagram))
            for third in self.sites - {to, port.at}:
                self.socket.sendto(datagram, third)
        if (held := self._held.pop((port, to), None)) is not None:
            self._put(port, to, datagram)
            self._put(port, to, held)
        elif self.is_hostile and datagram[-1] % 3 == 0:
            self._held[port, to] = datagram
        else:
            self._put(port, to, datagram)

    def send(self, to: Address, reason: str, datagram: bytes) -> None:
        self.expected["{}:{}".format(*to)][reason] += 1
        self.socket.sendto(datagram, to)


class Site:
    """A host of an ISIS site, and what its application saw."""

    def __init__(self, address: str, addresses: Sequence[str]) -> None:
        disk = Disk()
        provision(disk, address, address)
        self.address = address
        self.views: list[Install] = []
        self.messages: dict[str, list[bytes]] = defaultdict(list)
        self.host = Host(self.build, address, addresses, disk, None, KEYS, self.on_effect)

    def build(self, around: Surroundings, addresses: Sequence[str]) -> Sites:
        return Sites(around, addresses, sorted(addresses), OPTIONS)

    def on_effect(self, effect: Deliver | Install) -> None:
        if isinstance(effect, Install):
            self.views.append(effect)
        else:
            self.messages[effect.origin.name] += effect.messages

    def refused(self) -> Counter[str]:
        """How many datagrams, by reason."""
        word = "dropped: refused: "
        return Counter(
            {name.removeprefix(word): int(count) for name, count in self.host.stats().items() if name.startswith(word)}
        )


async def soon(condition: Callable[[], bool], what: str) -> None:
    """Wait as `until` does, and leave the loop no rest."""
    loop = asyncio.get_running_loop()
    end = loop.time() + WAIT_S
    while not condition():
        assert loop.time() < end, f"in vain waited until {what}"
        await asyncio.sleep(0)


async def talk(sites: Sequence[Site], numbers: Sequence[int]) -> None:
    for number in numbers:
        for site in sites:
            others = [ProcessId(other.address, 1) for other in sites if other is not site]
            await soon(lambda site=site: site.host.room > 0, "there is room")
            assert site.host.submit([Outgoing(other, b"%d" % number) for other in others]) == len(others)
        await asyncio.sleep(0)


def lose(sites: Sequence[Site]) -> None:
    """Have as many packets sealed and lost as there are in the window."""
    for site in sites:
        assert site.host.life is not None
        for _ in range(WINDOW):
            site.host.life.seals.seal(b"")


class Attacker:
    """Sends what must be refused, and sees to it that it is."""

    def __init__(self, network: Network, sites: Sequence[Site]) -> None:
        self.network = network
        self.sites = sites
        self.before = {site.address: site.refused() for site in sites}
        self.recorded = {key: datagrams[:4] for key, datagrams in network.heard.items()}

    def found(self, site: Site) -> Counter[str]:
        """What was refused since this began."""
        return site.refused() - self.before[site.address]

    async def burst(self, site: Site, datagrams: Sequence[tuple[str, bytes]]) -> None:
        to = parse_address(site.address)
        assert to is not None
        for reason, datagram in datagrams:
            self.network.send(to, reason, datagram)
        expected = self.network.expected[site.address]
        await soon(lambda: self.found(site).total() >= expected.total(), "all of a burst is refused")

    async def damage(self) -> None:
        for number in range(BURSTS):
            for site in self.sites:
                accepted = self.network.heard[site.address, "accepted"]
                genuine = accepted[-1 - number % 7]
                await self.burst(site, [(reason, change(genuine)) for reason, change in ATTACKS])

    async def replay(self) -> None:
        """What was said when they met, and what is very old."""
        for site in self.sites:
            for became, becomes in RECORDED.items():
                recorded = self.recorded[site.address, became]
                await self.burst(site, [(becomes, datagram) for datagram in recorded])


def test_a_group_at_full_load_goes_on_among_hostile_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        addresses = sorted(free_addresses(3))
        sites = [Site(address, addresses) for address in addresses]
        async with AsyncExitStack() as stack:
            tasks = [await stack.enter_async_context(running(site.host)) for site in sites]
            await until(lambda: all(site.views and len(site.views[-1].members) == 3 for site in sites), "all agree")
            await until(lambda: all(site.refused()["proven"] == 2 for site in sites), "all have met")
            views = [site.views.copy() for site in sites]
            network.sites = {site.host.life.port.at for site in sites if site.host.life is not None}
            network.is_hostile = True
            attacker = Attacker(network, sites)
            await asyncio.gather(talk(sites, range(MESSAGES - 1)), attacker.damage())
            network.rest()
            lose(sites)
            await talk(sites, [MESSAGES - 1])
            numbers = [b"%d" % number for number in range(MESSAGES)]
            for site in sites:
                others = {other.address: numbers for other in sites if other is not site}
                await until(lambda site=site: sum(map(len, site.messages.values())) == 2 * MESSAGES, "all has come")
                assert site.messages == others
            await attacker.replay()
            for site in sites:
                assert attacker.found(site) == network.expected[site.address]
                assert not [name for name in site.host.stats() if name.startswith("dropped: socket")]
            assert [site.views for site in sites] == views
            assert not any(task.done() for task in tasks)

    with Network(monkeypatch) as network:
        asyncio.run(main())
