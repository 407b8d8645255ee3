"""Channels under loss, duplication and reordering: each message once, in order, with bounded windows.

The spec twin is the protocol with sets: what has arrived, what is acknowledged, and nothing of segments' sizes,
time-outs or bits. Both are driven with one schedule.
"""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.isis.channel import BACKOFF_MAX, QUEUE_MAX, SEGMENT_BYTES, WINDOW, Channel, RoundTrips, Segment

FAR = 1e6


class Twin:
    """Both ends of a channel whose every message is a segment."""

    def __init__(self) -> None:
        self.queued: list[bytes] = []
        self.started = 0
        """How many have been sent at least once: numbers 1 to that."""
        self.arrived: set[int] = set()
        self.known: set[int] = set()
        """What the sender knows to have arrived."""

    def upto(self, numbers: set[int]) -> int:
        return max(n for n in range(len(self.queued) + 1) if {*range(1, n + 1)} <= numbers)

    def pump(self) -> None:
        self.started = max(self.started, min(len(self.queued), self.upto(self.known) + WINDOW))

    @property
    def missing(self) -> set[int]:
        """What is to be sent again."""
        return {*range(1, self.started + 1)} - self.known

    @property
    def delivered(self) -> list[bytes]:
        return self.queued[: self.upto(self.arrived)]


def big(number: int) -> bytes:
    """A message that fills a segment, so that segments and messages have the same numbers."""
    return b"%d" % number + bytes(SEGMENT_BYTES)


VERBS = ("send", "arrive", "arrive", "arrive", "receipt", "receipt", "time")
steps = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 99)), max_size=150)


@given(steps)
def test_a_channel_does_what_its_twin_does(schedule: list[tuple[str, int]]) -> None:
    sender, receiver, twin = Channel(RoundTrips()), Channel(RoundTrips()), Twin()
    delivered: list[bytes] = []
    sent: list[Segment] = []
    """Every copy ever sent may arrive at any time, any number of times."""
    receipts: list[tuple[tuple[int, int], set[int]]] = []
    now = 0.0
    for verb, which in schedule:
        now += 1
        if verb == "send":
            for _ in range(1 + which):
                twin.queued.append(big(len(twin.queued)))
                sender.send(twin.queued[-1])
        elif verb == "arrive" and sent:
            segment = sent[which % len(sent)]
            was_new = segment.number not in twin.arrived and segment.number <= len(twin.delivered) + WINDOW
            twin.arrived |= {segment.number} if was_new else set()
            new = receiver.receive(segment.number, segment.messages)
            assert (new is not None) == was_new
            delivered += new or []
            receipts.append((receiver.receipt, set(twin.arrived)))
        elif verb == "receipt" and receipts:
            (upto, beyond), arrived = receipts[which % len(receipts)]
            twin.known |= arrived
            assert sender.acknowledge(now, upto, beyond)
        elif verb == "time":
            now += FAR
            again = sender.due(now)
            assert {segment.number for segment in again} <= twin.missing
            sent += again
        sent += sender.pump(now)
        twin.pump()
        assert delivered == twin.delivered
        assert len(sender.under_way) <= WINDOW
        assert {segment.number for segment in sender.under_way if not segment.arrived} == twin.missing
        sender.check()
        receiver.check()


@given(st.lists(st.integers(0, 3 * SEGMENT_BYTES), max_size=60), st.integers(0, 2**32))
def test_everything_arrives_once_and_in_order_over_a_bad_network(sizes: list[int], seed: int) -> None:
    sender, receiver, chance = Channel(RoundTrips()), Channel(RoundTrips()), Random(seed)
    messages = [b"%d:" % number + bytes(size) for number, size in enumerate(sizes)]
    last = [sender.send(message) for message in messages][-1:] or [0]
    delivered: list[bytes] = []
    now = 0.0
    for _ in range(2000):
        if sender.is_sent(last[0]):
            break
        now += 0.05
        segments = [*sender.pump(now), *sender.due(now)]
        segments += [segment for segment in segments if chance.random() < 0.3]
        chance.shuffle(segments)
        for segment in segments:
            if chance.random() < 0.7:
                delivered += receiver.receive(segment.number, segment.messages) or []
            if chance.random() < 0.7:
                sender.acknowledge(now, *receiver.receipt)
    assert delivered == messages
    assert receiver.delivered == len(messages)
    assert sender.resend_at is None


def test_a_full_window_waits_and_a_full_queue_says_so() -> None:
    channel = Channel(RoundTrips())
    for number in range(QUEUE_MAX):
        assert channel.room == QUEUE_MAX - number
        channel.send(big(number))
    assert channel.room == 0
    assert len(channel.pump(0.0)) == WINDOW
    assert channel.pump(0.0) == []
    assert channel.room == WINDOW


def test_small_messages_share_a_segment_and_a_large_one_has_its_own() -> None:
    channel = Channel(RoundTrips())
    small, large = b"x" * 100, b"y" * 5 * SEGMENT_BYTES
    for message in (small, small, large, small):
        channel.send(message)
    assert [segment.messages for segment in channel.pump(0.0)] == [[small, small], [large], [small]]


def test_all_messages_of_an_acknowledged_segment_are_sent() -> None:
    channel = Channel(RoundTrips())
    numbers = [channel.send(message) for message in (b"x", b"y", b"z" * SEGMENT_BYTES)]
    channel.pump(0.0)
    channel.acknowledge(0.0, 1, 0)
    assert [channel.is_sent(number) for number in numbers] == [True, True, False]


def test_a_receipt_for_what_was_never_sent_is_refused() -> None:
    channel = Channel(RoundTrips())
    channel.send(b"x")
    channel.pump(0.0)
    assert not channel.acknowledge(0.0, 2, 0)
    assert not channel.is_sent(1)
    assert channel.acknowledge(0.0, 1, 0)
    assert channel.is_sent(1)


def test_repetitions_come_after_twice_the_time_up_to_a_bound_and_progress_ends_that() -> None:
    channel = Channel(RoundTrips())
    channel.send(b"x")
    channel.pump(0.0)
    waits = []
    now = 0.0
    for _ in range(7):
        assert channel.resend_at is not None
        waits.append(channel.resend_at - now)
        now = channel.resend_at
        assert channel.due(now - 1e-6) == []
        assert [segment.number for segment in channel.due(now)] == [1]
    assert waits == pytest.approx([RoundTrips.FIRST_S * times for times in (1, 2, 4, 8, 16, BACKOFF_MAX, BACKOFF_MAX)])
    channel.send(b"y")
    channel.pump(now)
    channel.acknowledge(now, 1, 0)
    assert channel.backoff == 1


def test_a_repeated_segment_measures_no_round_trip() -> None:
    """Its acknowledgement may be that of either copy."""
    channel = Channel(RoundTrips())
    channel.send(b"x")
    channel.pump(0.0)
    channel.due(FAR)
    channel.acknowledge(FAR, 1, 0)
    assert channel.trips.mean is None


def test_time_outs_follow_the_measured_round_trips() -> None:
    trips = RoundTrips()
    assert trips.timeout == RoundTrips.FIRST_S
    for _ in range(200):
        trips.observe(0.2)
    assert trips.timeout == pytest.approx(0.2, rel=0.01)
    for _ in range(200):
        trips.observe(0.0001)
    assert trips.timeout == RoundTrips.LEAST_S
    for seconds in (0.1, 0.9) * 50:
        trips.observe(seconds)
    assert trips.timeout > 1.0
    trips.observe(1e9)
    assert trips.timeout == RoundTrips.MOST_S


def test_a_receiver_keeps_no_more_than_a_window() -> None:
    channel = Channel(RoundTrips())
    for number in range(2, 3 * WINDOW):
        taken = channel.receive(number, [b"x"]) is not None
        assert taken == (number <= WINDOW)
    assert len(channel.early) == WINDOW - 1
    channel.check()
