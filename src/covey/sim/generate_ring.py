"""Random scenarios for stacks that order messages on a ring: in nearly every run there is traffic when something fails.

A ring reacts within milliseconds, but for a silence, which it waits out. So runs are short and faults crowd
closely: just before and after a burst of messages, while a token goes round, and in the midst of the recovery
from the fault before. A ring sends packets all the time, in quiet times, too: what is left out of a run's
length is had again in the number of runs.
"""

from collections.abc import Sequence

from covey.kernel.errors import MisuseError
from covey.sim.faults import NAMES, Draw, Fault, Faults, Pace, Weathers, draw_weather, moments, whole_ms
from covey.sim.network import NetworkOptions
from covey.sim.scenario import Scenario, Step, in_words

SETTLE_S = 60
SERVICES = ("causal", "agreed", "safe")
RATES = (0.0, 0.0, 0.1, 0.2, 0.5)
INTENSITIES = (0.25, 0.5, 1.0, 2.0)
"""Of all kinds of faults together, in a run."""
STABILITIES = (0.0, 0.3, 1.0)
PACE = Pace(
    durations=(0.05, 0.2, 0.6, 1.5, 3.0),
    near=(0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.8, 0.9, 1.2),  # a silence is noticed after 0.8 s
    jitter=0.004,
    effects=30,
    storms={
        "delay": ("lan", "wan", "rough"),
        "loss": (0.0, 0.1, 0.3, 0.5),
        "duplicate": (0.0, 0.0, 0.2, 0.5),
        "reorder": (0.0, 0.0, 0.2, 0.5),
        "refuse": (0.0, 1.0),
        "bandwidth": (0.0, 0.0, 0.0, 50_000.0),
    },
)
REFUSE = (0.0, 0.5, 1.0)
"""Of good weather: on a network without faults, too, the ports of the dead refuse packets, or a wall swallows them."""
BAD: Weathers = {
    "delay": ("lan", "lan", "wan", "rough"),
    "loss": (0.0, 0.01, 0.05, 0.2),
    "duplicate": (0.0, 0.0, 0.02, 0.2),
    "reorder": (0.0, 0.0, 0.05, 0.2),
    "refuse": REFUSE,
    "bandwidth": (0.0, 0.0, 0.0, 1_000_000.0, 200_000.0),
}
MESSAGES = {"usual": (40, 60, 80, 120, 200, 300), "large": (1000, 4000, 20_000)}
"""In all, of a run of each size."""
BURSTS = (3, 6, 12, 25)
"""So many times messages are sent."""
SENDERS_MAX = 3
"""By so many members at once."""
CASCADES = (0, 0, 0, 1, 2, 3)
"""So many times everybody sends, and one crashes in the midst of the recovery from the crash of another."""
SHARES = (1, 1, 2, 5, 20)
"""Of the messages that one burst has, beside another."""
BEFORE = (0.0, 0.001, 0.002, 0.005, 0.01)
"""How long before a fault messages are sent that it may find in flight."""


def generate_ring(seed: int, size: str = "usual") -> Scenario:
    """Return the scenario of a seed, with as many messages as its size says."""
    if size not in MESSAGES:
        raise MisuseError(f"no size {size!r}; there are {', '.join(MESSAGES)}")
    draw = Draw(seed)
    members = tuple(NAMES[: draw.one((2, 3, 3, 4, 4, 5, 5, 6, 7))])
    weather = NetworkOptions(refuse=draw.one(REFUSE)) if draw.chance(0.6) else draw_weather(draw, BAD)
    length = draw.one((4.0, 6.0, 8.0, 11.0, 15.0))
    faults = RingFaults(draw, members, weather, PACE)
    steps = [Step(0.0, "start")] if draw.chance(0.6) else faults.staggered()
    focus = [length * draw.unit() for _ in range(1 + int(draw.unit() * 4))]
    intensity = draw.one(INTENSITIES)
    for kind in KINDS:
        fault = Fault(intensity * draw.one(RATES), draw.one(PACE.durations), draw.one(STABILITIES), draw.chance(0.6))
        for at, seconds in moments(draw, fault, length, focus, PACE):
            steps += kind(faults, at, seconds)
    spares = members[configured_of(members) :] if draw.chance(0.35) else ()
    for _ in range(1 + int(draw.unit() * 3) if spares else 0):
        steps += faults.takeover(0.5 + length * draw.unit(), draw.one(spares))
    if draw.chance(0.15):
        steps += faults.total_failure(length * draw.unit())
    if draw.chance(0.25):
        steps += faults.losses(length)
    messages = draw.one(MESSAGES[size])
    cascades = draw.one(CASCADES)
    for _ in range(cascades):
        steps += faults.cascade(0.2 + length * draw.unit(), messages // 6)
    messages -= messages // 6 * cascades
    sends = _traffic(draw, members, length, focus, steps, messages) if draw.chance(0.96) else []
    end = max([length, *(step.at for step in sends)])
    steps = [step for step in steps if step.at < length] + [Step(length, "calm"), *faults.leftovers(length), *sends]
    steps = [*sorted(steps, key=lambda step: step.at), Step(end, "settle", (str(SETTLE_S),))]
    burst, multicast, dynamic = draw.chance(0.4), draw.chance(0.5), draw.chance(0.6)
    options = ("spares",) if spares else ("dynamic",) if dynamic else ()
    return Scenario(members, tuple(steps), seed, weather, burst, multicast=multicast, options=options)


def configured_of(members: Sequence[str]) -> int:
    """Return how many of the first members are configured where the others are spare: an odd number, for close votes.

    It is the engines' own rule (`covey.evs.scenarios`): a scenario says only that there are spare ones.
    """
    return len(members) - (1 if len(members) % 2 == 0 else 2)


class RingFaults(Faults):
    """What may happen to the members of a ring besides."""

    def partitions(self, at: float, seconds: float) -> list[Step]:
        """One side after the other is cut off from the rest, and they come back each at its own time."""
        draw = self.draw
        cuts: list[Step] = []
        left = list(self.members)
        while len(left) > 1 and len(cuts) < 3:
            side = draw.some(left, 1, max(1, len(left) // 2))
            left = [name for name in left if name not in side]
            length = in_words(draw.time(seconds))
            cuts.append(Step(whole_ms(at + 0.1 * draw.unit()), "cut", (*side, "|", *left, "for", length)))
        return cuts

    def cascade(self, at: float, messages: int) -> list[Step]:
        """Everybody sends, and one after the other crashes, each in the midst of what the crash before has set off."""
        draw = self.draw
        at = whole_ms(at)
        count = str(max(1, messages // len(self.members)))
        service = draw.one(("agreed", "safe", "safe"))
        sends = [Step(at, "send", (name, count, service)) for name in self.members]
        left = list(self.members)
        crashes: list[Step] = []
        for effects in draw.one(((20, 60), (20, 60, 100))):
            name = draw.one(left)
            left.remove(name)
            crashes.append(self._crash(name, at, effects))
            crashes.append(Step(whole_ms(at + 0.5 + draw.time(1.0)), "start", (name,)))
            if not left:
                break
        return crashes + sends

    def takeover(self, at: float, spare: str) -> list[Step]:
        """A spare member is given the place of another, just before the network falls apart."""
        draw = self.draw
        at = whole_ms(at)
        other = draw.one([name for name in self.members if name != spare])
        ask = Step(at, "ask", (draw.one(self.members), "replace", other, spare))
        return [ask, *self.partition(whole_ms(at + 0.015 * draw.unit()), draw.one((1.2, 2.5)))]

    def losses(self, length: float) -> list[Step]:
        """Half of the machines at most lose their disks; half of those are given the place that they had before."""
        draw = self.draw
        steps = []
        for name in draw.some(self.members, 1, len(self.members) // 2):
            old = name
            at = 0.7 * length * draw.unit()
            for again in range(2, 4 if draw.chance(0.2) else 3):
                back = at + draw.time(draw.one(self.pace.durations))
                steps += [Step(whole_ms(at), "rob", (name,)), Step(whole_ms(back), "start", (name,))]
                at = back + draw.time(1.5)
                if draw.chance(0.5):
                    other = draw.one([other for other in self.members if other != name])
                    steps.append(Step(whole_ms(at), "ask", (other, "replace", old, f"{name}~{again}")))
                    old = f"{name}~{again}"
        return steps


KINDS = (
    RingFaults.crash,
    RingFaults.crash,
    RingFaults.leave,
    RingFaults.pause,
    RingFaults.partition,
    RingFaults.partition,
    RingFaults.partitions,
    RingFaults.one_way,
    RingFaults.clock,
    RingFaults.storm,
)
"""Of a kind that stands here twice there can be two mixes at once."""


def _traffic(
    draw: Draw, members: Sequence[str], length: float, focus: Sequence[float], faults: Sequence[Step], messages: int
) -> list[Step]:
    """Messages of the applications: some at any time, many just before a fault or in the midst of what follows."""
    services = SERVICES if draw.chance(0.85) else (draw.one(SERVICES),)
    moments = [step.at for step in faults if step.verb != "start"] or [0.0]
    ends = [length, *(step.at + float(step.words[-1]) for step in faults if "for" in step.words)]
    shares = [draw.one(SHARES) for _ in range(draw.one(BURSTS))]
    steps = []
    for share in shares:
        at = draw.one(
            (
                length * draw.unit(),
                draw.one(focus) + draw.one(PACE.near),
                draw.one(moments) - draw.one(BEFORE),
                draw.one(moments) + draw.one(PACE.near),
                draw.one(ends) + draw.one(PACE.near),
            )
        )
        at = whole_ms(min(max(at, 0.0), length + draw.one(PACE.near)))
        senders = draw.some(members, 1, min(SENDERS_MAX, len(members)))
        if count := messages * share // (sum(shares) * len(senders)):
            steps += [Step(at, "send", (name, str(count), draw.one(services))) for name in senders]
    return steps
