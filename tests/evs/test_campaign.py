"""Random scenarios with every fault on: the judge finds nothing, and each broken rule is found.

A few hundred seeds here; `make campaign MODEL=evs` runs as many as one likes.
"""

import pytest

from tests.campaign import CAMPAIGNS, find, run_chunk, verdict
from tests.evs.mutations import KEPT, MUTATIONS, SELDOM
from tests.evs.scenes import scenario

CHUNKS = {"evs": range(0, 400, 50), "vs": range(0, 200, 50)}


@pytest.mark.parametrize(("model", "first"), [(model, first) for model, chunks in CHUNKS.items() for first in chunks])
def test_what_random_runs_show_keeps_the_promises_of_the_model(model: str, first: int) -> None:
    assert run_chunk(model, first).failed == {}


@pytest.mark.parametrize("mutation", KEPT)
def test_a_kept_scenario_finds_a_broken_rule_by_what_the_user_sees(mutation: str) -> None:
    name, property_ = KEPT[mutation]
    assert verdict(scenario(name), CAMPAIGNS["evs"]).wrong == []
    found = {sentence.partition(":")[0] for sentence in verdict(scenario(name), CAMPAIGNS["evs"], mutation).wrong}
    assert property_ in found


@pytest.mark.parametrize("mutation", sorted(MUTATIONS.keys() - set(SELDOM)))
def test_random_scenarios_find_a_broken_rule(mutation: str) -> None:
    """Soon; in a campaign two thousand seeds are tried."""
    assert find("evs", mutation, seeds_max=100).seed is not None
