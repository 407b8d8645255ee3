"""What Spark runs for each group of a run says the same as the plain judges, group by group, without Spark.

Here a few hundred random traces of each model; more of them by `python -m tests.verify.compare`.
"""

from collections.abc import Iterable

import pytest

from covey.sim.run import run
from covey.trace import MemorySink, Recorder
from tests.evs.mutations import KEPT, mutant
from tests.evs.scenes import scenario
from tests.verify.compare import MODELS, compare, violated
from tests.verify.runs import in_runs, written_out
from tests.verify.test_judges import random_trace, runs

SEEDS = range(400)


@pytest.mark.parametrize("model", MODELS)
def test_a_hand_made_trace_violates_what_its_header_says(model: str) -> None:
    for name, rows in runs(model).items():
        header = next(row for row in rows if row["event"] == "run")
        assert violated(model, rows) == {*header["violates"]}, name


@pytest.mark.parametrize("model", MODELS)
def test_a_random_trace_violates_what_the_plain_judge_says(model: str) -> None:
    assert compare(model, SEEDS) == []


@pytest.mark.parametrize("mutation", sorted(KEPT.keys() - {"drop-requests"}))
def test_what_a_broken_ring_does_is_found(mutation: str) -> None:
    """But for `drop-requests`, after which messages wait for ever in a run that never comes to rest."""
    name, property_ = KEPT[mutation]
    sink = MemorySink()
    run(scenario(name), mutant(mutation), Recorder(sink))
    assert property_ in violated("evs", sink.rows)


@pytest.mark.parametrize("model", MODELS)
def test_runs_of_messages_are_judged_like_single_messages(model: str) -> None:
    for seed in SEEDS[:150]:
        rows = random_trace(model, seed)
        assert violated(model, written_out(rows)) == violated(model, in_runs(rows)), seed


@pytest.mark.parametrize("model", MODELS)
def test_a_property_says_what_it_is(model: str) -> None:
    for each in MODELS[model].properties:
        told = each.judge.__doc__ or ""
        assert all(name in told for name in each.ids), each.ids
        assert told.rstrip().endswith(".")


def test_no_order_of_rows_matters() -> None:
    def shuffled(rows: Iterable[dict[str, object]]) -> list[dict[str, object]]:
        return sorted(rows, key=lambda row: (str(row["index"])[::-1], row["process"]))

    for seed in SEEDS[:100]:
        rows = random_trace("evs", seed)
        assert violated("evs", shuffled(rows)) == violated("evs", rows), seed
