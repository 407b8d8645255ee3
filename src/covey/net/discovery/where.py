"""Where to look for others, and addresses, as a person writes them and as programs compare them."""

import os
import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from covey.kernel.errors import MisuseError

FORMS = "10.0.0.1:7400, [::1]:7400, db.example.org:7400, dir:/run/covey or multicast:239.1.2.3:7400"

_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_BARE = re.compile(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]{1,15})?")  # a zone is the name of an interface
_LOOKS_NUMERIC = re.compile(r"\d+|0[xX][0-9a-fA-F]*")


class Static(NamedTuple):
    """One address, and always that."""

    address: str

    def __str__(self) -> str:
        return self.address


class Name(NamedTuple):
    """Every address that a name in the DNS has."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Directory(NamedTuple):
    """A directory in which each member keeps a file with its address."""

    path: str

    def __str__(self) -> str:
        return f"dir:{self.path}"


class Multicast(NamedTuple):
    """A multicast group on which each member says its address."""

    group: str
    port: int

    def __str__(self) -> str:
        return f"multicast:{self.group}:{self.port}"


Where = Static | Name | Directory | Multicast


def parse(text: str) -> Where:
    """Understand where somebody wants to look, or say how to write it."""
    kind, _, rest = text.partition(":")
    if kind == "dir":
        return _directory(text, rest)
    if kind == "multicast":
        return _multicast(text, rest)
    host, port = _split(text)
    if host.startswith("[") or ":" in host or _LOOKS_NUMERIC.fullmatch(host.rstrip(".").rpartition(".")[2]):
        return Static(read_address(text))
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.removesuffix(".").split(".")):
        raise MisuseError(
            f"{text!r}: {host!r} is not a name that the DNS could know: labels of 1 to 63 letters, digits and hyphens,"
            f" with dots between them (others in their form xn--...). Say where to look as one of {FORMS}"
        )
    return Name(host, port)


def read_address(text: str) -> str:
    """Return an address of one process, numeric host and port, in the one form in which addresses are compared."""
    host, port = _split(text)
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        ip = ip_address(bare if _BARE.fullmatch(bare) else "")
    except ValueError:
        raise MisuseError(f"{text!r}: {host!r} is no IP address; write one as 10.0.0.1:7400 or [::1]:7400") from None
    if (ip.version == 6) != (bare is not host):
        raise MisuseError(f"{text!r}: brackets go around IPv6 addresses, and only those: {write_address(ip, port)}")
    if ip.is_unspecified:
        raise MisuseError(f"{text!r} is not the address of one process; write the one at which others reach it")
    if ip.is_multicast:
        raise MisuseError(f"{text!r} is a multicast group, not one process; to look there, write multicast:{text}")
    return write_address(ip, port)


def write_address(ip: IPv4Address | IPv6Address, port: int) -> str:
    return f"[{ip}]:{port}" if ip.version == 6 else f"{ip}:{port}"


def host_of(address: str) -> str:
    """Return the host of what `read_address` returned, without brackets."""
    return address.rpartition(":")[0].strip("[]")


def _split(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or text.endswith("]"):
        raise MisuseError(f"{text!r} has no host and port; say where to look as one of {FORMS}")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= 0xFFFF):
        raise MisuseError(f"{text!r}: {port!r} is not a port; a port is a number from 1 to 65535")
    return host, int(port)


def _directory(text: str, path: str) -> Directory:
    try:
        is_path = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_path = False
    if not path or not is_path:
        raise MisuseError(f"{text!r} names no directory; write dir: and its path, as in dir:/run/covey")
    return Directory(path)


def _multicast(text: str, rest: str) -> Multicast:
    host, port = _split(rest)
    try:
        group = IPv4Address(host)
    except ValueError:
        group = None
    if group is None or not group.is_multicast:
        raise MisuseError(
            f"{text!r}: {host!r} is not an IPv4 multicast group; take one of 239.0.0.0 to 239.255.255.255,"
            " as in multicast:239.1.2.3:7400"
        )
    return Multicast(str(group), port)
