"""Random scenarios with every fault on: the judges find nothing, and each broken rule is found.

A few hundred seeds here; `make campaign` runs as many as one likes.
"""

import pytest

from covey.sim.generate import generate
from tests.campaign import CAMPAIGNS, find, run_chunk, verdict
from tests.isis.mutations import MUTATIONS

CHUNKS = range(0, 300, 50)


@pytest.mark.parametrize("first", CHUNKS)
def test_sites_go_through_one_sequence_of_views_and_channels_lose_nothing(first: int) -> None:
    assert run_chunk("isis85", first).failed == {}


def test_most_runs_see_more_than_three_views() -> None:
    seeds = range(100)
    views = [verdict(generate(seed), CAMPAIGNS["isis85"].model).views for seed in seeds]
    assert 2 * sum(count > 3 for count in views) >= len(seeds)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_rule_is_found(mutation: str) -> None:
    """By twice as many seeds as it takes today; in a campaign by a thousand."""
    assert find("isis85", mutation, seeds_max=160).seed is not None
