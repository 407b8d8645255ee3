"""Each text in this folder, and below it, goes as the transcript in it says, and keeps the promises of its model.

`pytest tests/scenarios --rewrite` fills in the transcripts; what has changed in them is to be reviewed as code.
"""

from pathlib import Path

import pytest
from msgspec.structs import replace

from covey.cli.models import MODELS
from covey.sim.generate import scenario_of
from covey.sim.scenario import Scenario, parse
from covey.sim.transcript import transcribe
from tests.campaign import CAMPAIGNS, verdict

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.rglob("*.txt"))
DIVIDER = "----\n"


def name(file: Path) -> str:
    return str(file.relative_to(FOLDER).with_suffix(""))


@pytest.mark.parametrize("file", FILES, ids=name)
def test_a_scenario_goes_as_its_transcript_says(file: Path, request: pytest.FixtureRequest) -> None:
    text, _, expected = file.read_text().partition(DIVIDER)
    assert text.startswith("# "), "it begins with the promise that it holds"
    scenario = parse(text)
    transcript = transcribe(scenario, MODELS[scenario.model])
    if request.config.getoption("--rewrite"):
        file.write_text(f"{text}{DIVIDER}{transcript}")
    else:
        assert transcript == expected, "if it is right now: pytest tests/scenarios --rewrite"


@pytest.mark.parametrize("burst", [False, True], ids=["per packet", "in bursts"])
@pytest.mark.parametrize("file", FILES, ids=name)
def test_a_scenario_keeps_the_promises_of_its_model_however_it_is_drained(file: Path, burst: bool) -> None:
    scenario = parse(file.read_text())
    assert verdict(replace(scenario, burst=burst), CAMPAIGNS[scenario.model]).wrong == []


@pytest.mark.parametrize("model", CAMPAIGNS)
@pytest.mark.parametrize("seed", range(12))
def test_a_random_scenario_keeps_the_promises_of_its_model_however_it_is_drained(model: str, seed: int) -> None:
    for burst in (False, True):
        scenario: Scenario = replace(scenario_of(CAMPAIGNS[model].model, seed), burst=burst)
        assert verdict(scenario, CAMPAIGNS[model]).wrong == []
