"""Random scenarios: from a seed, first a mix of faults, then the faults.

The mix itself is drawn, so that some runs have one kind of fault and others all kinds at once; a mean of
everything would never show what a few crashes do in the middle of a quiet merge. Faults crowd around
*focus* moments, because protocols break where the second fault meets the reaction to the first.

A scenario has a phase with faults, in which safety is judged, and a calm phase, in which all must come
to rest. Sometimes a minority stays down or cut off for good.
"""

from collections.abc import Sequence

from covey.kernel.errors import MisuseError
from covey.sim.faults import NAMES, Draw, Fault, Faults, Pace, Weathers, draw_weather, moments, whole_ms
from covey.sim.model import Model
from covey.sim.scenario import Scenario, Step

SETTLE_S = 60

RATES = (0.0, 0.0, 0.1, 0.3, 0.8)
STABILITIES = (0.0, 0.5, 2.0)
PACE = Pace()
USUAL: Weathers = {
    "delay": ("lan", "lan", "lan", "wan", "rough"),
    "loss": (0.0, 0.0, 0.01, 0.05, 0.2),
    "duplicate": (0.0, 0.0, 0.02, 0.2),
    "reorder": (0.0, 0.0, 0.05, 0.2),
    "refuse": (0.0, 0.5, 1.0),
    "bandwidth": (0.0, 0.0, 0.0, 200_000.0, 20_000.0),
}

KINDS = (
    Faults.crash,
    Faults.crash,
    Faults.leave,
    Faults.pause,
    Faults.partition,
    Faults.partition,
    Faults.one_way,
    Faults.clock,
    Faults.storm,
)
"""Of a kind that stands here twice there can be two mixes at once."""


def generate(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    draw = Draw(seed)
    members = tuple(NAMES[: draw.one((3, 3, 4, 5, 5, 5, 6, 7))])
    weather = draw_weather(draw, USUAL)
    length = draw.one((6.0, 12.0, 20.0, 30.0))
    faults = Faults(draw, members, weather, PACE)
    steps = [Step(0.0, "start")] if draw.chance(0.7) else faults.staggered()
    focus = [length * draw.unit() for _ in range(1 + int(draw.unit() * 4))]
    for kind in KINDS:
        fault = Fault(draw.one(RATES), draw.one(PACE.durations), draw.one(STABILITIES), draw.chance(0.5))
        for at, seconds in moments(draw, fault, length, focus, PACE):
            steps += kind(faults, at, seconds)
    if draw.chance(0.5):
        steps += _traffic(draw, members, length)
    if draw.chance(0.35):
        steps += faults.total_failure(length * draw.unit())
    if draw.chance(0.3):
        steps += faults.losses(length)
    steps = sorted((step for step in steps if step.at < length), key=lambda step: step.at)
    steps += [Step(length, "calm"), *faults.leftovers(length), Step(length, "settle", (str(SETTLE_S),))]
    return Scenario(members, tuple(steps), seed, weather, draw.chance(0.4), multicast=draw.chance(0.5))


def scenario_of(model: Model, seed: int, size: str = "usual") -> Scenario:
    """Return the scenario of a seed for that model: from a mix of its own, if it has one."""
    if model.generate is not None:
        return model.generate(seed, size)
    if size != "usual":
        raise MisuseError(f"the random runs of {model.name} have one size: leave {size} out")
    return generate(seed)


def _traffic(draw: Draw, members: Sequence[str], length: float) -> list[Step]:
    """Messages of the applications: mostly a few, sometimes more than a queue holds."""
    times = [whole_ms(length * draw.unit()) for _ in range(int(length * draw.one((1, 2, 5))))]
    counts = ("1", "1", "5", "40", "400", "6000")
    return [Step(at, "send", (draw.one(members), draw.one(counts))) for at in times]
