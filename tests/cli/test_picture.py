"""The drawing of a run: events in, lines out."""

from collections.abc import Sequence

import pytest
from rich.text import Text

from covey.cli.models import MODELS
from covey.cli.picture import COLOURS, MARKS, Picture
from covey.cli.show import play_watched
from covey.cli.watch import Event, Pair
from covey.sim.generate import generate


def drawn(members: str, events: Sequence[Event], width: int = 100) -> str:
    picture = Picture(members.split(), width)
    lines = [picture.names(), *(line.text for line in picture.lines(events))]
    return "".join(f"{line.plain}\n" for line in lines)


def view(at: float, number: int, members: str, *installers: str) -> list[Event]:
    names = tuple(members.split())
    return [Event(at, "view", each, each, number, members=names) for each in installers or names]


def start(at: float, *names: str) -> list[Event]:
    return [Event(at, "start", name, name, 1) for name in names]


def apart(one: str, other: str) -> frozenset[Pair]:
    pairs = {(a, b) for a in one.split() for b in other.split()}
    return frozenset(pairs | {(b, a) for a, b in pairs})


RUN = [
    *start(0.0, "a", "b", "c"),
    *view(0.25, 0, "a b c"),
    Event(2.0, "fail", "b", "b"),
    *view(3.5, 1, "a c"),
    Event(4.0, "start", "b", "b/2", 2),
    Event(4.5, "propose", "a", "a", 2),
    Event(4.501, "accept", "c", "c", 2),
    *view(4.8, 2, "a b/2 c", "a", "b", "c"),
    Event(5.0, "cut", text="cut: a b | c for 4", cuts=apart("a b", "c")),
    Event(6.0, "pause", "a", "a"),
    Event(6.5, "resume", "a", "a"),
    Event(7.0, "clock", "b", text="the clock of b jumps 3 s ahead"),
    *view(7.2, 3, "a b/2", "b", "a"),
    Event(9.0, "mend"),
    Event(9.1, "fail", "c", "c"),
    Event(9.1, "halt", "c", "c", text="you are dead"),
    Event(9.15, "start", "c", "c/2", 2),
    Event(10.0, "send", "a", "a", 40),
    Event(10.4, "deliver", "b", "b/2"),
    Event(11.0, "fail", "b", "b/2"),
    Event(11.0, "rob", "b", "b"),
    Event(11.5, "stop", "a", "a"),
    Event(12.0, "cut", text="cut: c > a", cuts=frozenset({("c", "a")})),
    Event(12.5, "note", text="calm: all faults end"),
    Event(12.5, "mend"),
    Event(14.0, "rest", text="all have come to rest"),
]

DRAWING = """\
     time  a     b     c
    0.000  ▲     ▲     ▲     a b c start
    0.250  ◆0    ◇0    ◇0    view 0: a b c
           │     │     │
    2.000  │     ✗     │     b crashes
           │           │
    3.500  ◆1          ◇1    view 1: a c
    4.000  │     ▲2    │     b/2 starts
    4.500  ?2    ┊     +2    a proposes view 2
    4.800  ◆2    ◇2    ◇2    view 2: a b/2 c
    5.000  ●─────●  ╎  ●     cut: a b | c for 4
           │     │  ╎  │
    6.000  ‖     │  ╎  │     a is paused
    6.500  ▸     │  ╎  │     a goes on
    7.000  │     ◷  ╎  │     the clock of b jumps 3 s ahead
    7.200  ◇3    ◆3 ╎  │     view 3: a b/2
           │     │  ╎  │
    9.000  ●─────●─────●     mended: all reach each other
    9.100  │     │     †     c halts: you are dead
    9.150  │     │     ▲2    c/2 starts
   10.000  ↑     •     ┊     a sends 40
           │     │     ┊
   11.000  │     ⊗     ┊     b loses its disk
   11.500  ▽           ┊     a leaves
   12.000  ○╌╌╌╌╌╌╌╌╌╌╌●     cut: c > a
   12.500              ┊     calm: all faults end
   12.500  ●─────●─────●     mended: all reach each other
                       ┊
   14.000              ┊     all have come to rest
"""


def test_a_run_is_drawn_as_a_column_for_each_member_and_a_line_for_each_instant() -> None:
    assert drawn("a b c", RUN) == DRAWING


def test_the_legend_explains_every_mark_and_only_those_that_were_drawn() -> None:
    picture = Picture(["a", "b", "c"])
    assert list(picture.lines(RUN))
    assert len(list(picture.legend())) == len(MARKS) + 1
    picture = Picture(["a"])
    assert list(picture.lines(start(0.0, "a")))
    assert [text.plain for text in picture.legend()] == [
        "▲     starts; ▲2: its second life",
        "│     is in a view;  ┊  is up, and in none",
    ]


SIDES = [
    ("a | b c d", apart("a", "b c d"), "●  ╎  ●─────●─────●\n"),
    ("a d | b c", apart("a d", "b c"), "●─────┊─────┊─────●\n┊     ●─────●     ┊\n"),
    ("a c | b d", apart("a c", "b d"), "●─────┊─────●     ┊\n┊     ●─────┊─────●\n"),
    ("a c | b | d", apart("a c", "b d") | apart("b", "d"), "●─────┊─────●  ╎  ●\n┊     ●     ┊  ╎  ┊\n"),
    ("a > c", frozenset({("a", "c")}), "●╌╌╌╌╌┊╌╌╌╌╌○     ┊\n"),
    ("b c > d", frozenset({("b", "d"), ("c", "d")}), "┊     ●╌╌╌╌╌●╌╌╌╌╌○\n"),
    ("a > b c d", frozenset({("a", "b"), ("a", "c"), ("a", "d")}), "●╌╌╎╌╌○╌╌╌╌╌○╌╌╌╌╌○\n"),
]


@pytest.mark.parametrize(("cut", "cuts", "expected"), SIDES, ids=[cut for cut, _, _ in SIDES])
def test_a_cut_shows_who_still_reaches_whom(cut: str, cuts: frozenset[Pair], expected: str) -> None:
    events = [*start(0.0, "a", "b", "c", "d"), Event(0.5, "cut", text="", cuts=cuts)]
    _, _, *lines = drawn("a b c d", events).splitlines()
    assert "".join(f"{line[11:30].rstrip()}\n" for line in lines) == expected


def test_a_cut_that_is_mended_in_part_shows_what_is_left() -> None:
    events = [
        Event(0.0, "cut", text="cut", cuts=apart("a", "b c")),
        Event(0.1, "cut", text="cut", cuts=apart("a", "b c") | apart("b", "c")),
        Event(0.2, "mend", cuts=apart("b", "c") | apart("a", "c")),
    ]
    assert drawn("a b c", events).splitlines()[-1] == "    0.200  ●─────●  ╎  ●     mended in part"


def test_what_follows_at_once_on_something_else_at_the_same_member_gets_a_line_of_its_own() -> None:
    events = [*start(0.0, "a", "b"), Event(0.01, "pause", "a", "a"), Event(0.02, "fail", "b", "b")]
    assert drawn("a b", events).splitlines()[1:] == [
        "    0.000  ▲     ▲     a b start",
        "    0.010  ‖     ✗     a is paused; b crashes",
    ]


def test_a_proposal_that_is_installed_at_once_is_not_drawn() -> None:
    proposal = [Event(0.0, "propose", "a", "a", 0), Event(0.001, "accept", "b", "b", 0)]
    assert drawn("a b", [*proposal, *view(0.002, 0, "a b")]).splitlines()[1:] == ["    0.000  ◆0    ◇0    view 0: a b"]


def test_traffic_without_anything_else_shares_a_line_for_a_second_and_is_added_up() -> None:
    events = [Event(tenth * 0.1, "send", "a", "a", 5) for tenth in range(21)]
    assert " ".join(drawn("a", events).split()) == "time a 0.000 ↑ a sends 55 1.100 ↑ a sends 50"


def test_two_versions_of_one_view_are_both_told() -> None:
    lines = drawn("a b", [*view(0.0, 0, "a b", "a"), *view(0.0, 0, "b", "b")]).splitlines()
    assert lines[1:] == ["    0.000  ◆0    ◇0    view 0: a b; view 0: b"]


def test_long_words_go_on_in_the_next_line() -> None:
    events = [*start(0.0, "a", "b"), Event(0.0, "broken", text="invariant " * 3 + "broke")]
    assert drawn("a b", events, width=47).splitlines()[1:] == [
        "    0.000  ▲     ▲     invariant invariant",
        "           ┊     ┊     invariant broke; a b",
        "           ┊     ┊     start",
    ]


def test_names_that_are_too_long_for_their_columns_are_shortened() -> None:
    members = " ".join(f"{letter}-is-a-long-name" for letter in "abcdefg")
    assert drawn(members, []) == "     time  a-is-a-… b-is-a-… c-is-a-… d-is-a-… e-is-a-… f-is-a-… g-is-a-…\n"
    assert drawn("alpha beta", []) == "     time  alpha  beta\n"


def seven_members() -> list[int]:
    return [seed for seed in range(60) if len(generate(seed).members) == 7][:3]


@pytest.mark.parametrize("seed", seven_members())
def test_seven_members_fit_a_hundred_columns(seed: int) -> None:
    shown = play_watched(generate(seed), MODELS["isis85"])
    lines = drawn(" ".join(shown.scenario.members), shown.events).splitlines()
    assert max(map(len, lines)) <= 100


def styles(line: Text, width: int) -> list[str]:
    """Of the places of the columns."""
    found = [""] * len(line)
    for span in line.spans:
        found[span.start : span.end] = [str(span.style)] * (span.end - span.start)
    return found[11::width]


def test_members_of_one_view_have_lanes_of_one_colour_and_those_of_another_have_another() -> None:
    events = [*view(0.0, 0, "a b c"), *view(0.5, 1, "a b"), Event(1.5, "note", text="x")]
    lines = list(Picture(["a", "b", "c"]).lines(events))
    assert styles(lines[-1].text, 6)[:3] == [COLOURS[1], COLOURS[1], COLOURS[0]]


def test_lines_appear_in_the_order_of_time() -> None:
    times = [line.at for line in Picture(["a", "b", "c"]).lines(RUN)]
    assert times == sorted(times)
    assert times[-1] == 14.0


def test_a_run_that_goes_on_is_drawn_piece_by_piece_like_a_whole_one() -> None:
    late = [*start(0.0, "a", "b", "c"), *view(0.3, 0, "a b c", "b"), *view(0.9, 0, "a b c", "a", "c")]
    whole, pieces = Picture(["a", "b", "c"]), Picture(["a", "b", "c"])
    at_once = [line.text.plain for line in whole.lines(late)]
    assert [line.text.plain for events in _instants(late) for line in pieces.lines(events)] == at_once
    assert sum("◆0" in line for line in at_once) == 1


def _instants(events: Sequence[Event]) -> list[list[Event]]:
    return [[event for event in events if event.at == at] for at in sorted({event.at for event in events})]
