"""Whatever bytes arrive, the outcome is a message or a named drop; and what was sent is what is understood."""

import struct
import tracemalloc
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.kernel.errors import MisuseError
from covey.kernel.ids import INCARNATION_MAX, ProcessId
from covey.kernel.wire import VERSION, Codec, Dropped, Packet, header, pack_messages, unpack_messages
from tests.bytes import damaged

# --- a stack of three kinds


class Ping(msgspec.Struct, frozen=True, array_like=True):
    stamp: float
    to: ProcessId | None = None


class Tokens(msgspec.Struct, frozen=True, array_like=True):
    ring: tuple[ProcessId, ...]
    missing: list[Annotated[int, msgspec.Meta(ge=0)]]
    names: dict[str, bytes]


PING, TOKENS, FRAME = 1, 2, 200
FRAME_HEADER = struct.Struct("!QB")
CODEC = Codec({PING: Ping, TOKENS: Tokens}, {FRAME: FRAME_HEADER.size})
REASONS = {"short", "magic", "version", "kind", "sender", "body"}

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
SENDERS = st.builds(ProcessId, NAMES, st.integers(1, INCARNATION_MAX))
PINGS = st.builds(Ping, st.floats(allow_nan=False), st.none() | SENDERS)
TOKENS_OF_A_RING = st.builds(
    Tokens,
    st.lists(SENDERS, max_size=4).map(tuple),
    st.lists(st.integers(0, 2**63 - 1)),
    st.dictionaries(NAMES, st.binary(max_size=20), max_size=3),
)
MESSAGES = st.lists(st.binary(max_size=50), max_size=20)

ME = ProcessId("a", 7)
VALID = [
    CODEC.control(ME, Ping(1.5)),
    CODEC.control(ME, Ping(0.0, ProcessId("b/ü", 3))),
    CODEC.control(ME, Tokens((ME, ProcessId("b", 1)), [1, 2, 3], {"x": b"y"})),
    header(FRAME, ME) + FRAME_HEADER.pack(9, 1) + pack_messages([b"one", b"", b"three"]),
]


# --- what was sent is what is understood


@given(SENDERS, PINGS | TOKENS_OF_A_RING)
def test_a_control_message_arrives_as_it_was_sent(sender: ProcessId, body: Ping | Tokens) -> None:
    kind = PING if isinstance(body, Ping) else TOKENS
    assert CODEC.decode(CODEC.control(sender, body)) == Packet(kind, sender, body)


@given(SENDERS, st.binary(min_size=FRAME_HEADER.size, max_size=60))
def test_the_body_of_a_frame_arrives_as_it_was_sent(sender: ProcessId, body: bytes) -> None:
    assert CODEC.decode(header(FRAME, sender) + body) == Packet(FRAME, sender, body)


@given(st.binary(max_size=9), MESSAGES)
def test_packed_messages_are_unpacked_as_they_were(before: bytes, messages: list[bytes]) -> None:
    assert unpack_messages(before + pack_messages(messages), len(before)) == messages


def test_a_frame_holds_65535_messages() -> None:
    assert unpack_messages(pack_messages([b""] * 65535), 0) == [b""] * 65535


def test_a_later_covey_may_add_fields_at_the_end_of_a_control_message() -> None:
    longer = header(PING, ME) + msgspec.msgpack.encode((1.5, None, "new"))
    assert CODEC.decode(longer) == Packet(PING, ME, Ping(1.5))


@pytest.mark.parametrize(
    ("sender", "complaint"),
    [
        (ProcessId("", 1), "1 to 255 bytes"),
        (ProcessId("x" * 256, 1), "1 to 255 bytes"),
        (ProcessId("\ud800", 1), "UTF-8"),
        (ProcessId("a", 0), "an incarnation is a number from 1 to 2147483647, not 0"),
        (ProcessId("a", INCARNATION_MAX + 1), "not 2147483648"),
    ],
)
def test_a_sender_that_nobody_would_understand_sends_nothing(sender: ProcessId, complaint: str) -> None:
    with pytest.raises(MisuseError, match=complaint):
        CODEC.control(sender, Ping(0.0))


# --- what is dropped, and why


def ping(
    magic: bytes = b"cv",
    version: int = VERSION,
    kind: int = PING,
    incarnation: int = 7,
    name: bytes = b"a",
    length: int | None = None,
    body: bytes = msgspec.msgpack.encode((1.5, None)),
) -> bytes:
    """A packet in its parts, each of which can be wrong."""
    return (
        struct.pack("!2sBBIB", magic, version, kind, incarnation, len(name) if length is None else length) + name + body
    )


def packed(*body: object) -> bytes:
    return msgspec.msgpack.encode(body)


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (b"", "short"),
        (ping()[:8], "short"),
        (ping(magic=b"CV"), "magic"),
        (ping(version=VERSION + 1), "version"),
        (ping(version=0), "version"),
        (ping(kind=0), "kind"),
        (ping(kind=3), "kind"),
        (ping(incarnation=0), "sender"),
        (ping(incarnation=INCARNATION_MAX + 1), "sender"),
        (ping(name=b""), "sender"),
        (ping(name=b"\xff"), "sender"),
        (ping(name=b"\xed\xa0\x80"), "sender"),
        (ping(name=b"x" * 20, length=21, body=b""), "sender"),
        (ping(body=b""), "body"),
        (ping(body=packed(1.5) + b"\0"), "body"),
        (ping(body=packed("1.5")), "body"),
        (ping(body=packed()), "body"),
        (ping(body=packed(1.5, ("b", -1))), "body"),
        (ping(body=packed(1.5, ("b", INCARNATION_MAX + 1))), "body"),
        (ping(body=packed(1.5, ("b" * 256, 1))), "body"),
        (ping(body=packed(1.5, b"b\xff")), "body"),
        (ping(body=b"\x92\xa1\xff\xc0"), "body"),
        (ping(body=b"\x93\x01\xc0" + b"\x91" * 50_000 + b"\x01"), "body"),
        (ping(kind=TOKENS, body=packed((), [-1], {})), "body"),
        (ping(kind=FRAME, body=bytes(FRAME_HEADER.size - 1)), "body"),
    ],
)
def test_each_drop_has_its_reason(packet: bytes, reason: str) -> None:
    assert CODEC.decode(packet) == Dropped(reason)


def outcome(packet: bytes) -> str:
    """Nothing else than a message of a known kind, or a drop of a known reason, comes of any bytes."""
    found = CODEC.decode(packet)
    if isinstance(found, Dropped):
        assert found.reason in REASONS
        return found.reason
    assert type(found.body) is {PING: Ping, TOKENS: Tokens, FRAME: bytes}[found.kind]
    assert found.sender.name
    assert 1 <= found.sender.incarnation <= INCARNATION_MAX
    if found.kind == FRAME:
        unpack_messages(found.body, FRAME_HEADER.size)
    return "understood"


@given(st.binary(max_size=200) | damaged(VALID))
def test_any_bytes_are_a_message_or_a_named_drop(packet: bytes) -> None:
    outcome(packet)


@pytest.mark.parametrize("packet", VALID, ids=range(len(VALID)))
def test_a_packet_cut_short_anywhere_is_dropped(packet: bytes) -> None:
    for size in range(len(packet)):
        cut = packet[:size]
        if outcome(cut) == "understood":  # a frame: its messages are not there
            assert packet[3] == FRAME
            assert unpack_messages(cut, len(header(FRAME, ME)) + FRAME_HEADER.size) is None


@pytest.mark.parametrize("packet", VALID, ids=range(len(VALID)))
def test_a_packet_with_one_bit_flipped_is_a_message_or_a_named_drop(packet: bytes) -> None:
    for bit in range(8 * len(packet)):
        flipped = bytearray(packet)
        flipped[bit // 8] ^= 1 << bit % 8
        outcome(bytes(flipped))


@given(MESSAGES, st.binary(min_size=1, max_size=9))
def test_messages_with_something_behind_them_are_no_messages(messages: list[bytes], rest: bytes) -> None:
    assert unpack_messages(pack_messages(messages) + rest, 0) is None


@given(st.binary(max_size=60), st.integers(0, 70))
def test_what_is_unpacked_of_any_bytes_is_what_was_packed_there(body: bytes, offset: int) -> None:
    messages = unpack_messages(body, offset)
    assert messages is None or pack_messages(messages) == body[offset:]


@pytest.mark.parametrize(
    "packet",
    [
        ping(kind=TOKENS, body=b"\x93\xdd\xff\xff\xff\xff"),
        ping(kind=TOKENS, body=b"\x93\x90\xdd\xff\xff\xff\xff"),
        ping(kind=TOKENS, body=b"\x93\x90\x90\xdf\xff\xff\xff\xff"),
        ping(kind=TOKENS, body=b"\x93\x90\x90\x81\xa1a\xc6\xff\xff\xff\xff"),
        ping(kind=TOKENS, body=b"\xdd\xff\xff\xff\xff"),
        ping(kind=TOKENS, body=b"\x93\xdd\x00\x00\xff\xff" + b"\xdd\x00\x00\xff\xf0" * 200),
        ping(kind=TOKENS, body=b"\x94\x90\x90\x80\xdd\xff\xff\xff\xff"),
    ],
)
def test_a_length_that_the_packet_does_not_bear_out_allocates_nothing(packet: bytes) -> None:
    assert peak_bytes(packet) < 100_000


@pytest.mark.parametrize("count", [1, 0xFFFF])
def test_messages_that_are_not_there_allocate_nothing(count: int) -> None:
    body = struct.pack("!H", count) + b"\xff\xff\xff\xff" * min(count, 20)
    assert peak_bytes(header(FRAME, ME) + bytes(FRAME_HEADER.size) + body) < 100_000


def peak_bytes(packet: bytes) -> int:
    tracemalloc.start()
    try:
        outcome(packet)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
