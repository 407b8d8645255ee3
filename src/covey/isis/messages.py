"""What sites say to each other: the packets of the links, and the messages of view management.

Packets travel alone and may be lost. View-management messages travel inside segments, on the
lossless ordered channels that the links make of packets.

What can be seen to be wrong in a message by itself is refused here, where it is decoded (and where it is made:
a site cannot say what no other would understand): numbers out of bounds, a view that holds a site twice, an
extension with a hole, rounds that contradict one another. What it takes knowledge to refuse, the layers do.
"""

import struct
from itertools import pairwise
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from covey.isis.channel import WINDOW
from covey.kernel.ids import ProcessId
from covey.kernel.wire import Codec

SITES_MAX = 257
"""In one view: a site and all others that it can know at a time."""
VIEWS_MAX = 64
"""In one extension: a manager whose proposals keep failing before they are acknowledged waits then."""
COUNT_MAX = 2**53
"""The last term and the last view number. A site counts no further, so that it can read what it has stored."""
TIME_MAX_S = 1e12

Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Installed = Annotated[int, Meta(ge=-1, le=COUNT_MAX)]
"""The number of a view, or -1 for none."""
Seconds = Annotated[float, Meta(ge=0, le=TIME_MAX_S)]


class Round(NamedTuple):
    """The reign of one view manager; a later one has a greater term (`covey.isis.sites` says why)."""

    term: Count
    manager: ProcessId


NO_ROUND = Round(0, ProcessId("", 0))


class View(Struct, frozen=True, array_like=True):
    """One element of the site view sequence."""

    number: Count
    members: Annotated[tuple[ProcessId, ...], Meta(min_length=1, max_length=SITES_MAX)]
    """Oldest first."""

    def __post_init__(self) -> None:
        if len({pid.name for pid in self.members if pid.name and pid.incarnation}) != len(self.members):
            raise ValueError("a view holds a site twice, or one that cannot be")


class Extension(Struct, frozen=True, array_like=True):
    """A piece of the view sequence, without holes, and the round in which it was proposed."""

    round: Round
    views: Annotated[tuple[View, ...], Meta(max_length=VIEWS_MAX)]

    def __post_init__(self) -> None:
        if (self.round == NO_ROUND) == bool(self.views):
            raise ValueError("an extension has views when it has a round, and only then")
        if any(later.number != view.number + 1 for view, later in pairwise(self.views)):
            raise ValueError("an extension has a hole")


NOTHING = Extension(NO_ROUND, ())


# ---- packets of the links (section 4.1) --------------------------------------------------------


class Hello(Struct, frozen=True, array_like=True):
    """Sent to every address periodically."""

    stamp: Seconds
    """The sender's clock."""
    echo: Annotated[float, Meta(ge=-1, le=TIME_MAX_S)]
    """The newest stamp that the sender has from the site that it believes to be there; -1 for none."""
    held: Seconds
    """For how long it has had that stamp."""
    to: ProcessId | None
    """That site."""
    view: Installed
    """The number of the view that the sender installed last; -1 while it is in none."""
    leaving: bool = False


class Receipt(Struct, frozen=True, array_like=True):
    """The acknowledgement of segments."""

    to: ProcessId
    port: int
    upto: Annotated[int, Meta(ge=0)]
    """All segments up to this one have arrived."""
    beyond: Annotated[int, Meta(ge=0, lt=1 << (WINDOW - 1))]
    """A bit for each of those after the next one that has arrived, too."""


class YouAreDead(Struct, frozen=True, array_like=True):
    """The answer to whatever comes from an incarnation that the others have given up."""

    to: ProcessId


HELLO, RECEIPT, YOU_ARE_DEAD, SEGMENT = 1, 2, 3, 4
KINDS = {HELLO: "hello", RECEIPT: "receipt", YOU_ARE_DEAD: "you-are-dead", SEGMENT: "segment"}

SEGMENT_HEADER = struct.Struct("!QBIB")
"""Number, port, the addressee's incarnation, length of its name; then the name, then packed messages."""

CODEC = Codec({HELLO: Hello, RECEIPT: Receipt, YOU_ARE_DEAD: YouAreDead}, {SEGMENT: SEGMENT_HEADER.size})


# ---- messages of view management (section 4.2) -------------------------------------------------


class Propose(Struct, frozen=True, array_like=True, tag="propose"):
    """Step 1: a proposed view extension; in an *opening* the new manager first asks what it is missing."""

    extension: Extension
    round: Round
    opening: bool

    def __post_init__(self) -> None:
        if self.extension.round > self.round or (self.extension.round < self.round and not self.opening):
            raise ValueError("a proposal of another round's extension")


class Standing(Struct, frozen=True, array_like=True):
    """What a site that answers says of itself."""

    view: Installed
    """The number of the view that it installed last; -1 while it is in none."""
    since: Round
    """The first round in which this incarnation took part: before it, nobody can have taken it into a view."""


class Ack(Struct, frozen=True, array_like=True, tag="ack"):
    """Step 2a."""

    round: Round
    upto: Installed
    """The number of the last view acknowledged."""
    opening: bool
    standing: Standing


class Nack(Struct, frozen=True, array_like=True, tag="nack"):
    """Step 2b, with what the proposal was missing."""

    round: Round
    promised: Round
    missing: Extension
    standing: Standing

    def __post_init__(self) -> None:
        if not self.round <= self.promised >= self.missing.round:
            raise ValueError("a refusal by someone who promised less")


class Commit(Struct, frozen=True, array_like=True, tag="commit"):
    """Step 3a."""

    round: Round
    upto: Count


ViewMessage = Propose | Ack | Nack | Commit
VIEW_MESSAGE: msgspec.msgpack.Decoder[ViewMessage] = msgspec.msgpack.Decoder(ViewMessage)
EXTENSION = msgspec.msgpack.Decoder(Extension)
VIEW = msgspec.msgpack.Decoder(View)
ROUND = msgspec.msgpack.Decoder(Round)
encode = msgspec.msgpack.Encoder().encode
