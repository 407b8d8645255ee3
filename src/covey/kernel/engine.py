"""The contract between a protocol and whatever runs it.

An engine is a state machine without sockets, clocks, threads or disks. A host calls it with the
time and what has happened; the engine changes its state and leaves effects in `out`. The host then
takes the list *by swap* (`take`) and carries it out in order; only the host acts.

Duties of a host, which every engine may rely on:

1. `start` comes first, once. Nothing is called after a `Halt` was taken.
2. `now` never decreases within one incarnation. It is in seconds, from 0 up, of a clock of the host's
   choice: only differences mean anything, and clocks of two processes cannot be compared.
3. The host may call an engine any number of times before it takes `out`, but it takes it before it
   waits for anything.
4. `wake` is called as soon as possible after `deadline`; it may come early or often.
5. Packets may be lost, repeated, reordered and delayed, and any bytes may arrive as one.
6. After the process itself was not running for longer than a bound of the host's, `paused` is called
   before anything that was received meanwhile.

Duties of an engine: to look at no clock and at no randomness but what it is given, to keep every
queue bounded, to name and count all that it drops, and to be done soon.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from msgspec import Struct

from covey.kernel.effects import Effect, Note
from covey.kernel.ids import ProcessId
from covey.kernel.storage import Stable

NOTE_S = 1.0


class Surroundings(Struct, frozen=True):
    """What a host gives to the engine of one incarnation."""

    me: ProcessId
    address: str
    """Where this process is reached: the `to` of other processes' `Send`."""
    stable: Stable
    """Stable storage as the earlier incarnations left it; written to by effects only."""
    random: Random
    """Seeded by the host; engines use only `random()` and `getrandbits()`."""


class Engine(ABC):
    """One incarnation of a protocol at one process."""

    def __init__(self, around: Surroundings) -> None:
        self.me = around.me
        self.random = around.random
        self.out: list[Effect] = []
        self.deadline: float | None = None
        self.drops: Counter[str] = Counter()
        self._noted: dict[str, int] = {}
        self._note_at = 0.0

    def take(self) -> list[Effect]:
        """Give the effects so far to the host, which carries them out in order."""
        out, self.out = self.out, []
        return out

    def drop(self, reason: str) -> None:
        """Count something that was discarded."""
        self.drops[reason] += 1

    def note_drops(self, now: float) -> None:
        """Tell the trace what was discarded so far, if there is news of it, and not more often than every `NOTE_S`."""
        if now >= self._note_at and self.drops != self._noted:
            self._note_at, self._noted = now + NOTE_S, dict(self.drops)
            counters = {f"dropped: {why}": count for why, count in sorted(self.drops.items())}
            self.out.append(Note("state", {"counters": counters}))

    @abstractmethod
    def start(self, now: float) -> None:
        """Begin; stable storage may be read."""

    @abstractmethod
    def receive(self, now: float, source: str, packet: bytes) -> None:
        """Take one packet that came from the address `source`."""

    @abstractmethod
    def wake(self, now: float) -> None:
        """Do what was due at `deadline`."""

    @property
    def room(self) -> int:
        """How many messages `submit` would take now; the host makes senders wait for it."""
        return 0

    def submit(self, now: float, batch: Sequence[Any], service: str = "") -> int:
        """Take messages of the application, from the first on; return how many were taken.

        `service` is the promise under which they are sent: one of those that the stack has, its usual one if empty.
        """
        raise NotImplementedError(f"{type(self).__name__} takes no messages of an application")

    def hint(self, now: float, peer: str) -> None:  # noqa: B027 - a hint may be ignored
        """Learn that the port at that address refused a packet: the process there may be dead."""

    def meet(self, now: float, addresses: Sequence[str]) -> None:  # noqa: B027 - may be ignored
        """Learn at which addresses others may be from now on, instead of those that it was made with; hints, too."""

    def paused(self, now: float, seconds: float) -> None:  # noqa: B027 - may be ignored
        """Learn that this process itself was not running for so long."""

    def leave(self, now: float) -> None:
        """Go gracefully, with a `Halt` when done."""
        raise NotImplementedError(f"{type(self).__name__} cannot leave gracefully")

    def check(self) -> None:  # noqa: B027 - an engine without invariants has none to check
        """Raise `BrokenInvariant` when the state is one that the paper forbids."""
