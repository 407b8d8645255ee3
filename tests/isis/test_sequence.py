"""How the sequence of site views grows: isis-1985, section 4.2, and its last paragraph."""

import pytest

from covey.isis.messages import NOTHING, Extension, Round, View
from covey.isis.sequence import VIEWS_MAX, Quorum, members_after, weight, with_next
from covey.kernel.ids import ProcessId

A, B, C, D = (ProcessId(name, 1) for name in "abcd")
THREE = Quorum("abc")


@pytest.mark.parametrize(
    ("sites", "holds"),
    [
        ([], False),
        ([A], False),
        ([A, B], True),
        ([A, D], False),
        ([A, ProcessId("a", 2), D], False),
        ([A, B, C, D], True),
    ],
)
def test_a_quorum_is_a_majority_of_the_configured_names(sites: list[ProcessId], holds: bool) -> None:
    assert THREE.holds(sites) is holds


def test_half_is_no_majority() -> None:
    assert not Quorum("abcd").holds([A, B])


def test_members_stand_by_age_and_newcomers_by_name_after_them() -> None:
    assert members_after(View(3, (C, A)), {A: 3, B: -1, C: 3, D: -1}) == (C, A, B, D)


def test_who_is_in_another_view_is_no_newcomer() -> None:
    assert members_after(View(3, (A, B)), {A: 3, B: 3, C: 2}) == (A, B)


def test_the_sequence_begins_with_view_0() -> None:
    assert with_next((), {A: -1, B: -1}, THREE) == (View(0, (A, B)),)
    assert with_next((), {A: -1}, THREE) == ()


def test_no_change_appends_no_view() -> None:
    last = View(3, (A, B))
    assert with_next((last,), {A: 2, B: 2}, THREE) == (last,)


def test_a_view_stays_in_the_extension_until_all_members_of_the_last_have_installed_it() -> None:
    three, four = View(3, (A, B)), View(4, (A, B, C))
    assert with_next((three, four), {A: 3, B: 2, C: -1}, THREE) == (three, four)
    assert with_next((three, four), {A: 3, B: 3, C: -1}, THREE) == (four,)
    assert with_next((three, four), {A: 4, B: 4, C: 4}, THREE) == (four,)


def test_an_extension_is_bounded() -> None:
    views = tuple(View(number, (A, B)) for number in range(VIEWS_MAX))
    assert with_next(views, {A: -1, B: -1, C: -1}, THREE) == views


def test_the_heavier_extension_is_of_the_later_round_or_longer() -> None:
    one, two = Round(1, B), Round(2, A)
    short, long, later = Extension(one, (View(0, (A, B)),)), Extension(one, (View(0, (A, B)), View(1, (A, B, C)))), two
    assert weight(NOTHING) < weight(short) < weight(long) < weight(Extension(later, (View(0, (A, B)),)))
