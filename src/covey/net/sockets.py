"""UDP as Linux offers it: many datagrams in one call, and word of ports that refuse them.

Segmentation offload takes a *train* of datagrams to one address in one call: all of one size, the last may be
shorter. Receive offload gives such a train back in one call. A refused datagram is found in the error queue
of the socket, with the address that it was for (IP_RECVERR); any later call fails once because of it.

The loop watches an epoll of the port's own, in which the sockets are: a report in the error queue looks to it like
a packet that came. (uvloop, told of an error at a socket itself, never listens to that socket again.)

What the kernel does not take at once waits in a bounded queue. Nothing here is raised for what the network
does: it is counted in `drops`, by name.
"""

import asyncio
import errno
import select
import socket
import struct
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from covey.kernel.errors import WorldError
from covey.net.addresses import Address, show_address

# Numbers of Linux that Python has no names for.
UDP_SEGMENT, UDP_GRO = 103, 104
IP_RECVERR, SO_RXQ_OVFL = 11, 40
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33

SEGMENTS_MAX = 128
DATAGRAM_MAX = 65507
"""What one IPv4 packet holds; a train of them is no longer either."""
BUFFER_BYTES = 4 << 20
"""Asked for in either direction. What the kernel gives may be less: see `Port.buffers`."""
WAITING_MAX = 4096
"""Datagrams that wait for room in the kernel; more are lost."""
READS_MAX = 64
"""Calls to the kernel before the engine is drained; each may bring a train."""
REPORTS_MAX = 64
"""Reports of the error queue that are read at a time."""
TRIES_MAX = 4
"""Calls to send one train: the first may fail with the report of an earlier one, to whomever that was."""

_ANCILLARY = 2 * socket.CMSG_SPACE(4)
_INT = struct.Struct("=i")
_NO_TRAINS = {errno.EINVAL, errno.EMSGSIZE, errno.EIO, errno.ENOPROTOOPT, errno.EOPNOTSUPP}
"""How the kernel says that it, or the network card, cannot cut a train up."""


class Buffers(NamedTuple):
    """Bytes that the kernel sets aside for a socket; its own bookkeeping is in them."""

    receive: int
    send: int


class Port:
    """A bound UDP socket, and one more that listens to a multicast group where there is one."""

    def __init__(self, bind: Address, group: Address | None = None, offload: bool = True) -> None:
        self.drops: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        """Datagrams, their bytes, and the calls to the kernel that they took."""
        self.group = group
        self.train_limit = DATAGRAM_MAX if offload else 0
        """Datagrams longer than this travel alone."""
        self._socket = _bound(bind, "the address")
        self._sockets = [self._socket]
        if group is not None:
            self._sockets.append(self._join(group, bind))
        self._ready = select.epoll()
        for each in self._sockets:
            _prepare(each, offload)
            self._ready.register(each, select.EPOLLIN)  # and errors, which need no asking for
        self.at: Address = self._socket.getsockname()
        self.buffers = Buffers(*(self._socket.getsockopt(socket.SOL_SOCKET, side) for side in _SIDES))
        self._trains: dict[Address, list[bytes]] = {}
        self._waiting: deque[tuple[Address, list[bytes]]] = deque()
        self._waiting_count = 0
        self._lost: dict[socket.socket, int] = {}
        self._buffer = bytearray(1 << 16)
        self._view = memoryview(self._buffer)
        self._loop: asyncio.AbstractEventLoop | None = None

    def _join(self, group: Address, bind: Address) -> socket.socket:
        """Listen to a group on the network of the bound address, and send to it from there."""
        interface = socket.inet_aton(bind[0])
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        listening = _bound(group, "the multicast group", shared=True)
        listening.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group[0]) + interface)
        return listening

    # ---- the loop ----

    def listen(self, loop: asyncio.AbstractEventLoop, on_readable: Callable[[], None]) -> None:
        """Call that whenever there is something to receive."""
        self._loop = loop
        loop.add_reader(self._ready.fileno(), self._on_ready, on_readable)

    def _on_ready(self, on_readable: Callable[[], None]) -> None:
        if self._waiting:
            self._go_on()
        on_readable()

    def rest(self) -> None:
        """Leave in the kernel what arrives, and in the queue what waits, until `listen` is called again."""
        if self._loop is not None:
            self._loop.remove_reader(self._ready.fileno())

    def close(self) -> None:
        self.rest()
        self._ready.close()
        for each in self._sockets:
            each.close()

    # ---- receiving ----

    def receive(self) -> Iterator[tuple[str, bytes]]:
        """Yield source and datagram of what has arrived, up to a bound."""
        for each in self._sockets:
            for _ in range(READS_MAX):
                try:
                    size, ancillary, _, source = each.recvmsg_into([self._buffer], _ANCILLARY)
                except (BlockingIOError, InterruptedError):
                    break
                except OSError:  # a report of something sent before: `refusals` has it
                    continue
                step = self._step(each, ancillary, size)
                if each is not self._socket and source == self.at:
                    continue  # its own multicast
                where = show_address(source)
                for start in range(0, size, step) if size else (0,):
                    yield where, bytes(self._view[start : min(start + step, size)])

    def _step(self, of: socket.socket, ancillary: list[tuple[int, int, bytes]], size: int) -> int:
        """The size of each datagram in a train."""
        step = size
        for level, kind, content in ancillary:
            (number,) = _INT.unpack_from(content)
            if (level, kind) == (socket.IPPROTO_UDP, UDP_GRO):
                step = number
            elif (level, kind) == (socket.SOL_SOCKET, SO_RXQ_OVFL):
                self.drops["socket: receive buffer full"] += (number - self._lost.get(of, 0)) & 0xFFFFFFFF
                self._lost[of] = number
        return max(step, 1)

    def refusals(self) -> list[str]:
        """The addresses that refused a datagram, each once; other reports are counted."""
        refused: dict[str, None] = {}
        for _ in range(REPORTS_MAX):
            try:
                _, ancillary, _, target = self._socket.recvmsg(0, 512, socket.MSG_ERRQUEUE)
            except OSError:
                break
            for level, kind, content in ancillary:
                if (level, kind) != (socket.IPPROTO_IP, IP_RECVERR):
                    continue
                (number,) = _INT.unpack_from(content)
                self.drops[f"sent, but came back: {errno.errorcode.get(number, number)}"] += 1
                if number == errno.ECONNREFUSED:
                    refused[show_address(target)] = None
        return list(refused)

    # ---- sending ----

    def put(self, to: Address, datagram: bytes) -> None:
        """Add a datagram to those that `flush` sends; those to one address keep their order."""
        if len(datagram) > DATAGRAM_MAX:
            self.drops["send: too large"] += 1
        elif (train := self._trains.get(to)) is None:
            self._trains[to] = [datagram]
        else:
            train.append(datagram)

    @property
    def is_loaded(self) -> bool:
        return bool(self._trains)

    def flush(self) -> None:
        """Hand all that was put to the kernel, or let it wait."""
        loads, self._trains = self._trains, {}
        for to, datagrams in loads.items():
            for train in trains(datagrams, self.train_limit):
                if self._waiting or not self._send(to, train):
                    self._wait(to, train)

    def _send(self, to: Address, train: list[bytes]) -> bool:
        """Whether the kernel had room for it; what it refuses for another reason is lost."""
        extra = []
        if len(train) > 1:
            extra.append((socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("=H", len(train[0]))))
        for _ in range(TRIES_MAX):
            try:
                size = self._socket.sendmsg(train, extra, 0, to)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    return False
                failure = error
                continue
            self.sent["datagrams"] += len(train)
            self.sent["bytes"] += size
            self.sent["calls"] += 1
            return True
        self._cannot(to, train, failure)
        return True

    def _cannot(self, to: Address, train: list[bytes], error: OSError) -> None:
        """Send a train's datagrams one by one where the kernel takes none so large; otherwise they are lost."""
        if len(train) > 1 and error.errno in _NO_TRAINS:
            self.train_limit = min(self.train_limit, len(train[0]) - 1)
            for datagram in train:
                if not self._send(to, [datagram]):
                    self._wait(to, [datagram])
        else:
            self.drops[f"send: {errno.errorcode.get(error.errno or 0, str(error.errno))}"] += len(train)

    def _wait(self, to: Address, train: list[bytes]) -> None:
        if self._waiting_count + len(train) > WAITING_MAX:
            self.drops["send: queue full"] += len(train)
            return
        if not self._waiting:
            self._ready.modify(self._socket, select.EPOLLIN | select.EPOLLOUT)
        self._waiting.append((to, train))
        self._waiting_count += len(train)

    def _go_on(self) -> None:
        """There is room in the kernel again."""
        while self._waiting and self._send(*self._waiting[0]):
            _, train = self._waiting.popleft()
            self._waiting_count -= len(train)
        if not self._waiting:
            self._ready.modify(self._socket, select.EPOLLIN)


def trains(datagrams: Iterable[bytes], limit: int) -> Iterator[list[bytes]]:
    """Cut datagrams into trains: equal sizes up to `limit`, the last may be shorter, none is empty beside others."""
    train: list[bytes] = []
    size = total = 0
    for datagram in datagrams:
        length = len(datagram)
        if train and (
            length > size
            or size > limit
            or not length
            or len(train[-1]) < size
            or len(train) == SEGMENTS_MAX
            or total + length > DATAGRAM_MAX
        ):
            yield train
            train = []
        if not train:
            size, total = length, 0
        train.append(datagram)
        total += length
    if train:
        yield train


_SIDES = socket.SO_RCVBUF, socket.SO_SNDBUF


def _bound(to: Address, what: str, shared: bool = False) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    if shared:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind(to)
    except OSError as error:
        opened.close()
        remedy = _REMEDIES.get(error.errno or 0, "choose another one")
        raise WorldError(f"cannot listen at {what} {show_address(to)} ({error.strerror}): {remedy}") from error
    return opened


_REMEDIES = {
    errno.EADDRINUSE: "another process does already; stop that one, or choose another port",
    errno.EADDRNOTAVAIL: "it is not an address of this machine; give one that `ip address` shows",
    errno.EACCES: "this user may not; choose a port from 1024 up",
}


def _prepare(opened: socket.socket, offload: bool) -> None:
    """Large buffers, and the options that a kernel may lack."""
    for force, plain in ((SO_RCVBUFFORCE, socket.SO_RCVBUF), (SO_SNDBUFFORCE, socket.SO_SNDBUF)):
        if not _try_option(opened, socket.SOL_SOCKET, force, BUFFER_BYTES):  # only root may go above the limit
            _try_option(opened, socket.SOL_SOCKET, plain, BUFFER_BYTES)
    _try_option(opened, socket.IPPROTO_IP, IP_RECVERR, 1)
    _try_option(opened, socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
    if offload:
        _try_option(opened, socket.IPPROTO_UDP, UDP_GRO, 1)


def _try_option(opened: socket.socket, level: int, option: int, number: int) -> bool:
    try:
        opened.setsockopt(level, option, number)
    except OSError:
        return False
    return True
