"""Random scenarios: from a seed, first a mix of faults, then the faults.

The mix itself is drawn, so that some runs have one kind of fault and others all kinds at once; a mean of
everything would never show what a few crashes do in the middle of a quiet merge. Faults crowd around
*focus* moments, because protocols break where the second fault meets the reaction to the first.

A scenario has a phase with faults, in which safety is judged, and a calm phase, in which all must come
to rest. Sometimes a minority stays down or cut off for good.
"""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from msgspec import Struct

from covey.sim.network import NetworkOptions
from covey.sim.scenario import Scenario, Step

NAMES = "abcdefghijklmnopqrstuvwxyz"
SETTLE_S = 60

T = TypeVar("T")


class Fault(Struct, frozen=True):
    """How often a kind of fault begins, how long it lasts, and for how long at least there is none after it."""

    rate: float
    """A second; 0 for never."""
    duration: float
    stability: float


RATES = (0.0, 0.0, 0.1, 0.3, 0.8)
DURATIONS = (0.1, 0.5, 1.5, 3.0, 6.0)
STABILITIES = (0.0, 0.5, 2.0)
NEAR = (0.0, 0.002, 0.02, 0.1, 0.3, 0.8, 1.2, 1.5, 1.8, 2.5)
"""How long after a focus moment a fault comes; a silence is noticed after 1.2 to 1.8 s."""


class Draw:
    """Draws that come out the same on every machine."""

    def __init__(self, seed: int) -> None:
        self._random = Random(2 * seed + 1)  # not the stream of the world with that seed
        self.unit = self._random.random

    def one(self, of: Sequence[T]) -> T:
        return of[int(self.unit() * len(of))]

    def chance(self, share: float) -> bool:
        return self.unit() < share

    def some(self, of: Sequence[T], least: int, most: int) -> list[T]:
        """Draw so many different ones, in their order."""
        count = least + int(self.unit() * (most - least + 1))
        left = list(of)
        while len(left) > count:
            del left[int(self.unit() * len(left))]
        return left

    def time(self, value: float) -> float:
        """Draw around a value, in whole milliseconds."""
        return int(value * (0.5 + self.unit()) * 1000) * 0.001


def generate(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    draw = Draw(seed)
    members = tuple(NAMES[: draw.one((3, 3, 4, 5, 5, 5, 6, 7))])
    weather = _weather(draw)
    length = draw.one((4.0, 8.0, 15.0, 25.0))
    steps = [Step(0.0, "start")] if draw.chance(0.7) else _staggered(draw, members)
    focus = [length * draw.unit() for _ in range(1 + int(draw.unit() * 4))]
    for kind in KINDS:
        fault = Fault(draw.one(RATES), draw.one(DURATIONS), draw.one(STABILITIES))
        for at in _moments(draw, fault, length, focus):
            steps += kind(draw, members, at, fault)
    if draw.chance(0.5):
        steps += _traffic(draw, members, length)
    if draw.chance(0.35):
        steps += _total_failure(draw, members, length * draw.unit())
    steps += _losses(draw, members, length)
    steps = sorted((step for step in steps if step.at < length), key=lambda step: step.at)
    end = _round(length)
    steps += [Step(end, "calm"), *_leftovers(draw, members, end), Step(end, "settle", (str(SETTLE_S),))]
    return Scenario(members, tuple(steps), seed, weather, draw.chance(0.4))


def _round(time: float) -> float:
    return int(time * 1000) * 0.001


def _weather(draw: Draw) -> NetworkOptions:
    return NetworkOptions(
        delay=draw.one(("lan", "lan", "lan", "wan", "rough")),
        loss=draw.one((0.0, 0.0, 0.01, 0.05, 0.2)),
        duplicate=draw.one((0.0, 0.0, 0.02, 0.2)),
        reorder=draw.one((0.0, 0.0, 0.05, 0.2)),
        bandwidth=draw.one((0.0, 0.0, 0.0, 200_000.0, 20_000.0)),
    )


def _staggered(draw: Draw, members: Sequence[str]) -> list[Step]:
    return [Step(draw.time(draw.one(DURATIONS)), "start", (name,)) for name in members]


def _moments(draw: Draw, fault: Fault, length: float, focus: Sequence[float]) -> list[float]:
    """When faults of a kind begin: some anywhere, some soon after a focus moment."""
    moments = []
    at = 0.0
    while fault.rate and (at := at + fault.stability + 2 * draw.unit() / fault.rate) < length:
        moments.append(_round(draw.one(focus) + draw.one(NEAR) + 0.05 * draw.unit() if draw.chance(0.5) else at))
    return moments


# ---- the kinds of fault ------------------------------------------------------------------------


def _crash(draw: Draw, members: Sequence[str], at: float, fault: Fault) -> list[Step]:
    name = draw.one(members)
    words = (name, "after", str(int(draw.unit() * 12)), "keep", draw.one(("0", "0.3", "0.9")))
    back = _round(at + draw.time(fault.duration))
    return [Step(at, "crash", words), Step(back, "start", (name,))]


def _leave(draw: Draw, members: Sequence[str], at: float, fault: Fault) -> list[Step]:
    name = draw.one(members)
    return [Step(at, "leave", (name,)), Step(_round(at + draw.time(fault.duration)), "start", (name,))]


def _pause(draw: Draw, members: Sequence[str], at: float, fault: Fault) -> list[Step]:
    return [Step(at, "pause", (draw.one(members), "for", f"{draw.time(fault.duration):g}"))]


def _partition(draw: Draw, members: Sequence[str], at: float, fault: Fault) -> list[Step]:
    """A partition of any shape, into two or three; none if all happen to be on one side."""
    groups: list[list[str]] = [[] for _ in range(draw.one((2, 2, 2, 3)))]
    for name in members:
        draw.one(groups).append(name)
    sides = [" ".join(group) for group in groups if group]
    length = f"{draw.time(fault.duration):g}"
    return [Step(at, "cut", (*" | ".join(sides).split(), "for", length))] if len(sides) > 1 else []


def _one_way(draw: Draw, members: Sequence[str], at: float, fault: Fault) -> list[Step]:
    sources = draw.some(members, 1, len(members) - 1)
    sinks = draw.some([name for name in members if name not in sources], 1, len(members))
    return [Step(at, "cut", (*sources, ">", *sinks, "for", f"{draw.time(fault.duration):g}"))]


def _clock(draw: Draw, members: Sequence[str], at: float, fault: Fault) -> list[Step]:
    name = draw.one(members)
    if draw.chance(0.5):
        return [Step(at, "jump", (name, f"{draw.time(fault.duration):g}"))]
    return [Step(at, "clock", (name, draw.one(("0.5", "0.9", "1.1", "2"))))]


def _storm(draw: Draw, members: Sequence[str], at: float, fault: Fault) -> list[Step]:
    """Another weather for a while."""
    words = tuple(
        draw.one(("rough loss 0.3", "wan loss 0.1 duplicate 0.2", "lan loss 0.5", "lan bandwidth 5000")).split()
    )
    return [Step(at, "weather", words), Step(_round(at + draw.time(fault.duration)), "weather", ("lan",))]


KINDS = (_crash, _crash, _leave, _pause, _partition, _partition, _one_way, _clock, _storm)


def _traffic(draw: Draw, members: Sequence[str], length: float) -> list[Step]:
    """Messages of the applications: mostly a few, sometimes more than a queue holds."""
    steps = []
    for _ in range(int(length * draw.one((1, 2, 5)))):
        count = draw.one(("1", "1", "5", "40", "400", "6000"))
        steps.append(Step(_round(length * draw.unit()), "send", (draw.one(members), count)))
    return steps


def _total_failure(draw: Draw, members: Sequence[str], at: float) -> list[Step]:
    """Everybody crashes within a moment, and comes back in any order."""
    steps = []
    for name in members:
        steps.append(Step(_round(at + 0.2 * draw.unit()), "crash", (name, "after", str(int(draw.unit() * 4)))))
        steps.append(Step(_round(at + 0.5 + draw.time(draw.one(DURATIONS))), "start", (name,)))
    return steps


def _losses(draw: Draw, members: Sequence[str], length: float) -> list[Step]:
    """Fewer than half of the machines lose their disks."""
    steps = []
    for name in draw.some(members, 0, (len(members) - 1) // 2) if draw.chance(0.3) else ():
        at = _round(length * draw.unit())
        steps += [Step(at, "rob", (name,)), Step(_round(at + draw.time(draw.one(DURATIONS))), "start", (name,))]
    return steps


def _leftovers(draw: Draw, members: Sequence[str], at: float) -> list[Step]:
    """Sometimes a minority does not come back, or stays cut off."""
    if draw.chance(0.75):
        return []
    minority = draw.some(members, 1, (len(members) - 1) // 2)
    if draw.chance(0.6):
        return [Step(at, "crash", (name,)) for name in minority]
    others = [name for name in members if name not in minority]
    return [Step(at, "cut", (*minority, "|", *others))]
