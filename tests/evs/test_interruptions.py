"""A recovery is interrupted at every place in turn, with messages in every state: lost, received by some, waiting."""

import pytest

from covey.sim.scenario import parse
from tests.campaign import CAMPAIGNS, verdict

SCENARIO = """
members p q r s t
model {model}
weather instant
0        start
2        send s 1
2.000015 cut s > p q r t for 0.02
2.01     send p 4 safe
2.01     send q 3
2.02     send r 3 safe
2.030055 cut p > r for 0.00001
2.030095 cut s | p q r t for 6
2.030095 crash {first} after {effects}
2.9      crash {second} after {more}
2.95     send p 2 safe
6        start
9        calm
9        settle 20
"""
"""s is cut off with a message that the others lack, and r lacks those of p; then one crashes at some effect of what
follows, and another one at some effect of what follows that."""

PLACES = range(1, 31)
STEPS = {
    "interrupted at step 3",
    "interrupted at step 5a",
    "interrupted at step 5c",
    "crash in step 6",
    "rebroadcast",
    "hole",
    "discarded",
    "obligation used",
}


@pytest.mark.parametrize("model", ["evs", "vs"])
def test_wherever_a_recovery_is_interrupted_nothing_is_violated(model: str) -> None:
    reached: set[str] = set()
    for first, second in (("p", "q"), ("t", "p")):
        for effects in PLACES:
            more = 1 + 7 * effects % 23
            words = {"model": model, "first": first, "effects": effects, "second": second, "more": more}
            found = verdict(parse(SCENARIO.format(**words)), CAMPAIGNS[model])
            assert found.wrong == [], words
            reached |= found.cases
    assert reached >= STEPS
