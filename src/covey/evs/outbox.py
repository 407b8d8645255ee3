"""Messages of the application that wait for the token, and how they become frames.

Messages that were handed over under one service, one after the other, share frames. The queue is bounded: a sender
waits when it is full, and nothing is dropped.
"""

from collections import deque
from collections.abc import Sequence
from itertools import accumulate

import msgspec

from covey.evs.messages import CHANGE, SERVICES
from covey.evs.ring import Fresh
from covey.kernel.errors import MisuseError
from covey.kernel.wire import MESSAGES_MAX, pack_messages

FRAME_BYTES = 60_000
"""A frame holds messages up to that size, their table included, unless told otherwise."""
TABLE_BYTES = 4
"""Of the table, for each message."""
QUEUED_MAX = 20_000
QUEUED_BYTES_MAX = 8_000_000


class Change(msgspec.Struct, frozen=True, array_like=True):
    """A change of the configured set, as a frame holds it."""

    old: str
    new: str


class Outbox:
    """The queue of one member."""

    def __init__(self, frame_bytes: int = FRAME_BYTES) -> None:
        """A message has a frame to itself at most."""
        self.frame_bytes = frame_bytes
        self.number = 1
        """Of the next message that becomes part of a frame."""
        self.changes: deque[Change] = deque()
        self._runs: deque[tuple[int, deque[bytes]]] = deque()
        """Messages under one service each, in order."""
        self._count = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._count + len(self.changes)

    @property
    def room(self) -> int:
        return 0 if self._bytes >= QUEUED_BYTES_MAX else QUEUED_MAX - self._count

    def add(self, messages: Sequence[bytes], service: str) -> int:
        """Take messages, from the first on; return how many."""
        if service not in SERVICES:
            raise MisuseError(f"there is no service {service!r}; messages are sent {', '.join(SERVICES)}")
        if any(len(message) + TABLE_BYTES > self.frame_bytes for message in messages):
            raise MisuseError(f"a message has at most {self.frame_bytes - TABLE_BYTES} bytes; send it in parts")
        queued = accumulate(map(len, messages), initial=self._bytes)  # in bytes, before each
        free = messages[: max(self.room, 0)]
        taken = [message for message, size in zip(free, queued, strict=False) if size < QUEUED_BYTES_MAX]
        if not taken:
            return 0
        code = SERVICES.index(service)
        if not self._runs or self._runs[-1][0] != code:
            self._runs.append((code, deque()))
        self._runs[-1][1].extend(taken)
        self._count += len(taken)
        self._bytes += sum(map(len, taken))
        return len(taken)

    def cut(self, frames: int) -> list[Fresh]:
        """Take up to so many frames from the head of the queue."""
        fresh: list[Fresh] = []
        while self.changes and len(fresh) < frames:
            fresh.append(Fresh(CHANGE, 0, 0, msgspec.msgpack.encode(self.changes.popleft())))
        while self._runs and len(fresh) < frames:
            service, run = self._runs[0]
            messages = self._frame_of(run)
            if not run:
                self._runs.popleft()
            fresh.append(Fresh(service, self.number, len(messages), pack_messages(messages)))
            self.number += len(messages)
        return fresh

    def _frame_of(self, run: deque[bytes]) -> list[bytes]:
        messages: list[bytes] = []
        size = 0
        while run and size + len(run[0]) + TABLE_BYTES <= self.frame_bytes and len(messages) < MESSAGES_MAX:
            size += len(run[0]) + TABLE_BYTES
            messages.append(run.popleft())
        self._count -= len(messages)
        self._bytes -= size - TABLE_BYTES * len(messages)
        return messages
