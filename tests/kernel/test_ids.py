"""Identities keep their meaning through their text form, whatever a process is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.kernel.errors import MisuseError
from covey.kernel.ids import DIGITS_MAX, INCARNATION_MAX, NAME_BYTES_MAX, MessageId, ProcessId, check_name

NAMES = st.text(st.characters(codec="utf-8")) | st.text("a/0~", max_size=8)
INCARNATIONS = st.integers(1, INCARNATION_MAX)


@given(NAMES, INCARNATIONS)
def test_a_process_id_is_read_back_as_it_was_written(name: str, incarnation: int) -> None:
    pid = ProcessId(name, incarnation)
    assert ProcessId.parse(str(pid)) == pid


@given(NAMES, INCARNATIONS, st.integers(0, 2**63 - 1))
def test_a_message_id_is_read_back_as_it_was_written(name: str, incarnation: int, number: int) -> None:
    message = MessageId(name, incarnation, number)
    assert MessageId.parse(str(message)) == message


@pytest.mark.parametrize("kind", [ProcessId, MessageId])
@given(text=st.text() | st.text("a/01", max_size=8))
def test_any_text_is_an_id_or_a_mistake_that_names_it(kind: type[ProcessId] | type[MessageId], text: str) -> None:
    said = _parse(kind, text)
    assert said == text or said.startswith(repr(text))


def _parse(kind: type[ProcessId] | type[MessageId], text: str) -> str:
    try:
        return str(kind.parse(text))
    except MisuseError as error:
        return str(error)


@pytest.mark.parametrize("text", ["a", "a/", "a/0", "a/01", "a/-1", "a/1 ", "a/1.0", "a/٣", "a/1/", "/"])
def test_what_has_no_incarnation_from_1_is_no_process_id(text: str) -> None:
    with pytest.raises(MisuseError, match="is not a process id; it has the form name/incarnation, incarnation from 1"):
        ProcessId.parse(text)


@pytest.mark.parametrize("text", ["a", "a/1", "a/0/1", "a/1/01", "a/1/-1", "a/1/x", "1/2"])
def test_what_lacks_one_of_three_parts_is_no_message_id(text: str) -> None:
    with pytest.raises(MisuseError, match="is not a message id; it has the form process/incarnation/number"):
        MessageId.parse(text)


@pytest.mark.parametrize("digits", [DIGITS_MAX + 1, 5000])
def test_a_number_of_thousands_of_digits_is_no_id(digits: int) -> None:
    """`int` refuses it with an error of another kind, which would pass by those who expect this one."""
    with pytest.raises(MisuseError):
        ProcessId.parse("a/" + "9" * digits)
    with pytest.raises(MisuseError):
        MessageId.parse("a/1/" + "9" * digits)


@pytest.mark.parametrize("name", ["a", "x" * NAME_BYTES_MAX, "ü" * (NAME_BYTES_MAX // 2), "a b/c\n"])
def test_a_name_may_hold_anything_up_to_255_bytes(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "has 0"),
        ("x" * (NAME_BYTES_MAX + 1), "has 256"),
        ("ü" * (NAME_BYTES_MAX // 2 + 1), "has 256"),
        ("\ud800", "written as UTF-8"),
    ],
)
def test_a_name_that_no_packet_can_carry_is_refused(name: str, complaint: str) -> None:
    with pytest.raises(MisuseError, match=complaint):
        check_name(name)
