"""The inter-site layer: lossless channels, hellos, incarnations, *you are dead*.

Source: isis-1985, section 4.1. A site is one incarnation of a named process. Each site says hello to
every address that it was given, periodically; the hellos make sites known to one another, measure the
round trip, and say in which view the sender is. Between two sites that know each other run
`Channel`s, one for each port. Whether a site has failed is decided above (`covey.isis.sites`); here it is
only *silent*.

What is accepted, and from whom:

    packet          from a buried or older incarnation   to another incarnation of me    otherwise
    hello           answered: you are dead               answered: a hello               the peer is heard
    segment         answered: you are dead               dropped                         received, receipt sent
    receipt         answered: you are dead               dropped                         acknowledges
    you-are-dead    taken to heart all the same          dropped                         this incarnation halts

Segments of the application are not received from a site that the layer above does not name a member; they
are not acknowledged, so they come again.

Deviations. (1) A hello counts only as an echo: a peer is silent when the newest of *my* stamps that it
has sent back is too old. So a cut in either direction silences it, and both ends notice. (2) How old is
too old follows the measured round trips, and the hellos' interval. (3) A silent site is not yet a failed
one: its channel is kept, and goes on if it comes back before a view without it is agreed upon. (4)
*You are dead* is heeded even from a buried sender: of two sites that have given up each other at least
one must go. (5) View management has a channel of its own beside the application's: it must not wait behind
messages that can be delivered only when it is done.

Bounds: `PEERS_MAX` sites are known at a time (more are not listened to), `GRAVES_MAX` names are remembered
as dead; a channel's bounds are in `covey.isis.channel`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from covey.isis.channel import Channel, RoundTrips, Segment
from covey.isis.messages import (
    CODEC,
    HELLO,
    RECEIPT,
    SEGMENT,
    SEGMENT_HEADER,
    SITES_MAX,
    YOU_ARE_DEAD,
    Hello,
    Receipt,
    YouAreDead,
)
from covey.kernel.effects import Halt, Send
from covey.kernel.engine import Engine
from covey.kernel.errors import BrokenInvariant
from covey.kernel.ids import ProcessId
from covey.kernel.wire import Dropped, header, pack_messages, unpack_messages

PEERS_MAX = SITES_MAX - 1
GRAVES_MAX = 4096
FORGET_S = 60.0
"""A site that is in no view, and was not heard for so long, is given up."""

NEVER = float("-inf")

VIEWS, APPLICATION = PORTS = range(2)


class Received(NamedTuple):
    """Messages of one port, in order."""

    sender: ProcessId
    port: int
    number: int
    """Of the first message, among all that came over this channel."""
    messages: list[bytes]


class LinkOptions(Struct, frozen=True):
    """The pace of the inter-site layer."""

    hello_s: float = 0.25
    """Between two hellos."""
    misses: int = 5
    """How many hellos in a row may go astray before a site is silent."""


class Peer:
    """What is known of one incarnation of another site."""

    def __init__(self, pid: ProcessId, address: str, now: float) -> None:
        self.pid = pid
        self.address = address
        self.view = -1
        self.trips = RoundTrips()
        self.channels = [Channel(self.trips) for _ in PORTS]
        self.heard = now
        self.echoed = NEVER
        self.stamp = -1.0
        self.stamp_at = now
        self.hinted = NEVER
        self.owes_receipt: set[int] = set()
        """For these ports."""


class Ticket(Struct, frozen=True):
    """A message given to `send`; `status` tells what became of it."""

    dest: ProcessId
    port: int
    number: int


class Links:
    """All channels of one site, and who can be heard."""

    def __init__(
        self,
        engine: Engine,
        addresses: Sequence[str],
        options: LinkOptions,
        is_member: Callable[[ProcessId], bool],
    ) -> None:
        """Applications are heard only at sites that `is_member` names."""
        self.engine = engine
        self.me = engine.me
        self.addresses = tuple(addresses)
        self.options = options
        self.is_member = is_member
        self.view = -1
        """What hellos say: the number of the view that this site installed last."""
        self.peers: dict[str, Peer] = {}
        self.graves: dict[str, int] = {}
        self.next_hello = NEVER
        self._segment_header = header(SEGMENT, self.me)

    # ---- the two primitives of section 4.1 ----

    def send(self, dest: ProcessId, port: int, message: bytes) -> Ticket | None:
        """Send a message to a site, in order and without loss. None: unknown site, or no room."""
        if not self.room(dest, port):
            return None
        return Ticket(dest, port, self.peers[dest.name].channels[port].send(message))

    def room(self, dest: ProcessId, port: int) -> int:
        """How many messages `send` would take for a site now."""
        peer = self._peer(dest)
        return 0 if peer is None else peer.channels[port].room

    def status(self, ticket: Ticket) -> bool:
        """Whether the message is *sent*: its site has acknowledged it, or has been given up."""
        peer = self._peer(ticket.dest)
        return peer is None or peer.channels[ticket.port].is_sent(ticket.number)

    def is_quiet(self, dest: ProcessId) -> bool:
        """Whether everything that was sent to a site has been acknowledged."""
        peer = self._peer(dest)
        return peer is None or not any(channel.queue or channel.under_way for channel in peer.channels)

    # ---- who is there ----

    def alive(self, now: float) -> list[Peer]:
        """The peers that are not silent, by name."""
        peers = (self.peers[name] for name in sorted(self.peers))
        return [peer for peer in peers if now < self._silent_at(peer)]

    def _silent_at(self, peer: Peer) -> float:
        interval = self.options.hello_s
        silent = peer.echoed + self.options.misses * interval + peer.trips.timeout
        if peer.echoed < peer.hinted:
            return min(silent, peer.hinted + 2 * interval + peer.trips.timeout)
        return silent

    def is_dead(self, pid: ProcessId) -> bool:
        """Whether that incarnation was given up, or a later one of the same site is known."""
        peer = self.peers.get(pid.name)
        known = 0 if peer is None else peer.pid.incarnation
        return pid.incarnation < known or pid.incarnation <= self.graves.get(pid.name, 0)

    def bury(self, pid: ProcessId) -> None:
        """Give a site up for good: from now on all that comes from it is answered with *you are dead*."""
        self._remember_dead(pid)
        peer = self._peer(pid)
        if peer is not None:
            del self.peers[pid.name]
            self._tell_dead(pid, peer.address)

    def _remember_dead(self, pid: ProcessId) -> None:
        dead = max(self.graves.pop(pid.name, 0), pid.incarnation)
        self.graves[pid.name] = dead
        if len(self.graves) > GRAVES_MAX:
            del self.graves[next(iter(self.graves))]

    def _tell_dead(self, pid: ProcessId, address: str) -> None:
        self.engine.out.append(Send(address, CODEC.control(self.me, YouAreDead(pid))))

    def _peer(self, pid: ProcessId) -> Peer | None:
        peer = self.peers.get(pid.name)
        return peer if peer is not None and peer.pid == pid else None

    # ---- inputs ----

    def receive(self, now: float, source: str, packet: bytes) -> list[Received]:
        """Take a packet; return the messages that it makes deliverable."""
        parsed = CODEC.decode(packet)
        if isinstance(parsed, Dropped):
            self.engine.drop(f"packet: {parsed.reason}")
            return []
        if parsed.kind == YOU_ARE_DEAD:
            self._on_you_are_dead(parsed.body)
            return []
        peer = self._admit(now, source, parsed.sender)
        if peer is None:
            return []
        if parsed.kind == SEGMENT:
            return self._on_segment(now, peer, parsed.body)
        if parsed.kind == HELLO:
            self._on_hello(now, peer, source, parsed.body)
        elif parsed.kind == RECEIPT:
            self._on_receipt(now, peer, parsed.body)
        return []

    def _admit(self, now: float, source: str, sender: ProcessId) -> Peer | None:
        """Find the peer that a packet is from; a dead or older incarnation is told so."""
        if sender.name == self.me.name:
            self.engine.drop("sender has my name")
            return None
        peer = self.peers.get(sender.name)
        if self.is_dead(sender):
            self.engine.drop("sender is dead")
            self._tell_dead(sender, source)
            return None
        if peer is not None and peer.pid == sender:
            return peer
        if peer is None and len(self.peers) >= PEERS_MAX:
            self.engine.drop("too many sites")
            return None
        self.peers[sender.name] = Peer(sender, source, now)
        return self.peers[sender.name]

    def _is_mine(self, to: ProcessId | None) -> bool:
        """Whether a packet is addressed to this incarnation."""
        return to == self.me

    def _on_hello(self, now: float, peer: Peer, source: str, hello: Hello) -> None:
        peer.heard = now
        if hello.leaving:
            self._remember_dead(peer.pid)
            del self.peers[peer.pid.name]
            return
        if hello.stamp > peer.stamp:  # not one that was overtaken
            peer.view = hello.view
            if self._is_mine(hello.to):  # a copy of one to another site could come from anywhere
                peer.address = source
            peer.stamp, peer.stamp_at = hello.stamp, now
        if not self._is_mine(hello.to):
            self._hello(now, source)
        elif 0 <= hello.echo <= now and hello.echo > peer.echoed:
            peer.echoed = hello.echo
            peer.trips.observe(max(now - hello.echo - hello.held, 0.0))

    def _on_segment(self, now: float, peer: Peer, body: bytes) -> list[Received]:
        number, port, incarnation, length = SEGMENT_HEADER.unpack_from(body)
        start = SEGMENT_HEADER.size + length
        messages = unpack_messages(body, start)
        try:
            name = body[SEGMENT_HEADER.size : start].decode()
        except UnicodeDecodeError:
            messages, name = None, ""
        if not messages or port not in PORTS:
            self.engine.drop("packet: body")
            return []
        if not self._is_mine(ProcessId(name, incarnation)):
            self.engine.drop("for another incarnation")
            return []
        if port == APPLICATION and not self.is_member(peer.pid):
            self.engine.drop("sender is not in the view")
            return []
        peer.owes_receipt.add(port)
        first = peer.channels[port].delivered + 1
        deliverable = peer.channels[port].receive(number, messages)
        if deliverable is None:
            self.engine.drop("segment again")
            return []
        return [Received(peer.pid, port, first, deliverable)] if deliverable else []

    def _on_receipt(self, now: float, peer: Peer, receipt: Receipt) -> None:
        if not self._is_mine(receipt.to):
            self.engine.drop("for another incarnation")
        elif receipt.port not in PORTS:
            self.engine.drop("packet: body")
        elif not peer.channels[receipt.port].acknowledge(now, receipt.upto, receipt.beyond):
            self.engine.drop("receipt for what was not sent")

    def _on_you_are_dead(self, death: YouAreDead) -> None:
        if not self._is_mine(death.to):
            self.engine.drop("for another incarnation")
            return
        self.engine.out.append(Halt("you are dead", restart=True))

    def hint(self, now: float, address: str) -> None:
        """Ask whoever is at an address whether it lives: something says that it does not.

        Once, until there is an answer: a refused question is a hint again.
        """
        for peer in self.peers.values():
            if peer.address == address and peer.hinted <= peer.echoed:
                peer.hinted = now
                self._hello(now, address)

    def paused(self, now: float) -> None:
        """After a pause of my own every peer gets its full time again: suspect yourself first."""
        for peer in self.peers.values():
            peer.heard = now
            if peer.echoed != NEVER:
                peer.echoed = now

    # ---- time ----

    def wake(self, now: float) -> None:
        """Say hello when it is time, and send again what was not acknowledged."""
        if now >= self.next_hello:
            self.next_hello = now + self.options.hello_s * (0.9 + 0.2 * self.engine.random.random())
            for address in self._everywhere():
                self._hello(now, address)
            for pid in [peer.pid for peer in self.peers.values() if now - peer.heard > FORGET_S]:
                if not self.is_member(pid):
                    self.bury(pid)
        for peer in self.peers.values():
            for port, channel in enumerate(peer.channels):
                self._transmit(peer, port, channel.due(now))

    def flush(self, now: float) -> None:
        """Send what was queued and acknowledge what was received, after each input."""
        for peer in self.peers.values():
            for port, channel in enumerate(peer.channels):
                if channel.queue:
                    self._transmit(peer, port, channel.pump(now))
            for port in sorted(peer.owes_receipt):
                receipt = Receipt(peer.pid, port, *peer.channels[port].receipt)
                self.engine.out.append(Send(peer.address, CODEC.control(self.me, receipt)))
            peer.owes_receipt.clear()

    def deadline(self, now: float) -> float:
        """When `wake` is wanted: the next hello, the next repetition, or the next silence."""
        moments = [self.next_hello]
        for peer in self.peers.values():
            moments += [channel.resend_at for channel in peer.channels if channel.resend_at is not None]
            if now < (silent := self._silent_at(peer)):
                moments.append(silent)
        return min(moments)

    def farewell(self, now: float) -> None:
        """Tell everybody that this incarnation leaves."""
        for address in self._everywhere():
            self._hello(now, address, leaving=True)

    def _everywhere(self) -> list[str]:
        """The addresses that this site was told of, and those of sites that it knows all the same."""
        others = {peer.address for peer in self.peers.values()}.difference(self.addresses)
        return [*self.addresses, *sorted(others)]

    def _hello(self, now: float, address: str, *, leaving: bool = False) -> None:
        there = [peer for peer in self.peers.values() if peer.address == address]
        peer = max(there, key=lambda peer: peer.heard) if there else None
        if peer is None:
            hello = Hello(now, -1.0, 0.0, None, self.view, leaving)
        else:
            hello = Hello(now, peer.stamp, now - peer.stamp_at, peer.pid, self.view, leaving)
        self.engine.out.append(Send(address, CODEC.control(self.me, hello)))

    def _transmit(self, peer: Peer, port: int, segments: Sequence[Segment]) -> None:
        name = peer.pid.name.encode()
        for segment in segments:
            head = SEGMENT_HEADER.pack(segment.number, port, peer.pid.incarnation, len(name))
            packet = b"".join((self._segment_header, head, name, pack_messages(segment.messages)))
            self.engine.out.append(Send(peer.address, packet))

    def check(self) -> None:
        """The bounds that the head of this module and of `covey.isis.channel` state."""
        if len(self.peers) > PEERS_MAX or len(self.graves) > GRAVES_MAX:
            raise BrokenInvariant(f"{self.me}: {len(self.peers)} peers, {len(self.graves)} graves")
        for peer in self.peers.values():
            for channel in peer.channels:
                channel.check()
