"""A transcript says in order what happened, and says once what several did together."""

from collections.abc import Sequence

import pytest

from covey.kernel.effects import Deliver, Effect, Halt, Install
from covey.kernel.errors import BrokenInvariant
from covey.kernel.ids import ProcessId
from covey.sim.scenario import parse
from covey.sim.transcript import transcribe
from tests.sim.probe import Probe, model

V1 = Install("v1", 1, ("a/1", "b/1", "c/1"))
V2 = Install("v2", 2, ("a/1", "b/1"))
FROM_C = ProcessId("c", 1)

Plan = dict[tuple[str, float], Sequence[Effect]]


def planned(plan: Plan) -> type[Probe]:
    """Engines that want these things done at these times."""

    class Planned(Probe):
        def start(self, now: float) -> None:
            self.wake(now)

        def wake(self, now: float) -> None:
            times = sorted(time for name, time in plan if name == self.me.name)
            self.out += [effect for time in times if time == now for effect in plan[self.me.name, time]]
            self.deadline = min((time for time in times if time > now), default=None)

    return Planned


def transcript(plan: Plan, steps: str = "") -> list[str]:
    scenario = parse(f"members a b c\n0 start\n{steps}")
    return transcribe(scenario, model(planned(plan))).splitlines()[2:]


@pytest.mark.parametrize(
    ("plan", "lines"),
    [
        ({("a", 1.0): [V1], ("c", 1.2): [V1], ("b", 1.4): [V1]}, ["     1.0    all install v1: a/1 b/1 c/1"]),
        ({("c", 1.0): [V1], ("a", 1.2): [V1]}, ["     1.0    a/1 c/1 install v1: a/1 b/1 c/1"]),
        ({("a", 1.0): [V1]}, ["     1.0    a/1 installs v1: a/1 b/1 c/1"]),
        (
            {("a", 1.0): [V1], ("b", 1.6): [V1]},
            ["     1.0    a/1 installs v1: a/1 b/1 c/1", "     1.6    b/1 installs v1: a/1 b/1 c/1"],
        ),
        (
            {("a", 1.0): [V1, V2], ("b", 1.1): [V1, V2]},
            ["     1.0    a/1 b/1 install v1: a/1 b/1 c/1", "     1.0    all install v2: a/1 b/1"],
        ),
        (
            {("a", 1.0): [V1, V2], ("b", 1.1): [V2, V1]},
            [
                "     1.0    a/1 installs v1: a/1 b/1 c/1",
                "     1.0    all install v2: a/1 b/1",
                "     1.1    b/1 installs v1: a/1 b/1 c/1",
            ],
        ),
        (
            {("a", 1.0): [Install("t", 1, ("a/1",), kind="transitional", group="g")]},
            ["     1.0    a/1 installs transitional t of group g: a/1"],
        ),
        (
            {("a", 1.0): [Deliver(FROM_C, 1, [b""] * 4)], ("a", 1.1): [Deliver(FROM_C, 5, [b""])]},
            ["     1.0    a/1 delivers 5 from c/1"],
        ),
        (
            {("a", 1.0): [Deliver(FROM_C, 1, [b""])], ("b", 1.1): [Deliver(FROM_C, 1, [b""])]},
            ["     1.0    a/1 b/1 deliver from c/1"],
        ),
        (
            {("a", 1.0): [Deliver(FROM_C, 1, [b""])], ("b", 1.1): [Deliver(FROM_C, 1, [b"", b""])]},
            ["     1.0    a/1 (1) b/1 (2) deliver from c/1"],
        ),
        (
            {("a", 1.0): [Halt("you are dead", restart=True)], ("b", 1.0): [Halt("left", restart=False)]},
            ["     1.0    a/1 halts (you are dead)", "     1.0    b/1 halts (left)", "     1.1    a/2 starts"],
        ),
    ],
)
def test_those_who_do_the_same_at_nearly_the_same_time_share_a_line(plan: Plan, lines: list[str]) -> None:
    assert transcript(plan, "2 settle 9\n") == [*lines, "     2.0  > settle 9", "     4.0    at rest"]


def test_a_step_stands_above_what_came_of_it_and_below_what_was_before() -> None:
    assert transcript({("a", 1.0): [V1], ("b", 1.2): [V1]}, "1.1 crash c\n1.3 pause a for 1\n3 start c\n") == [
        "     1.0    a/1 installs v1: a/1 b/1 c/1",
        "     1.1  > crash c",
        "     1.1    c/1 crashes",
        "     1.2    b/1 installs v1: a/1 b/1 c/1",
        "     1.3  > pause a for 1",
        "     2.3    a/1 resumes",
        "     3.0  > start c",
        "     3.0    c/2 starts",
    ]


def test_a_world_that_does_not_rest_and_a_run_that_fails_say_so() -> None:
    restless = model()._replace(at_rest=lambda *_: False)
    text = transcribe(parse("members a\n0 start\n1 settle 3\n"), restless)
    assert text.splitlines()[-2:] == ["     4.0    not at rest", "FAILED: did not come to rest"]


def test_a_broken_invariant_ends_the_transcript() -> None:
    class Broken(Probe):
        def check(self) -> None:
            raise BrokenInvariant("a bug")

    assert transcribe(parse("members a\n0 start\n1 crash a\n"), model(Broken)) == (
        "     0.0  > start\n     0.0    a/1 starts\nFAILED: a bug\n"
    )
