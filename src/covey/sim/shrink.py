"""From a scenario that fails to the smallest one that can be found that still does.

Everything that makes a scenario shorter to read is tried, the largest cuts first: fewer steps, fewer
members, better weather, smaller numbers, rounder times, and again from the beginning until nothing helps. A candidate
that holds under its own seed is given a few others: with a step less every later draw is another one, and
what mattered was seldom the draw.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from covey.sim.network import NetworkOptions
from covey.sim.scenario import Scenario, Step, in_words

Fails = Callable[[Scenario], bool]

SEEDS_EACH = 3
"""With so many seeds a candidate is tried."""
TRIES_MAX = 2000


def shrink(scenario: Scenario, fails: Fails, tries: int = TRIES_MAX) -> Scenario:
    """Return a smaller scenario that fails, after so many tries at most; one that does not fail comes back as it is."""
    search = _Search(scenario, fails, tries)
    while search.improve():
        pass
    return search.best


class _Search:
    """The best so far, and how many tries are left."""

    def __init__(self, scenario: Scenario, fails: Fails, tries: int) -> None:
        self.best = scenario
        self._fails = fails
        self._left = tries

    def improve(self) -> bool:
        """Take each kind of cut as often as it helps; whether any did."""
        before = self.best
        for kind in (_without_steps, _without_a_member, _in_better_weather, _with_plainer_words, _with_rounder_times):
            while self._take_first(kind(self.best)):
                pass
        return self.best != before and self._left > 0

    def _take_first(self, candidates: Iterator[Scenario]) -> bool:
        for candidate in candidates:
            for seed in (candidate.seed, *range(SEEDS_EACH - 1)):
                if self._left <= 0:
                    return False
                self._left -= 1
                seeded = replace(candidate, seed=seed)
                if self._fails(seeded):
                    self.best = seeded
                    return True
        return False


def _without_steps(scenario: Scenario) -> Iterator[Scenario]:
    """All, halves, quarters and so on down to single steps are left out."""
    steps = scenario.steps
    size = len(steps)
    while size:
        for start in range(len(steps) - size, -1, -size):
            yield replace(scenario, steps=(*steps[:start], *steps[start + size :]))
        size //= 2


def _without_a_member(scenario: Scenario) -> Iterator[Scenario]:
    if len(scenario.members) == 1:
        return
    for name in scenario.members:
        members = tuple(member for member in scenario.members if member != name)
        steps = (_step_without(step, name) for step in scenario.steps)
        yield replace(scenario, members=members, steps=tuple(step for step in steps if step is not None))


def _step_without(step: Step, name: str) -> Step | None:
    """The step as far as it concerns others; None where it is about that one only."""
    if name not in step.words:
        return step
    if step.verb != "cut":
        left = tuple(word for word in step.words if word != name)
        return Step(step.at, step.verb, left) if step.verb in ("start", "rob", "leave") and left else None
    at = step.words.index("for") if "for" in step.words else len(step.words)
    sides: list[list[str]] = [[]]
    divider = ">" if ">" in step.words else "|"
    for word in step.words[:at]:
        if word == divider:
            sides.append([])
        elif word != name:
            sides[-1].append(word)
    sides = [side for side in sides if side]
    if len(sides) < 2:
        return None
    words = f" {divider} ".join(" ".join(side) for side in sides).split()
    return Step(step.at, "cut", (*words, *step.words[at:]))


def _in_better_weather(scenario: Scenario) -> Iterator[Scenario]:
    calm = NetworkOptions()
    if scenario.weather != calm:
        yield replace(scenario, weather=calm)
    for name in calm.__struct_fields__:
        if getattr(scenario.weather, name) != getattr(calm, name):
            yield replace(scenario, weather=replace(scenario.weather, **{name: getattr(calm, name)}))
    if scenario.burst:
        yield replace(scenario, burst=False)
    if scenario.multicast:
        yield replace(scenario, multicast=False)
    for option in scenario.options:
        yield replace(scenario, options=tuple(other for other in scenario.options if other != option))


def _with_plainer_words(scenario: Scenario) -> Iterator[Scenario]:
    """Fewer messages, shorter faults and fewer options, for one step at a time."""
    for place, step in enumerate(scenario.steps):
        for words in _plainer(step):
            yield _with_step(scenario, place, replace(step, words=words))


def _plainer(step: Step) -> Iterator[tuple[str, ...]]:
    match step.verb, step.words:
        case "send", (name, count, *service):
            yield from ((name, count) for _ in service)
            yield from ((name, smaller, *service) for smaller in _smaller(count))
        case "crash", (name, *options) if options:
            yield (name,)
            yield from ((name, *fewer) for fewer in _fewer(options))
        case "weather", (delay, *options):
            yield from () if delay == "lan" else (("lan", *options),)
            yield from ((delay, *fewer) for fewer in _fewer(options))
        case _, (*words, "for", seconds):
            yield from ((*words, "for", smaller) for smaller in _smaller(seconds))


def _fewer(options: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Pairs of a name and a number with one pair less, or with a smaller number."""
    for at in range(0, len(options), 2):
        yield (*options[:at], *options[at + 2 :])
    for at in range(1, len(options), 2):
        yield from ((*options[:at], smaller, *options[at + 1 :]) for smaller in _smaller(options[at]))


def _smaller(number: str) -> Iterator[str]:
    value = float(number)
    for smaller in (1, value // 2, value // 1, value * 10 // 1 / 10):
        if 0 < smaller < value:
            yield in_words(smaller)


def _with_step(scenario: Scenario, place: int, step: Step) -> Scenario:
    return replace(scenario, steps=(*scenario.steps[:place], step, *scenario.steps[place + 1 :]))


def _with_rounder_times(scenario: Scenario) -> Iterator[Scenario]:
    """Whole seconds, or else tenths, for one step at a time; none may overtake another."""
    for place, step in enumerate(scenario.steps):
        for places in (0, 1):
            at = round(step.at, places)
            if at != step.at and _keeps_order(scenario.steps, place, at):
                yield _with_step(scenario, place, replace(step, at=at))


def _keeps_order(steps: tuple[Step, ...], place: int, at: float) -> bool:
    after_the_one_before = place == 0 or steps[place - 1].at <= at
    return after_the_one_before and (place + 1 == len(steps) or at <= steps[place + 1].at)
