"""What the members of a ring say to each other: frames, tokens, and the messages of the membership protocol.

A *frame* is what the ring orders: up to a frame's worth of one member's messages. It names its ring in
full, so that a member of another ring knows it for foreign; what follows the name of the ring is fixed:

    ring | seq | origin | service | number | packed messages

`origin` is the place of the sender among the members of the ring: whoever has a frame can send it again, word for
word. On a new ring, the frames of an old one travel whole, as what a frame of the service `RECOVERED` holds.

What can be seen to be wrong in a message by itself is refused here, where it is decoded; the rest where it is used.
"""

import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from covey.evs.primary import Change, Component, Standing
from covey.kernel.ids import NAME_BYTES_MAX, ProcessId, check_name
from covey.kernel.wire import Codec

MEMBERS_MAX = 256
"""In one configuration."""
COUNT_MAX = 2**46
"""The last number of a frame on a ring; with its place in the frame, a message's ordinal has 63 bits."""
RING_MAX = 2**31 - 1
"""The last number of a ring: the number of a configuration serves as an incarnation, too (`covey.evs.filter`)."""
RANGES_MAX = 1024
"""In one list of frames that are missing, or there: half as many as a member can have beyond what it misses."""

RingSeq = Annotated[int, Meta(ge=0, le=RING_MAX)]
Seq = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Name = Annotated[str, Meta(max_length=NAME_BYTES_MAX)]
Pids = Annotated[tuple[ProcessId, ...], Meta(max_length=4 * MEMBERS_MAX)]


class RingId(NamedTuple):
    """A ring and the regular configuration on it: never used twice, and greater than those that came before."""

    seq: RingSeq
    representative: Name

    def __str__(self) -> str:
        return f"{self.seq}.{self.representative}"


class Range(NamedTuple):
    """Frames from the first to the last, both included."""

    first: Seq
    last: Seq


Ranges = Annotated[tuple[Range, ...], Meta(max_length=RANGES_MAX)]


def check_ranges(ranges: tuple[Range, ...]) -> None:
    """Refuse ranges that are empty, overlap, or are not in order."""
    if any(last < first for first, last in ranges) or any(b.first <= a.last for a, b in pairwise(ranges)):
        raise ValueError("ranges are in order, and none is empty")


# ---- the ring ----------------------------------------------------------------------------------


class Token(Struct, frozen=True, array_like=True):
    """Who holds it may send."""

    ring: RingId
    hop: Seq
    """How often it has been passed on."""
    seq: Seq
    """The highest number of a frame."""
    aru: Seq
    """All received up to here, as far as the last rotation knows."""
    lowered_by: Name
    """Who lowered `aru` last; empty where nobody lacks anything."""
    missing: Ranges
    """Frames that somebody asks for."""
    flow: Seq
    """How many frames were sent in the last rotation."""
    is_installed: bool
    """Somebody has installed the configuration of this ring, since all have acknowledged what step 5 asks for."""

    def __post_init__(self) -> None:
        check_ranges(self.missing)
        if self.aru > self.seq or (self.missing and self.missing[-1].last > self.seq):
            raise ValueError("a token knows of no frame beyond its seq")


class Ack(Struct, frozen=True, array_like=True):
    """I have the token since that hop: do not send it again."""

    ring: RingId
    hop: Seq


class Want(Struct, frozen=True, array_like=True):
    """I have something to send: whoever lets the token rest, pass it on."""

    ring: RingId


class Frame(NamedTuple):
    """A frame as it is kept."""

    seq: int
    origin: int
    service: int
    number: int
    """Of the first message, among those of its origin."""
    body: bytes
    """As it travels."""
    at: int
    """Where in the body the messages begin."""


CAUSAL, AGREED, SAFE, RECOVERED, CHANGE = range(5)
"""The services of frames; the last two are the protocol's own: a frame of an old ring, a change of the configured
set."""
SERVICES = ("causal", "agreed", "safe")

_RING = struct.Struct("!QB")
_FRAME = struct.Struct("!QHBQ")


def ring_bytes(ring: RingId) -> bytes:
    """Return what every frame of that ring begins with."""
    name = ring.representative.encode()
    return _RING.pack(ring.seq, len(name)) + name


def pack_frame(ring: bytes, seq: int, origin: int, service: int, number: int, content: bytes) -> Frame:
    """Make a frame of a ring, given by its bytes."""
    body = ring + _FRAME.pack(seq, origin, service, number) + content
    return Frame(seq, origin, service, number, body, len(body) - len(content))


def read_ring(body: bytes) -> RingId | None:
    """Return the ring that a frame names, or None."""
    if len(body) < _RING.size:
        return None
    seq, length = _RING.unpack_from(body)
    name = body[_RING.size : _RING.size + length]
    try:
        return RingId(seq, name.decode()) if seq <= RING_MAX and len(name) == length else None
    except UnicodeDecodeError:
        return None


def read_frame(ring: bytes, body: bytes) -> Frame | None:
    """Read a frame of that ring; None where it is no such frame."""
    at = len(ring) + _FRAME.size
    if not body.startswith(ring) or len(body) < at:
        return None
    seq, origin, service, number = _FRAME.unpack_from(body, len(ring))
    if not 0 < seq <= COUNT_MAX or service > CHANGE or number > COUNT_MAX:
        return None
    return Frame(seq, origin, service, number, body, at)


# ---- membership --------------------------------------------------------------------------------


def check_pids(pids: Iterable[ProcessId]) -> None:
    """Refuse processes that could not send a packet."""
    for name, incarnation in pids:
        check_name(name)
        if not incarnation:
            raise ValueError("a process that was started has an incarnation from 1")


class Join(Struct, frozen=True, array_like=True):
    """Whom I would form a configuration with, and whom I have given up."""

    ring_seq: RingSeq
    """The highest number of a ring that I have known."""
    procs: Pids
    failed: Pids

    def __post_init__(self) -> None:
        if any(tuple(sorted(set(pids))) != pids for pids in (self.procs, self.failed)):
            raise ValueError("processes are listed in order, each once")
        check_pids(self.procs)


class Probe(Struct, frozen=True, array_like=True):
    """Here is a ring that you are not in."""

    ring: RingId


class Leave(Struct, frozen=True, array_like=True):
    """I go."""

    ring: RingId


class Seat(NamedTuple):
    """A member of a ring that is being formed, and where it is reached."""

    pid: ProcessId
    address: Name


Components = Annotated[tuple[Component, ...], Meta(max_length=2 * MEMBERS_MAX)]
Place = Annotated[int, Meta(ge=0, lt=2 * MEMBERS_MAX)]


class Told(Struct, frozen=True, array_like=True):
    """A `Standing` with components by their places in a table: nearly all tell of the same ones."""

    last: Place | None
    is_installed: bool
    attempt: Place | None
    change: Change | None
    since: RingSeq

    def standing(self, components: Components) -> Standing:
        """Return what was told; `ValueError` where that cannot be."""
        places = [place for place in (self.last, self.attempt) if place is not None]
        if any(place >= len(components) for place in places):
            raise ValueError("a standing refers to a component that is not there")
        last = None if self.last is None else components[self.last]
        attempt = None if self.attempt is None else components[self.attempt]
        return Standing(last, self.is_installed, attempt, self.change, self.since)


def tell(standing: Standing, components: Components) -> tuple[Told, Components]:
    """Return how a standing is told with a table of components, and the table, which may have grown."""
    table = [*components]
    places: list[int | None] = []
    for component in (standing.last, standing.attempt):
        if component is not None and component not in table:
            table.append(component)
        places.append(None if component is None else table.index(component))
    return Told(places[0], standing.is_installed, places[1], standing.change, standing.since), tuple(table)


class Info(Struct, frozen=True, array_like=True):
    """Step 3: what a process tells the others about the configuration that it comes from."""

    old: RingId
    """Its last regular configuration."""
    aru: Seq
    """It has all frames up to here, ..."""
    have: Ranges
    """... and these beyond."""
    safe: Seq
    """All members of the old configuration have all frames up to here."""
    obligations: Annotated[tuple[Name, ...], Meta(max_length=MEMBERS_MAX)]
    told: Told
    """What it knows of primary components."""

    def __post_init__(self) -> None:
        check_ranges(self.have)
        if self.safe > self.aru or (self.have and self.have[0].first <= self.aru):
            raise ValueError("what is safe has been received, and what was received beyond a hole lies beyond it")


class Commit(Struct, frozen=True, array_like=True):
    """The commit token: goes round twice, first to collect what each member tells, then to tell it to all."""

    ring: RingId
    hop: Seq
    seats: Annotated[tuple[Seat, ...], Meta(min_length=1, max_length=MEMBERS_MAX)]
    """In the order of the ring."""
    infos: Annotated[tuple[Info, ...], Meta(max_length=MEMBERS_MAX)]
    """Of the first seats."""
    components: Components

    def standings(self) -> dict[str, Standing]:
        """Return what each has told of primary components, by name."""
        infos = zip(self.seats, self.infos, strict=False)
        return {seat.pid.name: info.told.standing(self.components) for seat, info in infos}

    def __post_init__(self) -> None:
        pids = [seat.pid for seat in self.seats]
        if pids != sorted(pids) or len({pid.name for pid in pids}) != len(pids):
            raise ValueError("seats are in the order of their names, one for each")
        check_pids(pids)
        if len(self.infos) != min(self.hop, len(self.seats)) or self.ring.representative != pids[0].name:
            raise ValueError("the commit token was not passed on as it is")
        if any(
            seq >= self.ring.seq for seq in (*(info.old.seq for info in self.infos), *(c.seq for c in self.components))
        ):
            raise ValueError("a ring comes after all that its members know of")
        self.standings()


RingMessage = Token | Ack | Want | Join | Probe | Leave | Commit

FRAME = 32
CODEC = Codec({33: Token, 34: Ack, 35: Want, 36: Join, 37: Probe, 38: Commit, 39: Leave}, frames={FRAME: _RING.size})
