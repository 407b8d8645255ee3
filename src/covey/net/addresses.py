"""Addresses as engines know them, "host:port", and as sockets do."""

import socket
from functools import lru_cache

from covey.kernel.errors import MisuseError

Address = tuple[str, int]
PORT_MAX = 0xFFFF


@lru_cache(1024)
def parse_address(text: str) -> Address | None:
    """Read `host:port`, a numeric IPv4 address and a port; None for anything else. Names are not looked up."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > PORT_MAX:
        return None
    try:
        socket.inet_pton(socket.AF_INET, host)
    except (OSError, ValueError):
        return None
    return host, int(port)


@lru_cache(1024)
def show_address(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


def own_address(text: str, what: str = "the address") -> Address:
    """Read an address that the caller gave."""
    address = parse_address(text)
    if address is None:
        raise MisuseError(f"{what} {text!r} is not a numeric IPv4 address and a port, such as 127.0.0.1:7700")
    return address


def is_loopback(address: Address) -> bool:
    return address[0].startswith("127.")


def is_multicast(address: Address) -> bool:
    return 224 <= int(address[0].partition(".")[0]) <= 239
