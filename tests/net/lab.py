"""A small real network on one machine: a switch and hosts, each a network namespace.

The switch is a namespace of its own with a bridge in it, so that nothing of the machine's own
network is touched. The host number n has the address 10.77.0.n. What a host does not hear, its own
nftables drop as it arrives: a cut from a to b is a rule in b that names a, and so goes one way.

    with Lab(["a", "b"]) as lab:
        lab.cut("a", "b")          # b no longer hears a; a still hears b
        lab.lose("a", "b", 5)      # of what a sends to b, 5 % is lost
        lab.heal()

Needs root, ip and nft. What was built is taken down whatever happens in between.
"""

import ctypes
import itertools
import os
import re
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12
_serial = itertools.count()


class Lab:
    """Hosts on one switch, for the length of a `with`."""

    def __init__(self, hosts: Sequence[str]) -> None:
        # One switch per process and laboratory: tests may run side by side.
        self._prefix = f"covey-{os.getpid()}-{next(_serial)}"
        self._switch = f"{self._prefix}-switch"
        self.hosts = list(hosts)
        self._built = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._add_namespace(stack, self._switch)
            _run("ip", "-n", self._switch, "link", "add", "bridge", "type", "bridge")
            _run("ip", "-n", self._switch, "link", "set", "bridge", "up")
            for host in self.hosts:
                self._add_namespace(stack, self.namespace(host))
                self._plug_in(host)
            self._built = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._built.close()

    def namespace(self, host: str) -> str:
        """The name that `ip netns exec` knows the host by."""
        return f"{self._prefix}-{host}"

    def address(self, host: str) -> str:
        return f"10.77.0.{self.hosts.index(host) + 1}"

    @contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """Sockets that this thread opens meanwhile live on the host."""
        with (NAMESPACES / self.namespace(host)).open() as there, Path("/proc/thread-self/ns/net").open() as here:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(here.fileno())

    def udp(self, host: str, port: int = 0) -> socket.socket:
        """A UDP socket that lives on the host, bound, with a timeout of a second."""
        with self.inside(host):
            opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.bind((self.address(host), port))
        opened.settimeout(1)
        return opened

    def cut(self, source: str, target: str) -> None:
        """From now on target hears nothing of source."""
        self._drop(source, target, "")

    def lose(self, source: str, target: str, percent: int) -> None:
        """From now on target misses so many of source's packets, at random."""
        self._drop(source, target, f"numgen random mod 100 < {percent}")

    def unplug(self, host: str) -> None:
        """From now on the host has no network, and knows it."""
        self._link(host, "down")

    def plug(self, host: str) -> None:
        self._link(host, "up")

    def heal(self) -> None:
        """Undo every cut and loss."""
        for host in self.hosts:
            self._nft(host, "flush chain ip covey faults")

    def lost(self) -> int:
        """How many packets the present cuts and losses have taken."""
        listings = (self._nft(host, "list chain ip covey faults") for host in self.hosts)
        return sum(int(count) for listing in listings for count in re.findall(r"counter packets (\d+)", listing))

    def _drop(self, source: str, target: str, condition: str) -> None:
        self._nft(target, f"add rule ip covey faults ip saddr {self.address(source)} {condition} counter drop")

    def _add_namespace(self, stack: ExitStack, name: str) -> None:
        _run("ip", "netns", "add", name)
        stack.callback(_run, "ip", "netns", "delete", name)

    def _plug_in(self, host: str) -> None:
        name = self.namespace(host)
        port = f"port{self.hosts.index(host) + 1}"
        _run("ip", "-n", self._switch, "link", "add", port, "type", "veth", "peer", "name", "net", "netns", name)
        _run("ip", "-n", self._switch, "link", "set", port, "master", "bridge", "up")
        _run("ip", "-n", name, "address", "add", f"{self.address(host)}/24", "dev", "net")
        _run("ip", "-n", name, "link", "set", "lo", "up")
        self.plug(host)
        self._nft(host, "add table ip covey")
        self._nft(host, "add chain ip covey faults { type filter hook input priority 0; }")

    def _link(self, host: str, state: str) -> None:
        _run("ip", "-n", self.namespace(host), "link", "set", "net", state)

    def _nft(self, host: str, command: str) -> str:
        return _run("ip", "netns", "exec", self.namespace(host), "nft", command)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def _enter(namespace: int) -> None:
    """Move this thread into the network namespace of an open file."""
    if _libc.setns(namespace, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
