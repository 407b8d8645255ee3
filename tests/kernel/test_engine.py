"""The contract between engines and hosts: what the base class gives, and what the check of the duties catches."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec import Struct

from covey.isis.messages import CODEC as ISIS
from covey.isis.messages import Hello, Receipt
from covey.isis.sites import Sites
from covey.kernel.effects import Append, Cast, Deliver, Halt, Install, Note, Send, Store
from covey.kernel.engine import Engine
from covey.kernel.errors import BrokenInvariant
from covey.kernel.ids import ProcessId
from covey.kernel.wire import Codec, Dropped
from tests.kernel.contract import ME, Build, check_contract, surroundings

SURFACE = ["start", "receive", "wake", "submit", "room", "hint", "paused", "leave", "deadline", "out"]


class Count(Struct, frozen=True, array_like=True):
    number: int


CODEC = Codec({1: Count}, {})
OTHER = ProcessId("b", 1)
COUNTS = [CODEC.control(OTHER, Count(number)) for number in (1, 5, 2)]


class Largest(Engine):
    """Agrees on the largest number that anyone has; says its own every second."""

    largest = 0

    def start(self, now: float) -> None:
        self.deadline = now

    def receive(self, now: float, source: str, packet: bytes) -> None:
        parsed = CODEC.decode(packet)
        if isinstance(parsed, Dropped):
            self.drop(parsed.reason)
        elif parsed.body.number <= self.largest:
            self.drop("not larger")
        else:
            self.largest = parsed.body.number
            self.out.append(Store("largest", b"%d" % self.largest))

    def wake(self, now: float) -> None:
        if self.deadline is not None and now >= self.deadline:
            self.deadline = now + 1 + self.random.random() / 10
            self.out.append(Cast(CODEC.control(self.me, Count(self.largest))))


# --- the base class


def test_an_engine_has_the_surface_that_hosts_call() -> None:
    engine = Largest(surroundings())
    assert [name for name in SURFACE if not hasattr(engine, name)] == []


def test_taking_gives_the_effects_in_order_and_leaves_none() -> None:
    engine = Largest(surroundings())
    engine.start(0.0)
    for packet in COUNTS[:2]:
        engine.receive(0.0, "b:1", packet)
    assert engine.take() == [Store("largest", b"1"), Store("largest", b"5")]
    assert engine.take() == []


def test_drops_are_counted_by_their_reason() -> None:
    engine = Largest(surroundings())
    for packet in (*COUNTS, b"", b"?"):
        engine.receive(0.0, "b:1", packet)
    assert engine.drops == {"not larger": 1, "short": 2}


def test_an_engine_that_takes_no_messages_has_no_room_and_says_so() -> None:
    engine = Largest(surroundings())
    assert engine.room == 0
    with pytest.raises(NotImplementedError, match="Largest takes no messages of an application"):
        engine.submit(0.0, [b"x"])


def test_an_engine_that_cannot_leave_says_so() -> None:
    with pytest.raises(NotImplementedError, match="Largest cannot leave gracefully"):
        Largest(surroundings()).leave(0.0)


def test_hints_pauses_and_invariants_may_be_ignored() -> None:
    engine = Largest(surroundings())
    engine.hint(0.0, "b:1")
    engine.paused(0.0, 3.0)
    engine.check()
    assert engine.take() == []


@pytest.mark.parametrize(
    "effect",
    [
        Send("b:1", b""),
        Cast(b""),
        Store("a", b""),
        Append(b""),
        Deliver(ME, 1, [b"x"]),
        Install("v1", 1, ("a",)),
        Note("state", {}),
        Halt("you are dead", restart=True),
    ],
    ids=lambda effect: type(effect).__name__,
)
def test_an_effect_does_not_change_once_it_is_left(effect: Any) -> None:
    with pytest.raises(AttributeError):
        setattr(effect, effect.__struct_fields__[0], None)


# --- the check of the duties: right engines pass, and each broken one is caught


def sites() -> Build:
    return lambda around: Sites(around, ["a:1", "b:1"], configured=["a", "b"])


HELLOS = [
    ISIS.control(OTHER, Hello(1.0, -1.0, 0.0, None, -1)),
    ISIS.control(OTHER, Hello(2.0, 0.25, 0.1, ME, -1)),
    ISIS.control(OTHER, Receipt(ME, 0, 0, 0)),
]


@pytest.mark.parametrize(
    ("build", "packets"), [(Largest, COUNTS), (sites(), HELLOS)], ids=["a tiny engine", "sites of isis-1985"]
)
def test_engines_do_their_duties(build: Build, packets: Sequence[bytes]) -> None:
    check_contract(build, packets)


class KeepsWhatWasTaken(Largest):
    def take(self) -> Any:
        return self.out


class LeavesSomethingElse(Largest):
    def wake(self, now: float) -> None:
        super().wake(now)
        self.out.append("an idea")  # type: ignore[arg-type]


class NeverSleeps(Largest):
    def wake(self, now: float) -> None:
        self.out.append(Cast(b""))


class RaisesOnGarbage(Largest):
    def receive(self, now: float, source: str, packet: bytes) -> None:
        if packet[0] == ord("c"):
            super().receive(now, source, packet)
        else:
            self.drop("magic")


class DropsInSilence(Largest):
    def receive(self, now: float, source: str, packet: bytes) -> None:
        if not isinstance(CODEC.decode(packet), Dropped):
            super().receive(now, source, packet)


class CountsEachByItself(Largest):
    def drop(self, reason: str) -> None:
        super().drop(f"{reason} {self.drops.total()}")


class IsBrokenByGarbage(Largest):
    def check(self) -> None:
        if self.drops["version"]:
            raise BrokenInvariant("a packet of another version came")


class LooksAtAClock(Largest):
    def wake(self, now: float) -> None:
        super().wake(now + time.perf_counter())


class LooksBack(Largest):
    def receive(self, now: float, source: str, packet: bytes) -> None:
        if not self.out:
            super().receive(now, source, packet)


@pytest.mark.parametrize(
    ("broken", "error", "complaint"),
    [
        (KeepsWhatWasTaken, AssertionError, "take leaves an empty list|does not grow any more"),
        (LeavesSomethingElse, AssertionError, "'an idea' is no effect"),
        (NeverSleeps, AssertionError, r"after wake\(0.0\) it wants wake\(0.0\)"),
        (RaisesOnGarbage, IndexError, "index out of range"),
        (DropsInSilence, AssertionError, "b'' was dropped in silence"),
        (CountsEachByItself, AssertionError, "reasons for a drop"),
        (IsBrokenByGarbage, BrokenInvariant, "another version"),
        (LooksAtAClock, AssertionError, "the same inputs gave other effects"),
        (LooksBack, AssertionError, "depends on what the host has taken"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_duty_that_is_not_done_is_caught(
    broken: Callable[..., Engine], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        check_contract(broken, COUNTS)
