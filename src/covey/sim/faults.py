"""What may befall a simulated world: faults and weathers, and how a seed draws them.

A stack's random scenarios (`covey.sim.generate`, `covey.sim.generate_ring`) draw a mix of these.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from covey.sim.network import NetworkOptions
from covey.sim.scenario import Step, in_words, weather_words

NAMES = "abcdefghijklmnopqrstuvwxyz"
T = TypeVar("T")


class Fault(Struct, frozen=True):
    """How often a kind of fault begins, how long it lasts, and how soon another of the kind may begin.

    They may overlap: protocols break where one process fails while another is down.
    """

    rate: float
    """A second; 0 for never."""
    duration: float
    stability: float
    """The least time from one beginning to the next."""
    crowds: bool
    """Whether they all come soon after focus moments instead."""


Weathers = Mapping[str, Sequence[Any]]

STORMS: Weathers = {
    "delay": ("lan", "wan", "rough"),
    "loss": (0.0, 0.1, 0.3, 0.5),
    "duplicate": (0.0, 0.0, 0.2, 0.5),
    "reorder": (0.0, 0.0, 0.2, 0.5),
    "refuse": (0.0, 1.0),
    "bandwidth": (0.0, 0.0, 0.0, 5_000.0),
}


class Pace(NamedTuple):
    """When faults are worth having: how fast a stack reacts decides it. As they stand, for one that takes seconds."""

    durations: Sequence[float] = (0.1, 0.5, 1.5, 3.0, 6.0)
    near: Sequence[float] = (0.0, 0.002, 0.02, 0.1, 0.3, 0.8, 1.2, 1.5, 1.8, 2.5)
    """How long after a focus moment a fault comes; a silence is noticed after 1.2 to 1.8 s."""
    jitter: float = 0.05
    """So much later at most."""
    effects: int = 12
    """A process crashes after fewer effects than that."""
    storms: Weathers = STORMS


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
        return whole_ms(value * (0.5 + self.unit()))


def whole_ms(time: float) -> float:
    """Round down to a time that a text says exactly."""
    return int(time * 1000) / 1000


def draw_weather(draw: Draw, of: Weathers) -> NetworkOptions:
    return NetworkOptions(**{name: draw.one(values) for name, values in of.items()})


def moments(
    draw: Draw, fault: Fault, length: float, focus: Sequence[float], pace: Pace
) -> Iterator[tuple[float, float]]:
    """When faults of a kind begin, and how long they last."""
    at = 0.0
    while fault.rate and (at := at + fault.stability + 2 * draw.unit() / fault.rate) < length:
        near = draw.one(focus) + draw.one(pace.near) + pace.jitter * draw.unit() if fault.crowds else at
        yield whole_ms(near), draw.time(fault.duration)


class Faults:
    """What may happen to these members; each method draws the steps of one fault, or of one kind."""

    def __init__(self, draw: Draw, members: Sequence[str], weather: NetworkOptions, pace: Pace) -> None:
        self.draw = draw
        self.members = members
        self.weather = weather
        self.pace = pace

    # ---- for so many seconds ----

    def crash(self, at: float, seconds: float) -> list[Step]:
        name = self.draw.one(self.members)
        return [self._crash(name, at, self.pace.effects), Step(whole_ms(at + seconds), "start", (name,))]

    def _crash(self, name: str, at: float, effects: int) -> Step:
        after = str(int(self.draw.unit() * effects))
        return Step(at, "crash", (name, "after", after, "keep", self.draw.one(("0", "0.3", "0.9", "1"))))

    def leave(self, at: float, seconds: float) -> list[Step]:
        name = self.draw.one(self.members)
        return [Step(at, "leave", (name,)), Step(whole_ms(at + seconds), "start", (name,))]

    def pause(self, at: float, seconds: float) -> list[Step]:
        return [Step(at, "pause", (self.draw.one(self.members), "for", in_words(seconds)))]

    def partition(self, at: float, seconds: float) -> list[Step]:
        """A partition of any shape; sometimes one member still reaches all. None if all are on one side."""
        draw = self.draw
        groups: list[list[str]] = [[] for _ in range(draw.one((2, 2, 2, 3, len(self.members))))]
        bridge = draw.one(self.members) if draw.chance(0.15) else ""
        for name in self.members:
            if name != bridge:
                draw.one(groups).append(name)
        sides = [" ".join(group) for group in groups if group]
        words = " | ".join(sides).split()
        return [Step(at, "cut", (*words, "for", in_words(seconds)))] if len(sides) > 1 else []

    def one_way(self, at: float, seconds: float) -> list[Step]:
        sources = self.draw.some(self.members, 1, len(self.members) - 1)
        others = [name for name in self.members if name not in sources]
        return [Step(at, "cut", (*sources, ">", *self.draw.some(others, 1, len(others)), "for", in_words(seconds)))]

    def clock(self, at: float, seconds: float) -> list[Step]:
        name = self.draw.one(self.members)
        if self.draw.chance(0.5):
            return [Step(at, "jump", (name, in_words(seconds)))]
        rate = self.draw.one(("0.5", "0.9", "1.1", "2"))
        return [Step(at, "clock", (name, rate)), Step(whole_ms(at + seconds), "clock", (name, "1"))]

    def storm(self, at: float, seconds: float) -> list[Step]:
        """Another weather for a while."""
        storm, usual = (weather_words(weather) for weather in (draw_weather(self.draw, self.pace.storms), self.weather))
        return [Step(at, "weather", tuple(storm)), Step(whole_ms(at + seconds), "weather", tuple(usual))]

    # ---- in a whole run ----

    def staggered(self) -> list[Step]:
        """Everybody starts, at different times."""
        return [Step(self.draw.time(self.draw.one(self.pace.durations)), "start", (name,)) for name in self.members]

    def total_failure(self, at: float) -> list[Step]:
        """Everybody crashes within a moment, and comes back in any order."""
        steps = []
        for name in self.members:
            back = at + 0.5 + self.draw.time(self.draw.one(self.pace.durations))
            steps.append(self._crash(name, whole_ms(at + 0.2 * self.draw.unit()), 4))
            steps.append(Step(whole_ms(back), "start", (name,)))
        return steps

    def losses(self, length: float) -> list[Step]:
        """Fewer than half of the machines lose their disks."""
        steps = []
        for name in self.draw.some(self.members, 1, (len(self.members) - 1) // 2):
            at = whole_ms(length * self.draw.unit())
            back = at + self.draw.time(self.draw.one(self.pace.durations))
            steps += [Step(at, "rob", (name,)), Step(whole_ms(back), "start", (name,))]
        return steps

    def leftovers(self, at: float) -> list[Step]:
        """Sometimes a minority does not come back, or stays cut off."""
        if self.draw.chance(0.75):
            return []
        minority = self.draw.some(self.members, 1, (len(self.members) - 1) // 2)
        if self.draw.chance(0.6):
            return [Step(at, "crash", (name,)) for name in minority]
        others = [name for name in self.members if name not in minority]
        return [Step(at, "cut", (*minority, "|", *others))]
