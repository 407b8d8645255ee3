"""The one place where a packet becomes a datagram and back: what a host asks of it, and that which does nothing."""

from typing import Protocol

from covey.net.seal import Refused


class Sealing(Protocol):
    """Between packets and datagrams. All datagrams of packets of one size have one size."""

    replies: list[tuple[str, bytes]]
    """Addresses and datagrams to send, left here by `open`; the host empties it."""

    def seal(self, packet: bytes) -> bytes:
        """Return the datagram for a packet."""

    def open(self, datagram: bytes, source: str, now: float) -> bytes | Refused:
        """Return the packet of a datagram, whatever bytes it has; nothing is raised."""


class Plain:
    """No key, no seal: for loopback only."""

    def __init__(self) -> None:
        self.replies: list[tuple[str, bytes]] = []

    def seal(self, packet: bytes) -> bytes:
        return packet

    def open(self, datagram: bytes, source: str, now: float) -> bytes | Refused:
        return datagram
