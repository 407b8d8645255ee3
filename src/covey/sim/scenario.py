"""Scenarios as text: what befalls which machine when, in lines that a person can read and change.

    members a b c d e
    model isis85
    seed 7
    weather rough loss 0.05 duplicate 0.01 reorder 0.1 refuse 0.5 bandwidth 100000
    drain burst
    multicast on
    with dynamic                        # an option of the model's own
    0      start
    1.5    crash a
    1.5    crash b after 3 keep 0.5     # after 3 more effects; half of what was not flushed is kept
    2      start a
    2      rob c                        # crash, and lose the disk
    2      send a 40                    # the application at a sends 40 messages
    2      send a 40 safe               # under a service that the model has
    2      ask a replace c c~2          # a request to the process, in the words of the model
    2.5    leave d
    3      pause b for 2.5
    3      cut a b | c d e for 4        # both ways, between any number of groups
    3      cut a > b c for 1.5          # one way
    4      clock d 1.5                  # runs fast
    4      jump d 3
    5      weather lan
    10     calm                         # all faults end, everybody is up
    10     settle 60                    # until all have come to rest, for so long at most

A number that opens a line is the time of the step; `#` begins a comment; what follows a line `----` is
not read. The same things can be said in Python, as methods of `World`.

With `refuse`, the port of a process that is down refuses that share of packets, and their senders hear of it.
A process that drains in `burst` mode is given all that its socket holds before its effects are carried out,
and may be woken early. On a network that multicasts, everybody hears every packet that is cast, also
one that is meant for a few.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from covey.kernel.engine import Engine
from covey.kernel.errors import MisuseError
from covey.sim.model import Model
from covey.sim.network import QUANTILES_MS, NetworkOptions
from covey.sim.world import World, check_members

SHARES = ("loss", "duplicate", "reorder", "refuse")


class Step(Struct, frozen=True):
    """One thing that happens."""

    at: float
    verb: str
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((in_words(self.at).ljust(7), self.verb, *self.words))


class Scenario(Struct, frozen=True):
    """Members, weather and steps; with its seed it is one run, always the same."""

    members: tuple[str, ...]
    steps: tuple[Step, ...]
    seed: int = 0
    weather: NetworkOptions = NetworkOptions()
    burst: bool = False
    model: str = ""
    """The protocol that it is meant for; empty where it is for any."""
    multicast: bool = False
    options: tuple[str, ...] = ()
    """Of the model, for this run."""

    def __str__(self) -> str:
        lines = [f"members {' '.join(self.members)}"]
        if self.model:
            lines.append(f"model {self.model}")
        lines.append(f"seed {self.seed}")
        if self.weather != NetworkOptions():
            lines.append(f"weather {' '.join(weather_words(self.weather))}")
        if self.burst:
            lines.append("drain burst")
        if self.multicast:
            lines.append("multicast on")
        if self.options:
            lines.append(f"with {' '.join(self.options)}")
        return "\n".join((*lines, *map(str, self.steps))) + "\n"

    def play(self, world: World) -> None:
        """Let it all happen, in the order of time."""
        world.weather(self.weather)
        for step in sorted(self.steps, key=lambda step: step.at):
            world.run_until(step.at)
            world.settled = False
            world.steps.append((world.now, step))
            VERBS[step.verb](world, step.words)
            for watcher in world.step_watchers:
                watcher(step)


def weather_words(weather: NetworkOptions) -> list[str]:
    """Return the weather in the words that `parse` reads."""
    words = [weather.delay]
    for name in (*SHARES, "bandwidth"):
        if value := getattr(weather, name):
            words += [name, in_words(value)]
    return words


def in_words(number: float) -> str:
    """Return the shortest text that is read as that number again."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


# ---- reading -----------------------------------------------------------------------------------


class Line(Struct, frozen=True):
    """A line of the text, for errors to name."""

    number: int
    text: str

    def wrong(self, why: object) -> MisuseError:
        return MisuseError(f"line {self.number}: {self.text.strip()!r}: {why}")


def parse(text: str, models: Mapping[str, Model] | None = None) -> Scenario:
    """Read a scenario; an error names the line and what may stand there.

    `models` are those that it may be for, by their names; under "", the one that it is for where it names none. Without
    them, what depends on the model is taken as it is.
    """
    members: tuple[str, ...] = ()
    model, seed, weather, burst, multicast = "", 0, NetworkOptions(), False, False
    options: tuple[str, ...] = ()
    told: dict[str, Line] = {}
    steps = {}
    for number, content in enumerate(text.splitlines(), 1):
        line = Line(number, content)
        words = content.partition("#")[0].split()
        if words:
            told[words[0]] = line
        try:
            match words:
                case []:
                    pass
                case ["----"]:
                    break
                case ["members", *names] if names:
                    check_members(names)
                    members = tuple(names)
                case ["model", name]:
                    model = name
                case ["seed", value] if value.isdecimal():
                    seed = int(value)
                case ["weather", *rest]:
                    weather = _weather(rest)
                case ["drain", ("burst" | "packet") as how]:
                    burst = how == "burst"
                case ["multicast", ("on" | "off") as how]:
                    multicast = how == "on"
                case ["with", _, *_]:
                    options = tuple(words[1:])
                case [at, verb, *rest] if verb in VERBS:
                    steps[line] = Step(_number(at), verb, tuple(rest))
                case [word, *_] if word in SETTINGS:
                    raise MisuseError(f"expected {SETTINGS[word]}")
                case _:
                    raise MisuseError(f"expected {', '.join(SETTINGS)}, or a time and one of {', '.join(VERBS)}")
        except MisuseError as error:
            raise line.wrong(error) from error
    if not members:
        raise MisuseError("a scenario needs a line `members` with their names")
    meant = None
    if models is not None:
        meant = _named(model, models, told.get("model"))
        _check_options(meant, options, told.get("with"))
    _rehearse(members, steps, meant)
    return Scenario(members, tuple(steps.values()), seed, weather, burst, model, multicast, options)


def _named(name: str, models: Mapping[str, Model], line: Line | None) -> Model | None:
    if name in models or line is None:
        return models.get(name)
    raise line.wrong(f"no model {name!r}; there are {', '.join(filter(None, models))}")


def _check_options(model: Model | None, options: Sequence[str], line: Line | None) -> None:
    unknown = [] if model is None else [word for word in options if word not in model.options]
    if model is not None and unknown and line is not None:
        there = f"there are {', '.join(model.options)}" if model.options else "there are none"
        raise line.wrong(f"the model {model.name} has no option {unknown[0]!r}; {there}")


def _rehearse(members: Sequence[str], steps: Mapping[Line, Step], model: Model | None) -> None:
    """Do every step in a world without a protocol: what cannot be done is found before anything is played."""
    world = World(0, members, IDLE)
    for line, step in steps.items():
        try:
            VERBS[step.verb](world, step.words)
            if model is not None:
                _check_words(model, step)
        except MisuseError as error:
            raise line.wrong(error) from error
        except (ValueError, IndexError):
            raise line.wrong(f"expected a time and {FORMS[step.verb]}") from None


def _check_words(model: Model, step: Step) -> None:
    """Refuse what the model does not have."""
    match step.verb, step.words:
        case "send", (_, _, service) if service not in model.services:
            there = f"there are {', '.join(model.services)}" if model.services else "leave it out"
            raise MisuseError(f"the model {model.name} has no service {service!r}; {there}")
        case "ask", _ if model.ask is None:
            raise MisuseError(f"the model {model.name} is asked for nothing")


class _Idle(Engine):
    """Does nothing."""

    def start(self, now: float) -> None: ...
    def receive(self, now: float, source: str, packet: bytes) -> None: ...
    def wake(self, now: float) -> None: ...
    def leave(self, now: float) -> None: ...
    def submit(self, now: float, batch: Sequence[object], service: str = "") -> int:
        return 0


IDLE = Model("idle", lambda around, *_: _Idle(around), lambda *_: True, lambda *_: (), ask=lambda *_: None)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise MisuseError(f"{text!r} is not a number from 0 on")
    return value


def _share(value: float) -> float:
    if value > 1:
        raise MisuseError(f"{in_words(value)} is not a share from 0 to 1")
    return value


def _weather(words: Sequence[str]) -> NetworkOptions:
    delay, *rest = words or ("",)
    if delay not in QUANTILES_MS or len(rest) % 2 or not {*rest[::2]} <= {*SHARES, "bandwidth"}:
        raise MisuseError(f"expected {SETTINGS['weather']}; delays are {', '.join(QUANTILES_MS)}")
    values = {name: _number(value) for name, value in zip(rest[::2], rest[1::2], strict=True)}
    for name in SHARES:
        _share(values.get(name, 0.0))
    return NetworkOptions(delay, **values)


def _options(words: Sequence[str], **defaults: float) -> dict[str, float]:
    """Read pairs of a name and a number."""
    pairs = dict(zip(words[::2], words[1::2], strict=True))
    if unknown := pairs.keys() - defaults.keys():
        raise MisuseError(f"{' '.join(sorted(unknown))}? expected {' or '.join(defaults)} and a number")
    return {name: _number(pairs[name]) if name in pairs else default for name, default in defaults.items()}


SETTINGS = {
    "members": "members NAME ...",
    "model": "model NAME",
    "seed": "seed NUMBER",
    "weather": "weather DELAYS [loss SHARE] [duplicate SHARE] [reorder SHARE] [refuse SHARE] [bandwidth BYTES]",
    "drain": "drain burst, or drain packet",
    "multicast": "multicast on, or multicast off",
    "with": "with OPTION ...",
}
"""The lines without a time."""

# ---- the verbs ---------------------------------------------------------------------------------

Words = Sequence[str]


def _start(world: World, words: Words) -> None:
    world.start(*words)


def _crash(world: World, words: Words) -> None:
    name, *rest = words
    options = _options(rest, after=0, keep=0)
    world.crash(name, after=int(options["after"]), kept=_share(options["keep"]))


def _rob(world: World, words: Words) -> None:
    first, *others = words
    for name in (first, *others):
        world.rob(name)


def _send(world: World, words: Words) -> None:
    name, count, *service = words
    if len(service) > 1:
        raise ValueError
    world.send(name, int(_number(count)), *service)


def _ask(world: World, words: Words) -> None:
    name, first, *others = words
    world.ask(name, (first, *others))


def _leave(world: World, words: Words) -> None:
    first, *others = words
    for name in (first, *others):
        world.machine(name).leave()


def _pause(world: World, words: Words) -> None:
    name, *rest = words
    world.pause(name, _options(rest, **{"for": 1.0})["for"])


def _cut(world: World, words: Words) -> None:
    """Until mended by time, or for ever."""
    length = None
    if "for" in words:
        at = list(words).index("for")
        length, words = _number(words[at + 1]), words[:at]
    is_one_way = ">" in words
    text = " ".join(words)
    one, other, *more = (side.split() for side in (text.split(">", 1) if is_one_way else text.split("|")))
    if not all((one, other, *more)):
        raise MisuseError("a cut has somebody on each side")
    cut = world.cut_one_way(one, other) if is_one_way else world.partition(one, other, *more)
    if length is not None:
        world.at(world.now + length, lambda: world.mend(cut))


def _clock(world: World, words: Words) -> None:
    name, rate = words
    world.clock(name, _number(rate))


def _jump(world: World, words: Words) -> None:
    name, seconds = words
    world.jump(name, _number(seconds))


def _change_weather(world: World, words: Words) -> None:
    world.weather(_weather(words))


def _calm(world: World, words: Words) -> None:
    () = words
    world.calm()


def _settle(world: World, words: Words) -> None:
    (seconds,) = words
    world.settle(_number(seconds))


VERBS: dict[str, Callable[[World, Words], None]] = {
    "start": _start,
    "crash": _crash,
    "rob": _rob,
    "send": _send,
    "ask": _ask,
    "leave": _leave,
    "pause": _pause,
    "cut": _cut,
    "clock": _clock,
    "jump": _jump,
    "weather": _change_weather,
    "calm": _calm,
    "settle": _settle,
}

FORMS = {
    "start": "start [NAME ...]",
    "crash": "crash NAME [after EFFECTS] [keep SHARE]",
    "rob": "rob NAME ...",
    "send": "send NAME MESSAGES [SERVICE]",
    "ask": "ask NAME WORD ...",
    "leave": "leave NAME ...",
    "pause": "pause NAME [for SECONDS]",
    "cut": "cut NAME ... | NAME ... [for SECONDS], or cut NAME ... > NAME ... [for SECONDS]",
    "clock": "clock NAME RATE",
    "jump": "jump NAME SECONDS",
    "weather": SETTINGS["weather"],
    "calm": "calm",
    "settle": "settle SECONDS",
}
"""What stands after the time."""
