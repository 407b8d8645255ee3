"""One member's part in a ring: frames get numbers, everybody gets the frames, and what all have is known to be safe.

Source: Totem, on which evs-1994 runs; "the ordinal number" of the paper is a frame's `seq` and its place in the
frame. The holder of the token, at each *visit*:

    1  sends again what the token asks for, and takes that off the token's list; what it has sent again in the visit
       before it leaves to another, since there may be somebody who does not hear it
    2  sends new frames under the next numbers, as far as flow control lets it
    3  lowers the token's aru (all received up to) to its own; raises it again if it was the one that lowered it
    4  asks for what it misses
    5  knows to be safe what the aru passed on this visit and on the one before: each member has let it pass once

The ring is accelerated: the token leaves before the last frames of its holder, so the next one starts while the
first still sends. A frame that the token tells of may thus be on its way; it is asked for one rotation later.

A ring knows nothing of time, addresses and configurations: tokens and frames come in, tokens and frames go out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from covey.evs.messages import (
    CHANGE,
    RANGES_MAX,
    RECOVERED,
    SAFE,
    Frame,
    Range,
    RingId,
    Token,
    pack_frame,
    read_frame,
    ring_bytes,
)
from covey.kernel.errors import BrokenInvariant
from covey.kernel.ids import ProcessId

VISIT_MAX = 16
"""Frames that a member sends in one visit, old and new, ..."""
WINDOW = 48
"""... and all members in one rotation."""
LATE = 8
"""So many of them leave after the token."""
AHEAD_MAX = 512
"""No number is given out that far beyond the aru: so much a member keeps, at most."""
UNSAFE_MAX = 4 * AHEAD_MAX
"""A frame that far beyond what all have cannot be: the aru may be too high by what one rotation sends, not more."""

NOT_YET = -1
"""Of an aru: no visit has seen one."""


class Fresh(NamedTuple):
    """A new frame before it has a number."""

    service: int
    number: int
    """Of its first message."""
    messages: int
    """How many there are."""
    content: bytes


def to_ranges(seqs: Iterable[int]) -> tuple[Range, ...]:
    """Write numbers, in order, as ranges: the first ones, where there are too many."""
    ranges: list[Range] = []
    for seq in seqs:
        if ranges and seq == ranges[-1].last + 1:
            ranges[-1] = Range(ranges[-1].first, seq)
        elif len(ranges) == RANGES_MAX:
            break
        else:
            ranges.append(Range(seq, seq))
    return tuple(ranges)


def in_ranges(ranges: Iterable[Range]) -> Iterator[int]:
    """Return the numbers in ranges."""
    for first, last in ranges:
        yield from range(first, last + 1)


class Ring:
    """What one member has and knows of a ring."""

    def __init__(self, ring: RingId, members: Sequence[ProcessId], me: ProcessId, hop: int = 0) -> None:
        """`members` are in the order of the ring; it begins after `hop` hops of the commit token."""
        self.id = ring
        self.config = str(ring)
        self.members = tuple(members)
        self.names = tuple(pid.name for pid in members)
        self.place = self.members.index(me)
        self.bytes = ring_bytes(ring)
        self.frames: dict[int, Frame] = {}
        """Those that somebody may still need."""
        self.aru = 0
        """I have all up to here."""
        self.safe = NOT_YET
        """All members have all up to here, as I know; `NOT_YET` until that is known of anything."""
        self.was_safe = NOT_YET
        """The same before the last visit."""
        self.delivered = 0
        self.discarded = 0
        self.recovered = 0
        """The first so many frames are those of old rings."""
        self.hop = hop
        """Of the last token."""
        self.token_aru = NOT_YET
        self.token_seq = 0
        """As the last visit passed them on."""
        self.sent = 0
        """Frames that I sent in the last visit."""
        self.resent: set[int] = set()
        """Those that I was asked for there."""
        self.last_sender = 0
        """The place of the member that sent the highest frame."""
        self.is_quiet = False
        """Whether at the last visit nobody had anything to send, to ask for or to wait for."""

    @property
    def next(self) -> ProcessId:
        """To whom I pass the token."""
        return self.members[(self.place + 1) % len(self.members)]

    @property
    def is_alone(self) -> bool:
        return len(self.members) == 1

    # ---- frames ----

    def read(self, body: bytes) -> Frame | None:
        """Read a frame of this ring; None where it cannot be one."""
        frame = read_frame(self.bytes, body)
        if frame is None or frame.origin >= len(self.members) or frame.seq > max(self.safe, 0) + UNSAFE_MAX:
            return None
        return frame if (frame.service == RECOVERED) == (frame.seq <= self.recovered) else None

    def take(self, frame: Frame) -> bool:
        """Keep a frame; whether it is new."""
        if frame.seq <= self.aru or frame.seq in self.frames:
            return False
        self._keep(frame)
        return True

    def _keep(self, frame: Frame) -> None:
        self.frames[frame.seq] = frame
        while self.aru + 1 in self.frames:
            self.aru += 1
            self.last_sender = self.frames[self.aru].origin

    @property
    def beyond(self) -> list[int]:
        """The numbers of the frames that I have beyond the first that I miss."""
        return sorted(seq for seq in self.frames if seq > self.aru)

    def add(self, seq: int, fresh: Fresh) -> Frame:
        """Send a new frame under that number."""
        frame = pack_frame(self.bytes, seq, self.place, fresh.service, fresh.number, fresh.content)
        self._keep(frame)
        return frame

    # ---- the token ----

    def is_possible(self, token: Token) -> bool:
        """Whether a token can come that says so; what it says is counted up to."""
        members = len(self.members)
        return (
            not self.is_alone
            and token.hop <= self.hop + members
            and max(self.aru, self.token_seq) <= token.seq <= max(self.safe, 0) + UNSAFE_MAX
            and sum(last - first for first, last in token.missing) <= UNSAFE_MAX
            and token.flow <= VISIT_MAX * members
        )

    def visit(self, token: Token, fresh: Callable[[int], Sequence[Fresh]]) -> tuple[Token, list[Frame]]:
        """Do what the holder does; return the token to pass on, and the frames to send.

        `fresh` gives up to so many new frames.
        """
        # 1
        asked = set(in_ranges(token.missing))
        again = [self.frames[seq] for seq in sorted(asked - self.resent) if seq in self.frames][:VISIT_MAX]
        self.resent = {frame.seq for frame in again} if len(self.members) > 2 else set()
        asked -= {frame.seq for frame in again}
        # 2
        new = fresh(self._allowance(token, len(again)))
        frames = again + [self.add(token.seq + place, each) for place, each in enumerate(new, 1)]
        seq = token.seq + len(new)
        # 3
        me = self.names[self.place]
        aru, lowered_by = token.aru, token.lowered_by
        if self.aru < aru or lowered_by in ("", me):
            aru = min(self.aru, seq)
            lowered_by = "" if aru == seq else me
        # 4
        asked.update(number for number in range(self.aru + 1, self.token_seq + 1) if number not in self.frames)
        # 5
        self.was_safe = self.safe
        self.safe = max(self.safe, min(aru, self.token_aru))
        self.is_quiet = not new and not asked and aru == seq == self.was_safe
        flow = max(0, token.flow - self.sent) + len(frames)
        self.hop, self.token_aru, self.token_seq, self.sent = token.hop, aru, seq, len(frames)
        missing = to_ranges(sorted(asked))
        return Token(self.id, token.hop + 1, seq, aru, lowered_by, missing, flow, token.is_installed), frames

    def _allowance(self, token: Token, again: int) -> int:
        """How many new frames flow control lets me send."""
        others = max(0, token.flow - self.sent)
        return max(0, min(VISIT_MAX - again, WINDOW - others - again, AHEAD_MAX - (token.seq - token.aru)))

    @property
    def is_resting_place(self) -> bool:
        """Whether a quiet token rests here: with the one that sent last."""
        return self.is_quiet and self.last_sender == self.place

    # ---- delivery ----

    def ready(self) -> Iterator[Frame]:
        """Take, in order, the frames that can be delivered now."""
        while (frame := self.frames.get(self.delivered + 1)) is not None:
            if frame.service in (SAFE, CHANGE) and frame.seq > self.safe:
                break
            self.delivered += 1
            yield frame

    def discard(self) -> None:
        """Give up the frames that were delivered here and that all have."""
        while self.discarded < min(self.safe, self.delivered):
            self.discarded += 1
            del self.frames[self.discarded]
        if len(self.frames) > UNSAFE_MAX:
            raise BrokenInvariant(f"ring {self.config} keeps {len(self.frames)} frames")

    def check(self) -> None:
        """Raise `BrokenInvariant` where what it knows contradicts itself."""
        if not (self.safe <= self.aru and self.delivered <= self.aru):
            raise BrokenInvariant(f"{self.config}: delivered {self.delivered}, safe {self.safe}, received {self.aru}")
        frame = self.frames.get(self.delivered)
        if frame is not None and frame.service in (SAFE, CHANGE) and frame.seq > self.safe:
            raise BrokenInvariant(f"{self.config}: frame {frame.seq} was delivered before it was safe")
        if self.aru + 1 in self.frames:
            raise BrokenInvariant(f"{self.config}: frame {self.aru + 1} is there, all up to {self.aru} are said to be")
