"""A scenario's text says all that there is to say, is read back as it was written, and does what it says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.kernel.effects import Effect
from covey.kernel.errors import MisuseError
from covey.sim.machine import Life, Machine
from covey.sim.model import Model
from covey.sim.network import QUANTILES_MS, NetworkOptions
from covey.sim.scenario import FORMS, SETTINGS, VERBS, Scenario, Step, parse
from covey.sim.world import World
from tests.sim.probe import Probe, model

# ---- text and back ----

MEMBERS = ("a", "b", "c-3", "é")
NAME = st.sampled_from(MEMBERS)
NAMES = st.lists(NAME, min_size=1, max_size=4, unique=True)
NUMBER = st.one_of(st.integers(0, 10_000).map(float), st.floats(0, 1e6, allow_subnormal=False))
ABOVE_0 = st.floats(0.001, 100)
SHARE = st.floats(0, 1)


def words(*parts: st.SearchStrategy[Any] | str) -> st.SearchStrategy[tuple[str, ...]]:
    """Texts, numbers and lists of names, as the words of a step."""
    drawn = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(*drawn).map(lambda each: tuple(word for part in each for word in in_text(part)))


def in_text(part: Any) -> list[str]:
    return part if isinstance(part, list) else [part if isinstance(part, str) else repr(part)]


WEATHER = st.builds(
    NetworkOptions, st.sampled_from(sorted(QUANTILES_MS)), SHARE, SHARE, SHARE, SHARE, NUMBER.filter(lambda n: n != 0.0)
)
STEPS = {
    "start": st.one_of(words(), words(NAMES)),
    "crash": st.one_of(words(NAME), words(NAME, "after", st.integers(0, 9), "keep", SHARE)),
    "rob": words(NAMES),
    "send": st.one_of(words(NAME, st.integers(0, 100)), words(NAME, st.integers(0, 100), "safe")),
    "ask": words(NAME, "replace", NAME, st.sampled_from(("a~2", "b~3"))),
    "leave": words(NAMES),
    "pause": st.one_of(words(NAME), words(NAME, "for", NUMBER)),
    "cut": st.one_of(words(NAMES, "|", NAMES, "|", NAMES), words(NAMES, ">", NAMES, "for", NUMBER)),
    "clock": words(NAME, ABOVE_0),
    "jump": words(NAME, NUMBER),
    "weather": words(st.sampled_from(sorted(QUANTILES_MS)), "loss", SHARE),
    "calm": words(),
    "settle": words(st.integers(0, 3)),
}
A_STEP = st.one_of([st.builds(Step, NUMBER, st.just(verb), arguments) for verb, arguments in STEPS.items()])
SCENARIOS = st.builds(
    Scenario,
    st.just(MEMBERS),
    st.lists(A_STEP, max_size=8).map(tuple),
    st.integers(0, 2**70),
    WEATHER,
    st.booleans(),
    st.sampled_from(["", "isis85"]),
    st.booleans(),
    st.sampled_from([(), ("dynamic",), ("dynamic", "slow")]),
)


def test_every_verb_has_a_form_and_is_tried_here() -> None:
    assert VERBS.keys() == FORMS.keys() == STEPS.keys()


@given(SCENARIOS)
def test_a_scenario_is_read_back_from_its_text_as_it_was(scenario: Scenario) -> None:
    assert parse(str(scenario)) == scenario


def test_a_text_looks_like_what_people_write() -> None:
    text = """\
members a b
model isis85
seed 7
weather rough loss 0.05 bandwidth 100000
drain burst
multicast on
with dynamic
0       start
1.5     crash a after 3 keep 0.5
2.25    cut a | b for 4
10      settle 60
"""
    assert str(parse(text)) == text


def test_comments_empty_lines_and_what_follows_the_dashes_are_not_read() -> None:
    plain = parse("members a b\n1 start a\n")
    assert parse("# why\n\nmembers a b  # two\n 1   start a # now\n----\n1.0  whatever came of it\n") == plain


def test_the_example_at_the_head_of_the_module_can_be_read() -> None:
    import covey.sim.scenario as module

    assert module.__doc__ is not None
    lines = [line for line in module.__doc__.splitlines() if line.startswith("    ")]
    scenario = parse("\n".join(lines))
    assert {step.verb for step in scenario.steps} == VERBS.keys()
    assert scenario.weather.refuse == 0.5


# ---- errors ----


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("members", "expected members NAME ..."),
        ("members a a", "different names"),
        ("members a for", "'for' is no name"),
        ("model", "expected model NAME"),
        ("seed x", "expected seed NUMBER"),
        ("seed -1", "expected seed NUMBER"),
        ("drain slowly", "expected drain burst, or drain packet"),
        ("multicast maybe", "expected multicast on, or multicast off"),
        ("with", "expected with OPTION ..."),
        ("weather moon", "expected weather DELAYS"),
        ("weather moon", "delays are instant, lan, wan, rough"),
        ("weather lan loss", "expected weather DELAYS"),
        ("weather lan hail 1", "expected weather DELAYS"),
        ("weather lan loss 2", "2 is not a share from 0 to 1"),
        ("weather lan loss x", "'x' is not a number from 0 on"),
        ("1 explode a", f"expected {', '.join(SETTINGS)}, or a time and one of {', '.join(VERBS)}"),
        ("soon start", "'soon' is not a number from 0 on"),
        ("-1 start", "'-1' is not a number from 0 on"),
        ("nan start", "'nan' is not a number from 0 on"),
        ("1 start z", "no machine 'z'; there are a, b"),
        ("1 crash", "expected a time and crash NAME [after EFFECTS] [keep SHARE]"),
        ("1 crash a after", "expected a time and crash NAME [after EFFECTS] [keep SHARE]"),
        ("1 crash a keep 2", "2 is not a share from 0 to 1"),
        ("1 crash a before 2", "before? expected after or keep and a number"),
        ("1 rob", "expected a time and rob NAME ..."),
        ("1 send a", "expected a time and send NAME MESSAGES"),
        ("1 send a many", "'many' is not a number from 0 on"),
        ("1 send a 1 safe please", "expected a time and send NAME MESSAGES [SERVICE]"),
        ("1 ask a", "expected a time and ask NAME WORD ..."),
        ("1 ask z what", "no machine 'z'; there are a, b"),
        ("1 leave", "expected a time and leave NAME ..."),
        ("1 pause", "expected a time and pause NAME [for SECONDS]"),
        ("1 pause a for ever", "'ever' is not a number from 0 on"),
        ("1 cut a", "expected a time and cut NAME ... | NAME ..."),
        ("1 cut a |", "a cut has somebody on each side"),
        ("1 cut a > b | c", "no machine '|'"),
        ("1 cut a | b for", "expected a time and cut NAME ... | NAME ..."),
        ("1 clock a", "expected a time and clock NAME RATE"),
        ("1 clock a 0", "a clock's rate is above 0, not 0"),
        ("1 jump a back", "'back' is not a number from 0 on"),
        ("1 weather", "expected weather DELAYS"),
        ("1 calm down", "expected a time and calm"),
        ("1 settle", "expected a time and settle SECONDS"),
        ("1 settle inf", "'inf' is not a number from 0 on"),
    ],
)
def test_a_line_that_cannot_be_is_named_with_what_may_stand_there(line: str, complaint: str) -> None:
    with pytest.raises(MisuseError) as caught:
        parse(f"members a b\n{line}\n")
    assert str(caught.value).startswith(f"line 2: {line!r}: ")
    assert complaint in str(caught.value)


PROBE = model()
MUTE = Model("mute", PROBE.build, PROBE.at_rest, PROBE.messages)
MODELS = {"evs": PROBE, "mute": MUTE, "": PROBE}


@pytest.mark.parametrize("text", ["", "model evs\n"])
def test_what_the_model_has_can_be_said(text: str) -> None:
    text = f"members a\n{text}with dynamic\n1 send a 2\n1 send a 2 safe\n1 ask a replace b b~2\n"
    assert parse(text, MODELS) == parse(text)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("model chess", "line 2: 'model chess': no model 'chess'; there are evs, mute"),
        ("with static", "line 2: 'with static': the model evs has no option 'static'; there are dynamic"),
        ("1 send a 1 fast", "line 2: '1 send a 1 fast': the model evs has no service 'fast'; there are causal, safe"),
        ("model mute\nwith static", "line 3: 'with static': the model mute has no option 'static'; there are none"),
        (
            "1 send a 1 fast\nmodel mute",
            "line 2: '1 send a 1 fast': the model mute has no service 'fast'; leave it out",
        ),
        ("model mute\n1 ask a what", "line 3: '1 ask a what': the model mute is asked for nothing"),
    ],
)
def test_what_the_model_does_not_have_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(MisuseError) as caught:
        parse(f"members a\n{line}\n", MODELS)
    assert str(caught.value) == complaint


def test_without_a_model_everybody_is_asked_in_vain() -> None:
    world = World(0, ["a"], MUTE)
    with pytest.raises(MisuseError, match="the model mute is asked for nothing"):
        world.ask("a", ["what"])


def test_a_scenario_without_members_is_refused() -> None:
    with pytest.raises(MisuseError, match="needs a line `members`"):
        parse("1 start\n")


# ---- what the verbs do ----


class Told:
    """Plays a text, and says what befell whom when."""

    def __init__(self, text: str) -> None:
        scenario = parse(f"members a b c\n{text}")
        self.world = World(scenario.seed, scenario.members, model(Leaver), burst=scenario.burst)
        self.lives: list[tuple[float, str, str]] = []
        self.steps: list[tuple[float, str]] = []
        self.world.watchers.append(self._saw)
        self.world.step_watchers.append(lambda step: self.steps.append((self.world.now, step.verb)))
        scenario.play(self.world)

    def _saw(self, machine: Machine, what: Effect | Life) -> None:
        if isinstance(what, Life):
            self.lives.append((self.world.now, str(machine.pid), what.turn))

    def of(self, name: str) -> list[tuple[float, str]]:
        return [(time, turn) for time, pid, turn in self.lives if pid.startswith(name)]

    def engine(self, name: str) -> Probe:
        engine = self.world.machine(name).engine
        assert isinstance(engine, Probe)
        return engine


class Leaver(Probe):
    def submit(self, now: float, batch: Any, service: str = "") -> int:
        self.calls.append(("submit", now, list(batch)))
        self.services.append(service)
        return len(batch)


def test_steps_are_done_at_their_times_whatever_their_order_in_the_text() -> None:
    told = Told("3 start a\n1 start b\n1 crash b\n")
    assert told.lives == [(1.0, "b/1", "start"), (1.0, "b/1", "fail"), (3.0, "a/1", "start")]
    assert told.steps == [(1.0, "start"), (1.0, "crash"), (3.0, "start")]


def test_start_without_names_starts_all_that_are_down() -> None:
    told = Told("0 start b\n1 start\n")
    assert told.lives == [(0.0, "b/1", "start"), (1.0, "a/1", "start"), (1.0, "c/1", "start")]


def test_crash_at_once_or_later() -> None:
    told = Told("0 start\n1 crash a\n1 crash b after 2 keep 0.5\n")
    assert told.of("a") == [(0.0, "start"), (1.0, "fail")]
    assert (told.world.machine("b").fuse, told.world.machine("b").kept) == (2, 0.5)


def test_rob_takes_the_disk_and_the_name() -> None:
    told = Told("0 start\n1 rob a b\n2 start\n")
    assert [pid for time, pid, turn in told.lives if time == 2.0] == ["a~2/1", "b~2/1"]


def test_send_lets_the_application_send() -> None:
    assert Told("0 start\n1 send a 3\n").engine("a").calls[-1] == ("submit", 1.0, [b"0", b"1", b"2"])


def test_send_may_say_under_which_service() -> None:
    assert Told("0 start\n1 send a 1\n1 send a 2 safe\n").engine("a").services == ["", "safe"]


def test_ask_makes_a_request_in_the_words_of_the_model() -> None:
    told = Told("0 start a\n1 ask a replace b b~2\n1 ask b nothing, for it is down\n")
    assert told.engine("a").calls[-1] == ("ask", 1.0, ("replace", "b", "b~2"))


def test_leave_asks_the_engine() -> None:
    told = Told("0 start\n1 leave a c\n")
    assert [told.engine(name).names[-1] for name in "abc"] == ["leave", "start", "leave"]


def test_pause_ends_by_itself() -> None:
    told = Told("0 start\n1 pause a for 2.5\n1 pause b\n9 start\n")
    assert told.of("a")[1:] == [(1.0, "pause"), (3.5, "resume")]
    assert told.of("b")[1:] == [(1.0, "pause"), (2.0, "resume")]


@pytest.mark.parametrize(
    ("cut", "cuts"),
    [
        ("a | b c", {"ab", "ac", "ba", "ca"}),
        ("a | b | c", {"ab", "ac", "ba", "ca", "bc", "cb"}),
        ("a > b c", {"ab", "ac"}),
        ("a b > a b c", {"ab", "ac", "ba", "bc"}),
    ],
)
def test_cut_keeps_packets_from_passing(cut: str, cuts: set[str]) -> None:
    assert {a + b for a, b in Told(f"1 cut {cut}\n").world.network.cuts} == cuts


def test_cuts_that_overlap_end_each_at_its_own_time() -> None:
    text = "1 cut a | b for 4\n2 cut a > b c for 1\n"
    assert {a + b for a, b in Told(f"{text}2.5 start\n").world.network.cuts} == {"ab", "ba", "ac"}
    assert {a + b for a, b in Told(f"{text}4 start\n").world.network.cuts} == {"ab", "ba"}
    assert not Told(f"{text}6 start\n").world.network.cuts


def test_clock_and_jump_change_one_clock() -> None:
    told = Told("0 clock a 2\n1 jump a 3\n1 jump b 4\n2 start\n")
    assert [told.world.machine(name).clock for name in "abc"] == [7.0, 6.0, 2.0]


def test_weather_changes_and_calm_ends_it() -> None:
    storm = "1 weather wan loss 0.5 refuse 1 bandwidth 1000\n"
    assert Told(storm).world.network.weather == NetworkOptions("wan", loss=0.5, refuse=1.0, bandwidth=1000.0)
    assert Told(f"weather rough\n{storm}2 calm\n").world.network.weather == NetworkOptions()


def test_settle_ends_before_its_time_when_all_rest_and_what_comes_later_waits() -> None:
    told = Told("0 start\n1 settle 60\n2 crash a\n50 crash b\n")
    assert told.steps == [(0.0, "start"), (3.0, "settle"), (3.0, "crash"), (50.0, "crash")]


@pytest.mark.parametrize(("last", "settled"), [("", True), ("9 crash a\n", False), ("9 crash a\n9 settle 9\n", True)])
def test_only_a_world_to_which_nothing_happened_since_has_settled(last: str, settled: bool) -> None:
    assert Told(f"0 start\n1 settle 60\n{last}").world.settled is settled
