"""Random scenarios: every kind of fault occurs, few enough lose their disks, and in the end all faults end."""

from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise, product

import pytest

from covey.sim.faults import STORMS, Draw, Fault, Faults, Pace, moments
from covey.sim.generate import KINDS, RATES, SETTLE_S, USUAL, generate
from covey.sim.network import NetworkOptions
from covey.sim.scenario import VERBS, Scenario, Step, parse

SEEDS = range(600)


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    return [generate(seed) for seed in SEEDS]


def steps(scenarios: list[Scenario], verb: str) -> list[Step]:
    return [step for scenario in scenarios for step in scenario.steps if step.verb == verb]


def test_the_same_seed_gives_the_same_text_and_another_seed_another() -> None:
    texts = [str(generate(seed)) for seed in SEEDS]
    assert texts == [str(generate(seed)) for seed in SEEDS]
    assert len(set(texts)) == len(texts)


def test_a_generated_scenario_is_read_back_from_its_text_as_it_was(scenarios: list[Scenario]) -> None:
    for scenario in scenarios[:150]:
        assert parse(str(scenario)) == scenario


def test_numbers_in_a_generated_scenario_are_short_enough_to_read(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        assert max(len(word.partition(".")[2]) for word in str(scenario).split()) <= 3


def test_faults_come_in_the_order_of_time_and_then_there_is_calm_and_rest(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        times = [step.at for step in scenario.steps]
        assert times == sorted(times)
        (calm,) = (place for place, step in enumerate(scenario.steps) if step.verb == "calm")
        assert {step.verb for step in scenario.steps[calm + 1 : -1]} <= {"crash", "cut"}
        assert scenario.steps[-1] == Step(times[calm], "settle", (str(SETTLE_S),))


def test_fewer_than_half_lose_their_disks(scenarios: list[Scenario]) -> None:
    robbed = Counter[int]()
    for scenario in scenarios:
        names = [name for step in scenario.steps if step.verb == "rob" for name in step.words]
        assert 2 * len(names) < len(scenario.members)
        robbed[len(names)] += 1
    assert {0, 1, 2, 3} <= robbed.keys()


def test_what_stays_down_or_cut_off_at_the_end_is_a_minority(scenarios: list[Scenario]) -> None:
    seen = Counter[str]()
    for scenario in scenarios:
        calm = [step.verb for step in scenario.steps].index("calm")
        rest = scenario.steps[calm + 1 : -1]
        seen[rest[0].verb if rest else "nothing"] += 1
        crashed = {step.words[0] for step in rest if step.verb == "crash"}
        minority = crashed or set(" ".join(rest[0].words).split("|")[0].split() if rest else ())
        assert 2 * len(minority) < len(scenario.members)
    assert all(seen[each] > len(SEEDS) // 20 for each in ("nothing", "crash", "cut"))


def test_every_verb_and_every_option_of_it_occurs(scenarios: list[Scenario]) -> None:
    assert {step.verb for scenario in scenarios for step in scenario.steps} == VERBS.keys() - {"ask"}
    crashes = {tuple(step.words[1:]) for step in steps(scenarios, "crash")}
    assert {words[1] for words in crashes if words} == {str(number) for number in range(12)}
    assert {words[3] for words in crashes if words} == {"0", "0.3", "0.9", "1"}
    assert {step.words[1] for step in steps(scenarios, "clock")} == {"0.5", "0.9", "1.1", "2", "1"}
    assert {(scenario.burst, scenario.multicast) for scenario in scenarios} == {*product((False, True), repeat=2)}
    assert {len(scenario.members) for scenario in scenarios} == {3, 4, 5, 6, 7}


def test_partitions_have_every_shape() -> None:
    """Into any number of groups of any sizes, with and without a member that still reaches all."""
    members = "abcd"
    faults = Faults(Draw(1), members, NetworkOptions(), Pace())
    shapes = Counter[tuple[tuple[str, ...], ...]]()
    for _ in range(4000):
        for step in faults.partition(0.0, 1.0):
            text = " ".join(step.words[: step.words.index("for")])
            shapes[tuple(sorted(tuple(side.split()) for side in text.split("|")))] += 1
    assert {shape for shape in shapes if sum(map(len, shape)) == 4} == set(divided(tuple(members)))
    for others in combinations(members, 3):
        assert {shape for shape in shapes if sorted(sum(shape, ())) == [*others]} == set(divided(others))


def divided(members: tuple[str, ...]) -> list[tuple[tuple[str, ...], ...]]:
    """All ways to divide them into two groups or more."""

    def ways(left: tuple[str, ...]) -> list[list[tuple[str, ...]]]:
        if not left:
            return [[]]
        first, rest = left[0], left[1:]
        found = []
        for size in range(len(rest) + 1):
            for others in combinations(rest, size):
                remaining = tuple(name for name in rest if name not in others)
                found += [[(first, *others), *way] for way in ways(remaining)]
        return found

    return [tuple(sorted(way)) for way in ways(members) if len(way) > 1]


def test_one_way_cuts_silence_any_set_towards_any_others(scenarios: list[Scenario]) -> None:
    sizes = set()
    for step in steps(scenarios, "cut"):
        if ">" in step.words:
            sources, sinks = " ".join(step.words[: step.words.index("for")]).split(">")
            assert not {*sources.split()} & {*sinks.split()}
            sizes.add((len(sources.split()), len(sinks.split())))
    assert {(1, 1), (1, 2), (2, 1), (2, 2), (1, 6), (6, 1)} <= sizes


def test_every_fault_of_the_network_occurs_in_every_strength(scenarios: list[Scenario]) -> None:
    for name, strengths in USUAL.items():
        assert {getattr(scenario.weather, name) for scenario in scenarios} == set(strengths)
    faults = Faults(Draw(1), "abc", NetworkOptions(), Pace())
    storms = [faults.storm(0.0, 1.0)[0].words for _ in range(300)]
    weathers = [parse(f"members a\nweather {' '.join(words)}\n").weather for words in storms]
    for name, strengths in STORMS.items():
        assert {getattr(weather, name) for weather in weathers} == set(strengths)


def test_after_a_storm_the_weather_is_what_it_was() -> None:
    usual = NetworkOptions("wan", loss=0.2)
    storm, end = Faults(Draw(1), "abc", usual, Pace()).storm(2.0, 1.5)
    assert (storm.at, end) == (2.0, Step(3.5, "weather", ("wan", "loss", "0.2")))


def test_a_kind_of_fault_is_as_frequent_long_and_stable_as_its_mix_says() -> None:
    fault = Fault(rate=0.8, duration=1.5, stability=2.0, crowds=False)
    drawn = list(moments(Draw(1), fault, 10_000.0, [0.0], Pace()))
    gaps = [later - at for (at, _), (later, _) in pairwise(drawn)]
    assert min(gaps) >= 2.0 - 0.002
    assert sum(gaps) / len(gaps) == pytest.approx(2.0 + 1 / 0.8, rel=0.05)
    assert sum(seconds for _, seconds in drawn) / len(drawn) == pytest.approx(1.5, rel=0.05)


def test_a_kind_that_crowds_comes_soon_after_a_focus_moment() -> None:
    fault = Fault(rate=0.8, duration=1.5, stability=0.0, crowds=True)
    drawn = [at for at, _ in moments(Draw(1), fault, 100.0, [10.0, 50.0], Pace())]
    assert len(drawn) > 50
    assert all(0 <= at - 10 < 2.6 or 0 <= at - 50 < 2.6 for at in drawn)
    assert min(drawn) < 12.6
    assert max(drawn) >= 50


def test_a_kind_with_rate_0_does_not_come_and_runs_differ_in_the_kinds_they_have(scenarios: list[Scenario]) -> None:
    assert not list(moments(Draw(1), Fault(0.0, 1.5, 0.0, True), 100.0, [0.0], Pace()))
    assert 0.0 in RATES
    verbs = ("crash", "pause", "leave", "cut", "clock", "jump", "rob", "weather", "send")
    mixes = {frozenset(step.verb for step in scenario.steps) & {*verbs} for scenario in scenarios}
    assert len(mixes) > 100
    assert min(map(len, mixes)) <= 1
    assert {*verbs} in mixes


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_fault_ends_when_its_time_is_over(kind: Callable[[Faults, float, float], list[Step]]) -> None:
    """By a length or by a second step; a jump is over at once."""
    faults = Faults(Draw(2), "abcde", NetworkOptions(), Pace())
    for _ in range(50):
        match kind(faults, 1.0, 2.0):
            case [Step(1.0, "jump")] | []:
                pass
            case [Step(1.0, "pause" | "cut", (*_, "for", "2"))]:
                pass
            case [Step(1.0), Step(3.0)]:
                pass
            case unending:
                raise AssertionError(unending)


@pytest.mark.parametrize("least", [0, 1])
def test_some_of_a_list_are_different_ones_in_their_order(least: int) -> None:
    draw = Draw(3)
    drawn = [tuple(draw.some("abcd", least, 3)) for _ in range(2000)]
    assert {*drawn} == {some for size in range(least, 4) for some in combinations("abcd", size)}
