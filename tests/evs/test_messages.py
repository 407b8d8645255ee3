"""Frames and the messages of the protocol: what is sent is understood, and what is wrong by itself is refused."""

import tracemalloc
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.evs.messages import (
    CHANGE,
    CODEC,
    COUNT_MAX,
    FRAME,
    MEMBERS_MAX,
    RANGES_MAX,
    RING_MAX,
    SAFE,
    Ack,
    Commit,
    Info,
    Join,
    Leave,
    Probe,
    Range,
    RingId,
    RingMessage,
    Seat,
    Token,
    Told,
    Want,
    pack_frame,
    read_frame,
    read_ring,
    ring_bytes,
    tell,
)
from covey.evs.primary import Change, Component, Standing
from covey.kernel.ids import INCARNATION_MAX, NAME_BYTES_MAX, ProcessId
from covey.kernel.wire import Dropped, Packet, header

A, B, C = (ProcessId(name, 1) for name in "abc")
RING = RingId(8, "a")
OLD = RingId(4, "a")
KINDS = {Token: 33, Ack: 34, Want: 35, Join: 36, Probe: 37, Commit: 38, Leave: 39}

# --- frames

names = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)
rings = st.builds(RingId, st.integers(0, RING_MAX), names)


@given(
    rings,
    st.integers(1, COUNT_MAX),
    st.integers(0, MEMBERS_MAX - 1),
    st.integers(0, CHANGE),
    st.integers(0, COUNT_MAX),
    st.binary(max_size=50),
)
def test_a_frame_is_read_as_it_was_packed(
    ring: RingId, seq: int, origin: int, service: int, number: int, content: bytes
) -> None:
    frame = pack_frame(ring_bytes(ring), seq, origin, service, number, content)
    assert read_frame(ring_bytes(ring), frame.body) == frame
    assert frame[:4] == (seq, origin, service, number)
    assert frame.body[frame.at :] == content
    assert read_ring(frame.body) == ring


@given(rings, rings)
def test_a_frame_of_another_ring_is_not_read_even_where_one_name_begins_like_the_other(a: RingId, b: RingId) -> None:
    for longer in (b, RingId(a.seq, a.representative + "x"), RingId(a.seq, a.representative[:-1])):
        if longer != a:
            assert read_frame(ring_bytes(a), pack_frame(ring_bytes(longer), 1, 0, SAFE, 1, b"").body) is None


def test_a_frame_that_is_cut_off_or_out_of_bounds_is_not_read() -> None:
    ring = ring_bytes(RING)
    whole = pack_frame(ring, COUNT_MAX, 0, CHANGE, COUNT_MAX, b"").body
    assert read_frame(ring, whole) is not None
    assert [read_frame(ring, whole[:size]) for size in range(len(whole))] == [None] * len(whole)
    for seq, service, number in ((0, 0, 1), (COUNT_MAX + 1, 0, 1), (2**64 - 1, 0, 1), (1, CHANGE + 1, 1)):
        assert read_frame(ring, pack_frame(ring, seq, 0, service, number, b"").body) is None
    assert read_frame(ring, pack_frame(ring, 1, 0, SAFE, COUNT_MAX + 1, b"").body) is None


def test_of_what_names_no_ring_none_is_read() -> None:
    whole = ring_bytes(RingId(RING_MAX, "é"))
    assert read_ring(whole) == RingId(RING_MAX, "é")
    assert [read_ring(whole[:size]) for size in range(len(whole))] == [None] * len(whole)
    assert read_ring(ring_bytes(RingId(RING_MAX + 1, "a"))) is None
    assert read_ring(whole[:-1] + b"x") is None, "no UTF-8"


# --- messages of the protocol

COMPONENT = Component(4, "4.a", ("a", "b"), ("a", "b", "c"), "a")
LATER = Component(6, "6.a", ("a", "b"), ("a", "b", "c"), "a")
NOTHING = Told(None, False, None, None, 0)


def info(**but: Any) -> Info:
    usual = {"old": OLD, "aru": 5, "have": (Range(7, 9),), "safe": 3, "obligations": ("c",), "told": NOTHING}
    return Info(**{**usual, **but})


def commit(hop: int = 2, seats: Sequence[ProcessId] = (A, B, C), **but: Any) -> Commit:
    infos = tuple(info() for _ in range(min(hop, len(seats))))
    usual = {"ring": RING, "seats": tuple(Seat(pid, pid.name) for pid in seats), "infos": infos, "components": ()}
    return Commit(**{"hop": hop, **usual, **but})


def token(**but: Any) -> Token:
    usual = {"seq": 9, "aru": 5, "lowered_by": "b", "missing": (Range(6, 7), Range(9, 9)), "flow": 3}
    return Token(**{"ring": RING, "hop": 12, "is_installed": True, **usual, **but})


MESSAGES: list[RingMessage] = [
    token(),
    token(seq=0, aru=0, lowered_by="", missing=()),
    token(seq=COUNT_MAX, aru=COUNT_MAX, hop=COUNT_MAX, missing=(), flow=COUNT_MAX),
    Ack(RING, 12),
    Want(RING),
    Join(8, (A, B, C), (C,)),
    Join(RING_MAX, (), ()),
    Join(0, (ProcessId("é" * 127, INCARNATION_MAX),), ()),
    Probe(RingId(RING_MAX, "é" * 127)),
    Leave(RING),
    commit(0),
    commit(2),
    commit(7),
    commit(
        3, infos=(info(told=Told(0, True, 1, Change(1, ("a", "b")), 4)), info(), info()), components=(COMPONENT, LATER)
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_understood_as_it_was_said(message: RingMessage) -> None:
    assert CODEC.decode(CODEC.control(B, message)) == Packet(KINDS[type(message)], B, message)


def test_a_message_that_is_cut_off_is_refused() -> None:
    for message in MESSAGES:
        packet = CODEC.control(B, message)
        start = len(header(1, B))
        assert {CODEC.decode(packet[:size]) for size in range(start, len(packet))} == {Dropped("body")}


def raw(message: RingMessage) -> list[Any]:
    """A message as lists and numbers, to be made wrong."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(message))


def changed(message: RingMessage, *path: int, to: Any) -> tuple[type[RingMessage], Any]:
    plain = raw(message)
    at = plain
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = to
    return type(message), plain


JOIN, COMMIT = Join(8, (A, B), (B,)), commit(2)
BIG = 2**64 - 1
WRONG = {
    "a negative ring": changed(token(), 0, 0, to=-1),
    "a ring beyond the last": changed(token(), 0, 0, to=RING_MAX + 1),
    "the representative's name too long": changed(token(), 0, 1, to="x" * (NAME_BYTES_MAX + 1)),
    "a negative hop": changed(token(), 1, to=-1),
    "a hop beyond the last": changed(token(), 1, to=COUNT_MAX + 1),
    "the greatest seq": changed(token(), 2, to=BIG),
    "an aru beyond the seq": changed(token(), 3, to=10),
    "more missing than there is": changed(token(), 5, 1, to=[9, 10]),
    "an empty range": changed(token(), 5, 0, to=[7, 6]),
    "ranges out of order": changed(token(), 5, to=[[8, 9], [6, 6]]),
    "ranges that overlap": changed(token(), 5, to=[[6, 8], [8, 9]]),
    "a range with one end": changed(token(), 5, to=[[6]]),
    "too many ranges": changed(token(), 5, to=[[0, 0]] * (RANGES_MAX + 1)),
    "a negative flow": changed(token(), 6, to=-1),
    "a number instead of a truth": changed(token(), 7, to=1),
    "processes out of order": changed(JOIN, 1, to=[["b", 1], ["a", 1]]),
    "a process twice": changed(JOIN, 1, to=[["a", 1], ["a", 1]]),
    "failed ones out of order": changed(JOIN, 2, to=[["b", 1], ["a", 1]]),
    "a process without a name": changed(JOIN, 1, to=[["", 1], ["a", 1]]),
    "a process that was not started": changed(JOIN, 1, to=[["a", 0]]),
    "an incarnation beyond the last": changed(JOIN, 1, to=[["a", INCARNATION_MAX + 1]]),
    "a name of too many bytes": changed(JOIN, 1, to=[["é" * NAME_BYTES_MAX, 1]]),
    "too many processes": changed(JOIN, 1, to=[[f"p{n:04}", 1] for n in range(4 * MEMBERS_MAX + 1)]),
    "nobody has a seat": changed(COMMIT, 2, to=[]),
    "seats out of order": changed(COMMIT, 2, to=[[["b", 1], "b"], [["a", 1], "a"]]),
    "two incarnations have seats": changed(COMMIT, 2, to=[[["a", 1], "a"], [["a", 2], "a"]]),
    "a seat without a name": changed(COMMIT, 2, 0, 0, to=["", 1]),
    "a seat with a name of too many bytes": changed(COMMIT, 2, 0, 0, to=["a" + "é" * 254, 1]),
    "another representative": changed(COMMIT, 0, 1, to="b"),
    "more infos than hops": changed(COMMIT, 1, to=1),
    "less infos than hops": changed(COMMIT, 1, to=3),
    "an aru before what is safe": changed(COMMIT, 3, 0, 1, to=2),
    "what lies beyond a hole does not": changed(COMMIT, 3, 0, 2, to=[[5, 9]]),
    "an old ring that is newer": changed(COMMIT, 3, 0, 0, to=[8, "a"]),
    "a component that is not there": changed(COMMIT, 3, 0, 5, to=[0, True, None, None, 0]),
    "a component that is newer": changed(MESSAGES[-1], 4, 1, 0, to=8),
    "a standing that contradicts itself": changed(COMMIT, 3, 0, 5, to=[None, True, None, None, 0]),
    "an attempt that is not later": changed(MESSAGES[-1], 4, 1, 0, to=4),
    "no list": (Token, 7),
    "too deep": (Want, [[[[[]]]]]),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_message_that_contradicts_itself_is_refused(wrong: tuple[type[RingMessage], Any]) -> None:
    kind, plain = wrong
    packet = header(KINDS[kind], B) + msgspec.msgpack.encode(plain)
    assert CODEC.decode(packet) == Dropped("body")


def test_what_was_changed_to_be_wrong_was_right_before() -> None:
    for message in (token(), JOIN, COMMIT, MESSAGES[-1]):
        packet = header(KINDS[type(message)], B) + msgspec.msgpack.encode(raw(message))
        assert CODEC.decode(packet) == Packet(KINDS[type(message)], B, message)


def test_nothing_is_allocated_on_the_word_of_a_number() -> None:
    packets = [
        CODEC.control(B, token(seq=COUNT_MAX, aru=0, missing=(Range(1, COUNT_MAX),))),
        CODEC.control(B, commit(1, infos=(info(aru=COUNT_MAX - 2, have=(Range(COUNT_MAX, COUNT_MAX),)),))),
        header(33, B) + b"\xdd\xff\xff\xff\xff",  # an array of four thousand million
        header(36, B) + b"\x93\x00\xdd\xff\xff\xff\xff\x90",
        header(38, B) + b"\xc6\xff\xff\xff\xff",
        header(FRAME, B) + pack_frame(ring_bytes(RING), COUNT_MAX, 0, SAFE, 1, b"\xff\xff").body,
    ]
    tracemalloc.start()
    try:
        for packet in packets:
            CODEC.decode(packet)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 100_000


# --- standings in a table


@given(
    st.lists(st.sampled_from([Standing(), Standing(COMPONENT), Standing(COMPONENT, attempt=LATER), Standing(LATER)]))
)
def test_a_standing_is_told_with_each_component_once(standings: list[Standing]) -> None:
    table: tuple[Component, ...] = ()
    told = []
    for standing in standings:
        one, table = tell(standing, table)
        told.append(one)
    assert [one.standing(table) for one in told] == standings
    assert len(set(table)) == len(table) <= 2
