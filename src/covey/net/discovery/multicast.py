"""An IPv4 multicast group on which each member says its address, once with each look.

    covey here 1 10.0.0.1:7400

What arrives between two looks waits in the socket, and a look takes so many packets and no more: a
flood costs the loop no more than that, though it may drown others. Whoever can send to the group can
name any process of its own machine, but nobody elsewhere: an announcement counts only when it came
from the host that it names. (That a sender forges, too, where the network lets it.) Addresses that are
known keep their place when there are too many.
"""

import socket
from collections.abc import Iterator
from ipaddress import ip_address

from covey.kernel.errors import MisuseError
from covey.kernel.wire import Dropped
from covey.net.discovery.source import Around
from covey.net.discovery.where import Multicast, host_of, read_address

MAGIC = b"covey here "
VERSION = b"1 "
ANNOUNCEMENT_BYTES_MAX = 64
ANNOUNCEMENTS_PER_LOOK_MAX = 512


class MulticastSource:
    """Announces this process on the interface that has its address, and listens there."""

    def __init__(self, where: Multicast, around: Around) -> None:
        self.every_s = around.options.look_every_s
        self._where = where
        self._around = around
        self._host = host_of(around.address)
        if ip_address(self._host).version != 4:
            raise MisuseError(f"{where} is for processes with an IPv4 address, and this one has {around.address}")
        self._sockets: tuple[socket.socket, socket.socket] | None = None
        self._silent: dict[str, int] = {}
        """For each address, in how many looks in a row it was not announced."""

    async def look(self) -> frozenset[str]:
        try:
            self._sockets = self._sockets or self._open()
            speaker, listener = self._sockets
            speaker.sendto(announcement(self._around.address), (self._where.group, self._where.port))
            heard = {address for packet, host in _packets(listener) if (address := self._judge(packet, host))}
        except OSError:
            await self.leave()  # to begin afresh: the interface may have gone and come back
            raise
        self._remember(heard)
        return frozenset(self._silent)

    async def leave(self) -> None:
        for opened in self._sockets or ():
            opened.close()
        self._sockets = None

    def _open(self) -> tuple[socket.socket, socket.socket]:
        speaker, listener = _udp(), _udp()
        interface = socket.inet_aton(self._host)
        try:
            speaker.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
            speaker.bind((self._host, 0))
            # Bound to the group, it gets nothing that is sent elsewhere; all members of a machine share it.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._where.group, self._where.port))
            membership = socket.inet_aton(self._where.group) + interface
            listener.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        except OSError:
            speaker.close()
            listener.close()
            raise
        return speaker, listener

    def _judge(self, packet: bytes, host: str) -> str | None:
        """Return the address that a packet announces, or count why it does not."""
        understood = read_announcement(packet)
        if isinstance(understood, Dropped):
            self._around.drop(f"announcement: {understood.reason}")
        elif host_of(understood) != host:
            self._around.drop("announcement: of another host")
        elif understood != self._around.address:
            return understood
        return None

    def _remember(self, heard: set[str]) -> None:
        options = self._around.options
        silent = {address: 0 if address in heard else looks + 1 for address, looks in self._silent.items()}
        self._silent = {address: looks for address, looks in silent.items() if looks <= options.silent_looks_max}
        new = sorted(heard - self._silent.keys())
        place = options.addresses_max - len(self._silent)
        self._silent |= dict.fromkeys(new[:place], 0)
        self._around.drop("announcement: too many addresses", len(new[place:]))


def announcement(address: str) -> bytes:
    return MAGIC + VERSION + address.encode()


def read_announcement(packet: bytes) -> str | Dropped:
    """Return the address that is announced, or why none is."""
    if len(packet) > ANNOUNCEMENT_BYTES_MAX:
        return Dropped("too long")
    if not packet.startswith(MAGIC):
        return Dropped("not of covey")
    if not packet.startswith(VERSION, len(MAGIC)):
        return Dropped("of another version")
    try:
        return read_address(packet[len(MAGIC + VERSION) :].decode())
    except ValueError:  # MisuseError and UnicodeDecodeError are
        return Dropped("not an address")


def _udp() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)


def _packets(listener: socket.socket) -> Iterator[tuple[bytes, str]]:
    """Take what has arrived, up to a bound, each with the host that it came from."""
    for _ in range(ANNOUNCEMENTS_PER_LOOK_MAX):
        try:
            packet, (host, _port) = listener.recvfrom(ANNOUNCEMENT_BYTES_MAX + 1)
        except BlockingIOError:
            return
        yield packet, host
