"""Scenarios as text: what befalls which machine when, in lines that a person can read and change.

    members a b c d e
    seed 7
    weather rough loss 0.05 duplicate 0.01 reorder 0.1 bandwidth 100000
    drain burst
    0      start
    1.5    crash a                      after 3 more effects, keeping half of what was not flushed:
    1.5    crash a after 3 keep 0.5
    2      start a
    2      rob c                        crash, and lose the disk
    2      send a 40                    the application at a sends 40 messages
    2.5    leave d
    3      pause b for 2.5
    3      cut a b | c d e for 4        both ways, between any number of groups
    3      cut a > b c for 1.5          one way
    4      clock d 1.5                  runs fast
    4      jump d 3
    5      weather lan
    10     calm                         all faults end, everybody is up
    10     settle 60                    until all have come to rest, for so long at most

A number that opens a line is the time of the step; `#` begins a comment. The same things can be said in
Python, as methods of `World`.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from covey.kernel.errors import MisuseError
from covey.sim.network import NetworkOptions
from covey.sim.world import World


class Step(Struct, frozen=True):
    """One thing that happens."""

    at: float
    verb: str
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((f"{self.at:g}".ljust(7), self.verb, *self.words))


class Scenario(Struct, frozen=True):
    """Members, weather and steps; with its seed it is one run, always the same."""

    members: tuple[str, ...]
    steps: tuple[Step, ...]
    seed: int = 0
    weather: NetworkOptions = NetworkOptions()
    burst: bool = False

    def __str__(self) -> str:
        lines = [f"members {' '.join(self.members)}", f"seed {self.seed}"]
        if self.weather != NetworkOptions():
            lines.append(f"weather {' '.join(weather_words(self.weather))}")
        if self.burst:
            lines.append("drain burst")
        return "\n".join((*lines, *map(str, self.steps))) + "\n"

    def play(self, world: World) -> None:
        """Let it all happen, in the order of time."""
        world.weather(self.weather)
        for step in sorted(self.steps, key=lambda step: step.at):
            world.run_until(max(step.at, world.now))
            VERBS[step.verb](world, step.words)
            for watcher in world.step_watchers:
                watcher(step)


def weather_words(weather: NetworkOptions) -> list[str]:
    """Return the weather in the words that `parse` reads."""
    words = [weather.delay]
    for name in ("loss", "duplicate", "reorder", "bandwidth"):
        if value := getattr(weather, name):
            words += [name, f"{value:g}"]
    return words


# ---- reading -----------------------------------------------------------------------------------


def parse(text: str) -> Scenario:
    """Read a scenario; an error names the line and what may stand there."""
    members: tuple[str, ...] = ()
    seed, weather, burst = 0, NetworkOptions(), False
    steps = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        try:
            match words:
                case []:
                    pass
                case ["members", *names] if names:
                    members = tuple(names)
                case ["seed", value]:
                    seed = int(value)
                case ["weather", *rest]:
                    weather = _weather(rest)
                case ["drain", ("burst" | "packet") as how]:
                    burst = how == "burst"
                case [at, verb, *rest] if verb in VERBS:
                    steps.append(Step(float(at), verb, tuple(rest)))
                case _:
                    raise MisuseError(f"expected members, seed, weather, drain, or a time and one of {_verbs()}")
        except ValueError as error:
            raise MisuseError(f"line {number}: {line.strip()!r}: {error}") from error
    if not members:
        raise MisuseError("a scenario needs a line `members` with their names")
    return Scenario(members, tuple(steps), seed, weather, burst)


def _verbs() -> str:
    return ", ".join(VERBS)


def _weather(words: Sequence[str]) -> NetworkOptions:
    values = {name: float(value) for name, value in zip(words[1::2], words[2::2], strict=True)}
    unknown = values.keys() - {"loss", "duplicate", "reorder", "bandwidth"}
    if unknown or not words:
        raise MisuseError("weather is a table of delays, then any of loss, duplicate, reorder, bandwidth with a number")
    return NetworkOptions(words[0], **values)


def _options(words: Sequence[str], **defaults: float) -> dict[str, float]:
    """Read pairs of a name and a number."""
    pairs = dict(zip(words[::2], words[1::2], strict=True))
    if unknown := pairs.keys() - defaults.keys():
        raise MisuseError(f"{' '.join(sorted(unknown))}? expected {' or '.join(defaults)} and a number")
    return {name: float(pairs.get(name, default)) for name, default in defaults.items()}


# ---- the verbs ---------------------------------------------------------------------------------

Words = Sequence[str]


def _start(world: World, words: Words) -> None:
    world.start(*words)


def _crash(world: World, words: Words) -> None:
    name, *rest = words
    options = _options(rest, after=0, keep=0)
    world.crash(name, after=int(options["after"]), kept=options["keep"])


def _rob(world: World, words: Words) -> None:
    for name in words:
        world.rob(name)


def _send(world: World, words: Words) -> None:
    name, count = words
    world.send(name, int(count))


def _leave(world: World, words: Words) -> None:
    for name in words:
        world.machine(name).leave()


def _pause(world: World, words: Words) -> None:
    name, *rest = words
    world.pause(name, _options(rest, **{"for": 1.0})["for"])


def _cut(world: World, words: Words) -> None:
    """Until mended by time, or for ever."""
    length = 0.0
    if "for" in words:
        at = list(words).index("for")
        length, words = float(words[at + 1]), words[:at]
    if ">" in words:
        at = list(words).index(">")
        cut = world.cut_one_way(words[:at], words[at + 1 :])
    else:
        cut = world.partition(*(group.split() for group in " ".join(words).split("|")))
    if length:
        world.at(world.now + length, lambda: world.mend(cut))


def _clock(world: World, words: Words) -> None:
    name, rate = words
    world.clock(name, float(rate))


def _jump(world: World, words: Words) -> None:
    name, seconds = words
    world.jump(name, float(seconds))


def _change_weather(world: World, words: Words) -> None:
    world.weather(_weather(words))


def _calm(world: World, words: Words) -> None:
    world.calm()


def _settle(world: World, words: Words) -> None:
    (seconds,) = words
    world.settle(float(seconds))


VERBS: dict[str, Callable[[World, Words], None]] = {
    "start": _start,
    "crash": _crash,
    "rob": _rob,
    "send": _send,
    "leave": _leave,
    "pause": _pause,
    "cut": _cut,
    "clock": _clock,
    "jump": _jump,
    "weather": _change_weather,
    "calm": _calm,
    "settle": _settle,
}
