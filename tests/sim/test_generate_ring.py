"""Random scenarios for a ring: messages are in flight when something fails, and all kinds of faults occur."""

from collections import Counter

import pytest

from covey.kernel.errors import MisuseError
from covey.sim.faults import Draw
from covey.sim.generate_ring import KINDS, PACE, SERVICES, SETTLE_S, RingFaults, generate_ring
from covey.sim.network import NetworkOptions
from covey.sim.scenario import VERBS, Scenario, Step, parse

SEEDS = range(600)


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    return [generate_ring(seed) for seed in SEEDS]


def steps(scenario: Scenario, *verbs: str) -> list[Step]:
    return [step for step in scenario.steps if step.verb in verbs]


def messages(scenario: Scenario) -> int:
    return sum(int(step.words[1]) for step in steps(scenario, "send"))


def share(scenarios: list[Scenario], of: list[bool]) -> float:
    return sum(of) / len(scenarios)


def faults(members: str = "abcde") -> RingFaults:
    return RingFaults(Draw(1), members, NetworkOptions(), PACE)


def test_a_generated_scenario_is_read_back_from_its_text_as_it_was(scenarios: list[Scenario]) -> None:
    for scenario in scenarios[:150]:
        assert parse(str(scenario)) == scenario
        assert max(len(word.partition(".")[2]) for word in str(scenario).split()) <= 3
    assert [str(generate_ring(seed)) for seed in range(20)] == [str(scenario) for scenario in scenarios[:20]]


def test_faults_come_in_the_order_of_time_and_then_there_is_calm_and_rest(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        times = [step.at for step in scenario.steps]
        assert times == sorted(times)
        (calm,) = (place for place, step in enumerate(scenario.steps) if step.verb == "calm")
        assert 4 <= times[calm] <= 15
        assert {step.verb for step in scenario.steps[calm + 1 : -1]} <= {"crash", "cut", "send"}
        assert scenario.steps[-1].words == (str(SETTLE_S),)
        assert times[-1] - times[calm] < 1.201


def test_members_messages_and_faults_are_spread_widely(scenarios: list[Scenario]) -> None:
    assert {len(scenario.members) for scenario in scenarios} == {2, 3, 4, 5, 6, 7}
    sent = sorted(messages(scenario) for scenario in scenarios)
    assert (sent[0], sent[-1] <= 300) == (0, True)
    assert sent[len(sent) // 2] > 40
    others = sorted(len(scenario.steps) - len(steps(scenario, "send")) for scenario in scenarios)
    assert others[len(others) // 10] <= 10
    assert others[-len(others) // 10] >= 25


def test_a_large_run_has_thousands_of_messages_and_there_is_no_other_size() -> None:
    sent = [messages(generate_ring(seed, "large")) for seed in range(100)]
    assert max(sent) <= 20_000
    assert sum(count > 900 for count in sent) > 80
    with pytest.raises(MisuseError, match="no size 'huge'; there are usual, large"):
        generate_ring(0, "huge")


def test_nearly_all_runs_have_traffic_and_most_of_them_mix_the_services(scenarios: list[Scenario]) -> None:
    services = [{step.words[2] for step in steps(scenario, "send")} for scenario in scenarios]
    assert share(scenarios, [bool(used) for used in services]) > 0.9
    assert share(scenarios, [used == set(SERVICES) for used in services]) > 0.5
    assert {frozenset({service}) for service in SERVICES} <= {frozenset(used) for used in services}


def test_many_faults_come_within_milliseconds_of_messages(scenarios: list[Scenario]) -> None:
    def finds_messages(scenario: Scenario) -> bool:
        sent = [step.at for step in steps(scenario, "send")]
        hit = [step.at for step in steps(scenario, "crash", "cut", "rob", "pause", "leave")]
        return any(0 <= fault - at <= 0.011 for fault in hit for at in sent)

    assert share(scenarios, [finds_messages(scenario) for scenario in scenarios]) > 0.3


def test_more_than_half_have_good_weather_and_more_than_half_a_crash(scenarios: list[Scenario]) -> None:
    good = [NetworkOptions(refuse=scenario.weather.refuse) == scenario.weather for scenario in scenarios]
    assert share(scenarios, good) > 0.5
    assert share(scenarios, [bool(steps(scenario, "crash")) for scenario in scenarios]) > 0.5


def test_every_verb_and_every_option_of_a_run_occurs(scenarios: list[Scenario]) -> None:
    assert {step.verb for scenario in scenarios for step in scenario.steps} == VERBS.keys()
    seen = Counter((scenario.burst, scenario.multicast, scenario.options) for scenario in scenarios)
    assert len(seen) == 12
    for option in (("dynamic",), ("spares",), ()):
        assert sum(count for key, count in seen.items() if key[2] == option) > 0.2 * len(scenarios)


def test_networks_fall_into_two_and_into_more_that_come_back_at_different_times(scenarios: list[Scenario]) -> None:
    sides = [
        [step.words.count("|") + 1 for step in steps(scenario, "cut") if "|" in step.words] for scenario in scenarios
    ]
    assert share(scenarios, [bool(cuts) for cuts in sides]) > 0.5
    assert share(scenarios, [max(cuts, default=0) > 2 for cuts in sides]) > 0.1
    for _ in range(50):
        cuts = faults().partitions(1.0, 2.0)
        assert all(1.0 <= cut.at <= 1.1 for cut in cuts)
        assert len({cut.words[-1] for cut in cuts}) == len(cuts)
        first, *later = (" ".join(cut.words).partition(" for")[0].split("|") for cut in cuts)
        assert sorted(" ".join(first).split()) == [*"abcde"]
        assert all(set(" ".join(cut).split()) < set("abcde") for cut in later)


def test_who_lost_its_disk_is_given_its_old_place_in_half_of_the_cases() -> None:
    asked, robbed = 0, 0
    drawing = faults()
    for _ in range(300):
        places = {name: name for name in "abcde"}
        lives = dict.fromkeys("abcde", 1)
        for step in sorted(drawing.losses(8.0), key=lambda step: step.at):
            match step.verb, step.words:
                case "rob", (name,):
                    robbed += 1
                    lives[name] += 1
                case "ask", (other, "replace", old, new):
                    asked += 1
                    name = new.partition("~")[0]
                    assert other != name
                    assert (old, new) == (places[name], f"{name}~{lives[name]}")
                    places[name] = new
                case verb, _:
                    assert verb == "start"
    assert 0.4 < asked / robbed < 0.6


@pytest.mark.parametrize("kind", sorted({*KINDS}, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_every_kind_of_fault_ends_when_its_time_is_over(kind: object) -> None:
    assert callable(kind)
    drawing = faults()
    for _ in range(50):
        for step in kind(drawing, 1.0, 2.0):
            assert step.verb in ("start", "clock", "weather", "crash", "leave", "jump") or "for" in step.words
