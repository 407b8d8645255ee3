"""What every engine owes its host (`covey.kernel.engine`), as a check that can be run on any of them.

    check_contract(lambda around: MyEngine(around, ...), [packet, ...])

The packets are some that the engine understands, from another process; garbage is made of them here.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from covey.kernel.effects import Effect
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.ids import ProcessId

Build = Callable[[Surroundings], Engine]

ME = ProcessId("a", 3)
PEER_ADDRESS = "b:1"
WAKES = 50
REASONS_MAX = 64
"""Drops are counted by reason: there are some dozens of these, not one for each packet."""


class EmptyStorage:
    """Only for reading: an engine writes by effects."""

    def get(self, key: str) -> bytes | None:
        return None

    def log(self) -> list[bytes]:
        return []


def surroundings(seed: int = 1) -> Surroundings:
    return Surroundings(ME, "a:1", EmptyStorage(), Random(seed))


def check_contract(build: Build, packets: Sequence[bytes]) -> None:
    """Fail unless the engine does its duties."""
    for duty in (gives_effects_away, wakes_up_in_time, drops_garbage_by_name, does_the_same_again, does_not_look_back):
        duty(build, packets)


def started(build: Build) -> Engine:
    engine = build(surroundings())
    engine.start(0.0)
    return engine


def gives_effects_away(build: Build, packets: Sequence[bytes]) -> None:
    """What was taken is the host's, and holds nothing but effects."""
    engine = started(build)
    taken = engine.take()
    kept = list(taken)
    assert engine.out == [], "take leaves an empty list"
    for _ in live(engine, packets):
        pass
    assert taken == kept, "what was taken does not grow any more"
    for effect in (*taken, *engine.take()):
        assert isinstance(effect, Effect), f"{effect!r} is no effect"


def wakes_up_in_time(build: Build, packets: Sequence[bytes]) -> None:
    """`wake` at the deadline does what was due, so that the next deadline is later; often and early is harmless."""
    engine = started(build)
    now = 0.0
    for _ in range(WAKES):
        engine.wake(now)
        engine.check()
        if engine.deadline is None:
            return
        now = max(now, engine.deadline)
        engine.wake(now)
        assert engine.deadline is None or engine.deadline > now, f"after wake({now}) it wants wake({engine.deadline})"


def drops_garbage_by_name(build: Build, packets: Sequence[bytes]) -> None:
    """Whatever arrives, nothing is raised; what cannot be understood is counted, and breaks nothing."""
    engine = started(build)
    for packet in garbage(packets):
        before = engine.drops.total()
        engine.receive(1.0, PEER_ADDRESS, packet)
        engine.check()
        assert engine.drops.total() > before, f"{packet!r} was dropped in silence"
    for packet in suspicious(packets):
        engine.receive(1.0, PEER_ADDRESS, packet)
        engine.check()
    assert len(engine.drops) <= REASONS_MAX, f"{len(engine.drops)} reasons for a drop"
    assert all(engine.drops), "every drop has a name"


def garbage(packets: Sequence[bytes]) -> Iterator[bytes]:
    """What no stack understands."""
    yield from (b"", b"\0", b"\xff" * 100, b"cv", bytes(2000))
    for packet in packets:
        yield from (packet[:8], b"CV" + packet[2:], packet[:2] + b"\xff" + packet[3:])


def suspicious(packets: Sequence[bytes]) -> Iterator[bytes]:
    """What may be understood, or not: packets with an end cut off, a byte changed, or bytes behind."""
    for packet in packets:
        for at in range(len(packet)):
            yield packet[:at]
            yield packet[:at] + bytes([packet[at] ^ 0xFF]) + packet[at + 1 :]
        yield packet + b"\0"


def does_the_same_again(build: Build, packets: Sequence[bytes]) -> None:
    """The same inputs and the same seed give the same effects: there is no other clock or chance."""
    histories = []
    for _ in range(2):
        engine = started(build)
        deadlines = [engine.deadline for _ in live(engine, packets)]
        histories.append((engine.take(), deadlines))
    assert histories[0] == histories[1], "the same inputs gave other effects"


def does_not_look_back(build: Build, packets: Sequence[bytes]) -> None:
    """An engine that is drained after every input does the same as one that is drained once."""
    histories = []
    for drains in (True, False):
        engine = started(build)
        history: list[Effect] = []
        for _ in live(engine, packets):
            if drains:
                history += engine.take()
        histories.append(history + engine.take())
    assert histories[0] == histories[1], "what it does depends on what the host has taken"


def live(engine: Engine, packets: Sequence[bytes]) -> Iterator[None]:
    """Give an engine some of everything; yields after each input."""
    now = 0.0
    for packet in packets:
        now += 0.25
        engine.receive(now, PEER_ADDRESS, packet)
        yield
        engine.receive(now, PEER_ADDRESS, packet[:-1])
        yield
        engine.wake(now)
        yield
    engine.hint(now, PEER_ADDRESS)
    yield
    engine.paused(now + 5.0, 5.0)
    yield
    engine.meet(now + 5.0, ["nobody:1", "nobody:1"])
    yield
    engine.wake(now + 5.0)
    yield
