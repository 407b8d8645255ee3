"""What sites say to each other: the packets of the links, and the messages of view management.

Packets travel alone and may be lost. View-management messages travel inside segments, on the
lossless ordered channels that the links make of packets.
"""

import struct
from typing import NamedTuple

import msgspec
from msgspec import Struct

from covey.kernel.ids import ProcessId
from covey.kernel.wire import Codec


class Round(NamedTuple):
    """The reign of one view manager; a later one has a greater term (`covey.isis.sites` says why)."""

    term: int
    manager: ProcessId


NO_ROUND = Round(0, ProcessId("", 0))


class View(Struct, frozen=True, array_like=True):
    """One element of the site view sequence."""

    number: int
    members: tuple[ProcessId, ...]
    """Oldest first."""


class Extension(Struct, frozen=True, array_like=True):
    """A piece of the view sequence, without holes, and the round in which it was proposed."""

    round: Round
    views: tuple[View, ...]


NOTHING = Extension(NO_ROUND, ())


# ---- packets of the links (section 4.1) --------------------------------------------------------


class Hello(Struct, frozen=True, array_like=True):
    """Sent to every address periodically."""

    stamp: float
    """The sender's clock."""
    echo: float
    """The newest stamp that the sender has from the site that it believes to be there; -1 for none."""
    held: float
    """For how long it has had that stamp."""
    to: ProcessId | None
    """That site."""
    view: int
    """The number of the view that the sender installed last; -1 while it is in none."""
    leaving: bool = False


class Receipt(Struct, frozen=True, array_like=True):
    """The acknowledgement of segments."""

    to: ProcessId
    port: int
    upto: int
    """All segments up to this one have arrived."""
    beyond: int
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


class Standing(Struct, frozen=True, array_like=True):
    """What a site that answers says of itself."""

    view: int
    """The number of the view that it installed last; -1 while it is in none."""
    since: Round
    """The first round in which this incarnation took part: before it, nobody can have taken it into a view."""


class Ack(Struct, frozen=True, array_like=True, tag="ack"):
    """Step 2a."""

    round: Round
    upto: int
    """The number of the last view acknowledged."""
    opening: bool
    standing: Standing


class Nack(Struct, frozen=True, array_like=True, tag="nack"):
    """Step 2b, with what the proposal was missing."""

    round: Round
    promised: Round
    missing: Extension
    standing: Standing


class Commit(Struct, frozen=True, array_like=True, tag="commit"):
    """Step 3a."""

    round: Round
    upto: int


ViewMessage = Propose | Ack | Nack | Commit
VIEW_MESSAGE: msgspec.msgpack.Decoder[ViewMessage] = msgspec.msgpack.Decoder(ViewMessage)
EXTENSION = msgspec.msgpack.Decoder(Extension)
VIEW = msgspec.msgpack.Decoder(View)
ROUND = msgspec.msgpack.Decoder(Round)
encode = msgspec.msgpack.Encoder().encode
