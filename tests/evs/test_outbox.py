"""Messages that wait for the token: they keep their order, share frames of one service, and are only so many."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.evs import outbox as module
from covey.evs.messages import AGREED, CHANGE, SAFE, SERVICES
from covey.evs.outbox import FRAME_BYTES, QUEUED_BYTES_MAX, QUEUED_MAX, TABLE_BYTES, Change, Outbox
from covey.kernel.errors import MisuseError
from covey.kernel.wire import MESSAGES_MAX, unpack_messages

handed = st.lists(
    st.tuples(st.sampled_from(SERVICES), st.lists(st.binary(max_size=28), min_size=1, max_size=6)), max_size=8
)


@given(handed, st.integers(1, 5))
def test_what_is_handed_over_comes_out_in_order_numbered_and_under_its_service(
    batches: list[tuple[str, list[bytes]]], frames: int
) -> None:
    outbox = Outbox(32)
    expected = []
    for service, messages in batches:
        assert outbox.add(messages, service) == len(messages)
        expected += [(service, message) for message in messages]
    found, number = [], 1
    while outbox:
        cut = outbox.cut(frames)
        assert 0 < len(cut) <= frames
        for fresh in cut:
            messages = unpack_messages(fresh.content, 0)
            assert messages is not None
            assert (fresh.number, fresh.messages) == (number, len(messages))
            assert sum(len(message) + TABLE_BYTES for message in messages) <= 32
            number += len(messages)
            found += [(SERVICES[fresh.service], message) for message in messages]
    assert found == expected
    assert outbox.room == QUEUED_MAX
    assert outbox.cut(1) == []


def test_messages_share_a_frame_as_far_as_they_fit_and_have_one_service() -> None:
    outbox = Outbox(32)
    outbox.add([b"12345678"] * 4, "agreed")
    outbox.add([b"x"], "safe")
    outbox.add([b"y"], "safe")
    assert [(fresh.service, fresh.number, fresh.messages) for fresh in outbox.cut(9)] == [
        (AGREED, 1, 2),
        (AGREED, 3, 2),
        (SAFE, 5, 2),
    ]


def test_empty_messages_are_messages_and_no_more_share_a_frame_than_its_table_can_count() -> None:
    outbox = Outbox(4 * MESSAGES_MAX + 400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "QUEUED_MAX", 2 * MESSAGES_MAX)
        outbox.add([b""] * (MESSAGES_MAX + 1), "agreed")
    assert [fresh.messages for fresh in outbox.cut(9)] == [MESSAGES_MAX, 1]


def test_a_full_queue_takes_no_more_and_drops_nothing() -> None:
    outbox = Outbox()
    assert outbox.add([b"x"] * (QUEUED_MAX - 1), "agreed") == QUEUED_MAX - 1
    assert outbox.room == 1
    assert outbox.add([b"y", b"z"], "safe") == 1
    assert (outbox.room, outbox.add([b"z"], "safe"), len(outbox)) == (0, 0, QUEUED_MAX)
    outbox.cut(1)
    assert outbox.room > 0


def test_the_queue_is_bounded_in_bytes_too() -> None:
    outbox = Outbox()
    large = bytes(FRAME_BYTES - TABLE_BYTES)
    assert outbox.add([large] * QUEUED_MAX, "agreed") == QUEUED_BYTES_MAX // len(large) + 1
    assert outbox.room == 0
    assert outbox.add([b"x"], "agreed") == 0
    outbox.cut(1)
    assert outbox.room > 0


def test_a_message_that_no_frame_can_hold_is_refused_with_all_that_came_with_it() -> None:
    outbox = Outbox()
    with pytest.raises(MisuseError, match="a message has at most 59996 bytes; send it in parts"):
        outbox.add([b"x", bytes(FRAME_BYTES - TABLE_BYTES + 1)], "agreed")
    assert len(outbox) == 0


def test_a_service_that_there_is_not_is_refused() -> None:
    with pytest.raises(MisuseError, match="no service 'total'; messages are sent causal, agreed, safe"):
        Outbox().add([b"x"], "total")


def test_a_change_of_the_configured_set_goes_first_in_a_frame_of_its_own_and_takes_no_number() -> None:
    outbox = Outbox()
    outbox.add([b"x"], "agreed")
    outbox.changes += [Change("c", "d"), Change("d", "e")]
    assert len(outbox) == 3
    cut = outbox.cut(2) + outbox.cut(2)
    assert [(fresh.service, fresh.number, fresh.messages) for fresh in cut] == [
        (CHANGE, 0, 0),
        (CHANGE, 0, 0),
        (1, 1, 1),
    ]
    assert [a.service >= b.service for a, b in pairwise(cut)] == [True, True]
