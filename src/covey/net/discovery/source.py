"""What a source of addresses is, and the two simplest: an address, and a name in the DNS."""

import asyncio
import socket
from collections import Counter
from ipaddress import ip_address
from typing import Protocol

from msgspec import Struct

from covey.kernel.errors import MisuseError
from covey.net.discovery.where import Name, Static, read_address, write_address


class DiscoveryOptions(Struct, frozen=True):
    """The pace of discovery, and its bounds. Members that announce themselves to each other have the same ones."""

    look_every_s: float = 1.0
    """Between two looks into a directory or at a multicast group; a member announces itself with each."""
    resolve_every_s: float = 30.0
    """Between two questions to the DNS."""
    silent_looks_max: int = 10
    """Who did not announce itself for more looks in a row than these is forgotten."""
    retry_first_s: float = 1.0
    """After a look that failed; doubled with each further one."""
    retry_max_s: float = 60.0
    patience_s: float = 5.0
    """A look that takes longer counts as a failure, though its answer is taken when it comes."""
    addresses_max: int = 256
    """As many are believed of one source; further ones are dropped."""

    def __post_init__(self) -> None:
        if not all(getattr(self, field) > 0 for field in self.__struct_fields__):
            raise MisuseError(f"every option of discovery is a number above 0: {self}")
        if self.retry_first_s > self.retry_max_s:
            raise MisuseError(f"retry_first_s is at most retry_max_s: {self}")


DEFAULTS = DiscoveryOptions()


class Around(Struct, frozen=True):
    """What a source knows of the process that it works for."""

    name: str
    address: str
    options: DiscoveryOptions
    drops: Counter[str]

    def drop(self, reason: str, times: int = 1) -> None:
        """Count what was discarded."""
        if times:
            self.drops[reason] += times


class Source(Protocol):
    """A place to look, again and again."""

    every_s: float

    async def look(self) -> frozenset[str]:
        """Return all addresses known here now, never blocking the loop; raise OSError where that cannot be said."""

    async def leave(self) -> None:
        """Withdraw what was announced, and close what is open."""


class StaticSource:
    """Says what it was told."""

    def __init__(self, where: Static, around: Around) -> None:
        self.every_s = around.options.resolve_every_s
        self._known = frozenset([where.address])

    async def look(self) -> frozenset[str]:
        return self._known

    async def leave(self) -> None:
        pass


class NameSource:
    """Asks the resolver of this machine, which has caches and time limits of its own."""

    def __init__(self, where: Name, around: Around) -> None:
        self.every_s = around.options.resolve_every_s
        self._where = where
        self._around = around

    async def look(self) -> frozenset[str]:
        loop = asyncio.get_running_loop()
        answers = await loop.getaddrinfo(self._where.host, self._where.port, type=socket.SOCK_DGRAM)
        hosts = sorted({str(sockaddr[0]) for *_, sockaddr in answers})
        known = [address for host in hosts if (address := self._read(host))]
        if not known:
            raise OSError(f"the name {self._where.host} has no address that a process could have")
        self._around.drop("name: too many addresses", len(known[self._around.options.addresses_max :]))
        return frozenset(known[: self._around.options.addresses_max])

    def _read(self, host: str) -> str | None:
        try:
            return read_address(write_address(ip_address(host), self._where.port))
        except ValueError:  # MisuseError is one: name servers that block a name answer 0.0.0.0
            self._around.drop("name: not an address")
            return None

    async def leave(self) -> None:
        pass
