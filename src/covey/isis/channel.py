"""One end of a lossless, ordered channel between two site incarnations (section 4.1).

A windowed acknowledgement protocol. Messages are packed into *segments*, numbered from 1; at most
`WINDOW` segments are under way. The receiver delivers segments in order, keeps those that
came early (never more than a window), and acknowledges with the number up to which it has all and a
bit for each that it has beyond. What is not acknowledged in time is sent again, each time after twice
the time, up to a bound.

Both incarnations are part of a channel's identity and begin at 1, so there is nothing to open: a
restart of either end ends the channel, and with it whatever was not acknowledged.

Bounds: `QUEUE_MAX` messages wait for the window, `WINDOW` segments of at most `SEGMENT_BYTES` (or one
larger message) wait for acknowledgement, `WINDOW` - 1 wait for an earlier one.
"""

from collections import deque

from covey.kernel.errors import BrokenInvariant
from covey.kernel.wire import MESSAGES_MAX

WINDOW = 32
QUEUE_MAX = 4096
SEGMENT_BYTES = 1200
BACKOFF_MAX = 16


class RoundTrips:
    """The time-out that measured round trips suggest: mean plus four times the mean deviation.

    (Jacobson's estimator, as TCP has it.)
    """

    FIRST_S = 0.1
    LEAST_S = 0.01
    MOST_S = 2.0

    def __init__(self) -> None:
        self.mean: float | None = None
        self.deviation = 0.0

    def observe(self, seconds: float) -> None:
        if self.mean is None:
            self.mean, self.deviation = seconds, 0.5 * seconds
            return
        self.deviation += 0.25 * (abs(seconds - self.mean) - self.deviation)
        self.mean += 0.125 * (seconds - self.mean)

    @property
    def timeout(self) -> float:
        if self.mean is None:
            return self.FIRST_S
        return min(max(self.mean + 4 * self.deviation, self.LEAST_S), self.MOST_S)


class Segment:
    """A numbered run of messages, and when it was sent."""

    __slots__ = ("again", "arrived", "messages", "number", "sent")

    def __init__(self, number: int, messages: list[bytes], sent: float) -> None:
        self.number = number
        self.messages = messages
        self.sent = sent
        self.again = False
        self.arrived = False
        """Beyond a gap: it need not be sent again, but those before it are not acknowledged."""


class Channel:
    """Sending and receiving state towards one incarnation of another site."""

    def __init__(self, trips: RoundTrips) -> None:
        self.trips = trips
        self.queue: deque[bytes] = deque()
        self.under_way: deque[Segment] = deque()
        self.next_number = 1
        self.backoff = 1
        self.resend_at: float | None = None
        self.queued = 0
        """Messages taken so far; with `acknowledged`, what `status` is read from."""
        self.acknowledged = 0
        self.received_upto = 0
        self.delivered = 0
        """Messages."""
        self.early: dict[int, list[bytes]] = {}

    # ---- sending ----

    @property
    def room(self) -> int:
        return QUEUE_MAX - len(self.queue)

    def send(self, message: bytes) -> int:
        """Queue a message; return its number among all queued, which `is_sent` takes. Needs `room`."""
        assert self.room, "the caller looks at room first"
        self.queue.append(message)
        self.queued += 1
        return self.queued

    def is_sent(self, number: int) -> bool:
        """Whether the message of that number has been acknowledged."""
        return number <= self.acknowledged

    def pump(self, now: float) -> list[Segment]:
        """Pack what is queued into segments, as far as the window allows; return them for sending."""
        new = []
        while self.queue and len(self.under_way) < WINDOW:
            segment = Segment(self.next_number, self._pack(), now)
            self.next_number += 1
            self.under_way.append(segment)
            new.append(segment)
        if new and self.resend_at is None:
            self.resend_at = now + self.trips.timeout * self.backoff
        return new

    def _pack(self) -> list[bytes]:
        """Take a segment's worth of messages."""
        messages: list[bytes] = []
        size = 0
        while self.queue and len(messages) < MESSAGES_MAX:
            size += len(self.queue[0]) + 4
            if messages and size > SEGMENT_BYTES:
                break
            messages.append(self.queue.popleft())
        return messages

    def acknowledge(self, now: float, upto: int, beyond: int) -> bool:
        """Forget what has arrived. False: it acknowledges what was never sent."""
        if upto >= self.next_number:
            return False
        progress = False
        while self.under_way and self.under_way[0].number <= upto:
            segment = self.under_way.popleft()
            self.acknowledged += len(segment.messages)
            progress = True
            if not segment.again:  # a repeated segment's acknowledgement could be that of either copy
                self.trips.observe(now - segment.sent)
        if progress:
            self.backoff = 1
            self.resend_at = now + self.trips.timeout if self.under_way else None
        for segment in self.under_way:
            distance = segment.number - upto - 2
            if distance >= 0 and beyond >> distance & 1:
                segment.arrived = True
        return True

    def due(self, now: float) -> list[Segment]:
        """Return the segments to send again now."""
        if self.resend_at is None or now < self.resend_at:
            return []
        self.backoff = min(self.backoff * 2, BACKOFF_MAX)
        self.resend_at = now + self.trips.timeout * self.backoff
        missing = [segment for segment in self.under_way if not segment.arrived]
        for segment in missing:
            segment.again = True
        return missing

    # ---- receiving ----

    def receive(self, number: int, messages: list[bytes]) -> list[bytes] | None:
        """Take a segment; return the messages that it makes deliverable, in order. None: not a new one."""
        if number <= self.received_upto or number in self.early or number > self.received_upto + WINDOW:
            return None
        self.early[number] = messages
        deliverable: list[bytes] = []
        while (run := self.early.pop(self.received_upto + 1, None)) is not None:
            self.received_upto += 1
            deliverable += run
        self.delivered += len(deliverable)
        return deliverable

    @property
    def receipt(self) -> tuple[int, int]:
        """What to acknowledge: all up to a number, and a bit for each after the next one."""
        beyond = 0
        for number in self.early:
            beyond |= 1 << (number - self.received_upto - 2)
        return self.received_upto, beyond

    def check(self) -> None:
        """The bounds that the head of this module states."""
        if len(self.queue) > QUEUE_MAX or len(self.under_way) > WINDOW or len(self.early) >= WINDOW:
            raise BrokenInvariant(
                f"a channel with {len(self.queue)} queued, {len(self.under_way)} under way, {len(self.early)} early"
            )
        if any(not self.received_upto + 1 < number <= self.received_upto + WINDOW for number in self.early):
            raise BrokenInvariant(f"early segments {sorted(self.early)} after {self.received_upto}")
