"""Packets: what every one begins with, and the two shapes that follow.

    magic "cv" | version | kind | incarnation | length of name | sender's name | body

The body of a *control* kind is one msgspec struct, so that decoding is validating. The body of a
*frame* kind is a fixed header of the protocol's own followed by packed messages:

    count | length, length, ... | bytes, bytes, ...

Whatever bytes arrive, the outcome is a `Packet` or a `Dropped` with one of the reasons below;
nothing is raised, and nothing is allocated on the word of a length that the packet does not bear out.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from covey.kernel.errors import MisuseError
from covey.kernel.ids import INCARNATION_MAX, ProcessId, check_name

MAGIC = b"cv"
VERSION = 1
MESSAGES_MAX = 0xFFFF

_HEADER = struct.Struct("!2sBBIB")
_COUNT = struct.Struct("!H")


class Packet(msgspec.Struct, frozen=True):
    """A packet that was understood."""

    kind: int
    sender: ProcessId
    body: Any
    """The control message, or the bytes of a frame."""


class Dropped(msgspec.Struct, frozen=True, gc=False):
    """A packet that was not, and why: `short`, `magic`, `version`, `kind`, `sender` or `body`."""

    reason: str


def header(kind: int, sender: ProcessId) -> bytes:
    """Return what every packet of that kind and sender begins with."""
    check_name(sender.name)
    if not 0 < sender.incarnation <= INCARNATION_MAX:
        raise MisuseError(f"an incarnation is a number from 1 to {INCARNATION_MAX}, not {sender.incarnation}")
    name = sender.name.encode()
    return _HEADER.pack(MAGIC, VERSION, kind, sender.incarnation, len(name)) + name


class Codec:
    """Turns the packets of one stack into messages and back.

    `controls` maps kinds to the struct of their body; `frames` maps the other kinds to the size
    of the fixed header that their body has at least.
    """

    def __init__(self, controls: Mapping[int, type[msgspec.Struct]], frames: Mapping[int, int]) -> None:
        self._decoders: dict[int, msgspec.msgpack.Decoder[Any]] = {
            kind: msgspec.msgpack.Decoder(body) for kind, body in controls.items()
        }
        self._kinds = {body: kind for kind, body in controls.items()}
        self._frames = dict(frames)
        self._encode = msgspec.msgpack.Encoder().encode

    def control(self, sender: ProcessId, body: msgspec.Struct) -> bytes:
        """Return the packet of a control message."""
        return header(self._kinds[type(body)], sender) + self._encode(body)

    def decode(self, packet: bytes) -> Packet | Dropped:
        """Understand a packet, or say why it cannot be."""
        if len(packet) < _HEADER.size:
            return Dropped("short")
        magic, version, kind, incarnation, length = _HEADER.unpack_from(packet)
        if magic != MAGIC:
            return Dropped("magic")
        if version != VERSION:
            return Dropped("version")
        start = _HEADER.size + length
        if not length or len(packet) < start or not 0 < incarnation <= INCARNATION_MAX:
            return Dropped("sender")
        try:
            sender = ProcessId(packet[_HEADER.size : start].decode(), incarnation)
        except UnicodeDecodeError:
            return Dropped("sender")
        return self._body(kind, sender, packet[start:])

    def _body(self, kind: int, sender: ProcessId, body: bytes) -> Packet | Dropped:
        if (least := self._frames.get(kind)) is not None:
            return Packet(kind, sender, body) if len(body) >= least else Dropped("body")
        if (decoder := self._decoders.get(kind)) is None:
            return Dropped("kind")
        try:
            return Packet(kind, sender, decoder.decode(body))
        except (msgspec.DecodeError, ValueError, RecursionError):
            return Dropped("body")


def pack_messages(messages: Sequence[bytes]) -> bytes:
    """Pack up to 65,535 messages behind a table of their lengths."""
    lengths = [len(message) for message in messages]
    return b"".join((struct.pack(f"!H{len(lengths)}I", len(lengths), *lengths), *messages))


def unpack_messages(body: bytes, offset: int) -> list[bytes] | None:
    """Return the messages packed in `body` from `offset` to its end, or None where that is not what is there."""
    start = offset + _COUNT.size
    if len(body) < start:
        return None
    (count,) = _COUNT.unpack_from(body, offset)
    at = start + 4 * count
    if len(body) < at:
        return None
    lengths = struct.unpack_from(f"!{count}I", body, start)
    if at + sum(lengths) != len(body):
        return None
    messages = []
    for length in lengths:
        messages.append(body[at : at + length])
        at += length
    return messages
