"""A scenario that fails becomes the smallest one that still does, and the same one each time."""

from collections.abc import Callable

import pytest

from covey.sim.generate import generate
from covey.sim.network import NetworkOptions
from covey.sim.scenario import Scenario, parse
from covey.sim.shrink import TRIES_MAX, shrink

LONG = parse(
    """\
members a b c d e
seed 31
weather rough loss 0.2 reorder 0.1
drain burst
multicast on
with dynamic slow
0.137   start
0.913   cut a b | c d e for 3.7
1.244   send b 400 safe
1.377   crash b after 7 keep 0.3
2.718   cut a b e | c d for 4.25
3.141   pause c for 2.5
4.669   crash c
5.123   weather wan loss 0.4 duplicate 0.3
9.9     calm
9.9     settle 60
"""
)


def has(verb: str, *words: str) -> Callable[[Scenario], bool]:
    return lambda scenario: any(step.verb == verb and {*words} <= {*step.words} for step in scenario.steps)


@pytest.mark.parametrize(
    ("fails", "smallest"),
    [
        (has("crash", "c"), "members c\nseed 31\n5 crash c\n"),
        (has("crash", "b", "after"), "members b\nseed 31\n1 crash b after 1\n"),
        (has("send"), "members b\nseed 31\n1 send b 1\n"),
        (has("send", "safe"), "members b\nseed 31\n1 send b 1 safe\n"),
        (has("cut", "e", "b"), "members b e\nseed 31\n1 cut b | e for 1\n"),
        (has("pause"), "members c\nseed 31\n3 pause c for 1\n"),
        (has("weather", "loss"), "members e\nseed 31\n5 weather lan loss 0.4\n"),
        (lambda scenario: scenario.burst, "members e\nseed 31\ndrain burst\n"),
        (lambda scenario: scenario.multicast, "members e\nseed 31\nmulticast on\n"),
        (lambda scenario: "slow" in scenario.options, "members e\nseed 31\nwith slow\n"),
        (lambda scenario: scenario.weather.reorder > 0, "members e\nseed 31\nweather lan reorder 0.1\n"),
        (lambda scenario: len(scenario.members) >= 3, "members c d e\nseed 31\n"),
        (lambda scenario: True, "members e\nseed 31\n"),
    ],
)
def test_a_failing_scenario_becomes_the_smallest_that_still_fails(
    fails: Callable[[Scenario], bool], smallest: str
) -> None:
    assert str(shrink(LONG, fails)) == str(parse(smallest))


def test_no_step_overtakes_another() -> None:
    tried = []
    scenario = parse("members a\n0.6 start\n0.9 crash a\n1.4 start\n1.44 crash a\n")

    def fails(candidate: Scenario) -> bool:
        tried.append([step.at for step in candidate.steps])
        return len(candidate.steps) == 4

    assert [step.at for step in shrink(scenario, fails).steps] == [1.0, 1.0, 1.0, 1.0]
    assert all(times == sorted(times) for times in tried)


def test_two_faults_that_fail_only_together_stay_together() -> None:
    def fails(scenario: Scenario) -> bool:
        verbs = [step.verb for step in scenario.steps]
        return "pause" in verbs and "cut" in verbs[: verbs.index("pause")]

    assert str(shrink(LONG, fails)) == str(parse("members c e\nseed 31\n3 cut e | c for 1\n3 pause c for 1\n"))


def test_a_scenario_that_does_not_fail_comes_back_as_it_is() -> None:
    assert shrink(LONG, lambda scenario: False) == LONG


def test_what_is_shrunk_is_deterministic_and_its_text_can_be_pasted() -> None:
    def fails(scenario: Scenario) -> bool:
        """Depends on the seed, as real failures do."""
        return has("crash")(scenario) and has("cut")(scenario) and scenario.seed % 3 == 0

    found = [generate(seed) for seed in range(60)]
    failing = [scenario for scenario in found if fails(scenario)]
    assert len(failing) > 5
    for scenario in failing:
        small = shrink(scenario, fails)
        assert small == shrink(scenario, fails)
        assert parse(str(small)) == small
        assert fails(small)
        assert len(small.steps) == 2
        assert small.weather == NetworkOptions()


def test_another_seed_is_tried_where_a_smaller_scenario_holds_under_its_own() -> None:
    small = shrink(LONG, lambda scenario: scenario == LONG or (scenario.seed == 1 and len(scenario.steps) < 3))
    assert (small.seed, small.steps) == (1, ())


def test_no_more_is_tried_than_asked() -> None:
    tried = []

    def fails(scenario: Scenario) -> bool:
        tried.append(scenario)
        return True

    shrink(LONG, fails, tries=2)
    assert len(tried) == 2
    tried.clear()
    shrink(LONG, fails)
    assert len(tried) < TRIES_MAX
