"""The campaign asks whoever can judge a run, keeps to one complaint when it shrinks, and counts what was reached."""

from collections.abc import Iterable
from typing import Any

import pytest

from covey.kernel.effects import Install
from covey.sim.model import Model
from covey.sim.scenario import parse
from covey.sim.world import World
from tests import campaign
from tests.campaign import CAMPAIGNS, Campaign, run_chunk, shrunk, verdict
from tests.sim.probe import Probe, model
from tests.sim.test_layer import Even

SCENARIO = parse("members a b\n0 start\n1 crash a\n2 crash b\n2.5 start\n3 calm\n3 settle 10\n")


class Viewer(Probe):
    def start(self, now: float) -> None:
        self.out.append(Install(f"{self.me}", 2 * self.me.incarnation, (self.me.name,)))


class Late(Viewer):
    """Is in an odd configuration: its layer lets nothing through."""

    def start(self, now: float) -> None:
        self.out.append(Install(f"{self.me}", 1, (self.me.name,)))


def judge(rows: list[dict[str, Any]], world: World) -> Iterable[str]:
    """Finds that b fails, and that there is no configuration."""
    run = rows[0]["run"]
    if any(row["event"] == "fail" and row["process"] == "b" for row in rows):
        yield f"{run} of {len(world.machines)}: b failed"
    if not any(row["event"] == "config" for row in rows):
        yield f"{run} is empty: no configuration"


def cases(rows: Iterable[dict[str, Any]]) -> set[str]:
    return {row["event"] for row in rows if row["event"] in ("fail", "stop")}


LAYERED = model(Viewer)._replace(layer=("vs", Even), cases=cases, generate=lambda seed, size: SCENARIO)


def mutant(name: str) -> Model:
    return LAYERED._replace(build=model({"late": Late}[name]).build)


PROBED = Campaign(LAYERED, judge, "sim", ["late"], mutant)


def test_both_runs_of_a_model_with_a_layer_are_judged() -> None:
    found = verdict(SCENARIO, PROBED)
    assert found.wrong == ["run of 2: b failed", "run.vs of 2: b failed"]
    assert (found.kind, found.cases) == ("run of 2", {"fail"})
    assert "run.vs is empty: no configuration" in verdict(SCENARIO, PROBED, "late").wrong


def test_what_is_shrunk_fails_as_it_did() -> None:
    assert [step.verb for step in shrunk(SCENARIO, PROBED).steps] == ["start", "crash", "calm"]
    assert shrunk(SCENARIO, PROBED).members == ("a", "b")


def test_a_chunk_counts_cases_and_keeps_what_was_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CAMPAIGNS, "probed", PROBED)
    monkeypatch.setattr(campaign, "CHUNK", 3)
    chunk = run_chunk("probed", 6, "large")
    assert chunk.cases == {"fail": 3}
    assert chunk.failed.keys() == {6, 7, 8}
    assert campaign.find("probed", "late", seeds_max=1).seed == 0


def test_only_known_mutations_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        campaign.main(iter(["--mutation", "what"]))
    assert "no mutation what; there are skip-nack, " in capsys.readouterr().err
