"""Random scenarios with every fault on: the judges find nothing, and each broken rule is found.

A few hundred seeds here; `make campaign` runs as many as one likes.
"""

from pathlib import Path

import pytest

from covey.sim.generate import generate
from covey.sim.scenario import parse
from tests.campaign import CAMPAIGNS, find, run_chunk, verdict
from tests.isis.mutations import KEPT, MUTATIONS

CHUNKS = range(0, 300, 50)
SCENARIOS = Path(__file__).parents[1] / "scenarios"


@pytest.mark.parametrize("first", CHUNKS)
def test_sites_go_through_one_sequence_of_views_and_channels_lose_nothing(first: int) -> None:
    assert run_chunk("isis85", first).failed == {}


def test_most_runs_see_more_than_three_views() -> None:
    seeds = range(100)
    views = [verdict(generate(seed), CAMPAIGNS["isis85"]).views for seed in seeds]
    assert 2 * sum(count > 3 for count in views) >= len(seeds)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_rule_is_found(mutation: str) -> None:
    """By four times as many seeds as it takes today; in a campaign by a thousand."""
    assert find("isis85", mutation, seeds_max=120).seed is not None


@pytest.mark.parametrize("mutation", KEPT)
def test_a_kept_scenario_finds_what_random_ones_seldom_do(mutation: str) -> None:
    campaign = CAMPAIGNS["isis85"]
    scenario = parse((SCENARIOS / f"{KEPT[mutation][1]}.txt").read_text())
    assert not verdict(scenario, campaign).wrong
    assert verdict(scenario, campaign, mutation).wrong
