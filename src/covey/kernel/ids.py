"""Who a process is, across its restarts, and what a message is called.

A *name* stays with its stable storage; the *incarnation* grows with each restart. Text forms are
parsed from the right, because a name may hold any character, slashes too.
"""

from typing import Annotated, NamedTuple

from msgspec import Meta

from covey.kernel.errors import MisuseError

NAME_BYTES_MAX = 255
INCARNATION_MAX = 2**31 - 1
DIGITS_MAX = 100
"""More than any number of an id has, and few enough for `int`, which refuses thousands."""


class ProcessId(NamedTuple):
    """One incarnation of a named process."""

    name: Annotated[str, Meta(max_length=NAME_BYTES_MAX)]
    incarnation: Annotated[int, Meta(ge=0, le=INCARNATION_MAX)]
    """From 1; 0 before the first start."""

    def __str__(self) -> str:
        return f"{self.name}/{self.incarnation}"

    @classmethod
    def parse(cls, text: str) -> "ProcessId":
        """Read `name/incarnation`."""
        name, slash, incarnation = text.rpartition("/")
        if not slash or not _is_incarnation(incarnation):
            raise MisuseError(f"{text!r} is not a process id; it has the form name/incarnation, incarnation from 1")
        return cls(name, int(incarnation))


class MessageId(NamedTuple):
    """The n-th message of one incarnation of a process."""

    process: str
    incarnation: int
    number: int

    def __str__(self) -> str:
        return f"{self.process}/{self.incarnation}/{self.number}"

    @classmethod
    def parse(cls, text: str) -> "MessageId":
        """Read `process/incarnation/number`."""
        rest, _, number = text.rpartition("/")
        process, slash, incarnation = rest.rpartition("/")
        if not slash or not _is_incarnation(incarnation) or not _is_number(number):
            raise MisuseError(f"{text!r} is not a message id; it has the form process/incarnation/number")
        return cls(process, int(incarnation), int(number))


def check_name(name: str) -> None:
    """Refuse a name that no packet can carry."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise MisuseError(f"a process name can be written as UTF-8, and {name!r} cannot; choose another one") from None
    if not 0 < size <= NAME_BYTES_MAX:
        raise MisuseError(f"a process name has 1 to {NAME_BYTES_MAX} bytes in UTF-8; {name!r} has {size}")


def _is_incarnation(text: str) -> bool:
    return _is_number(text) and text != "0"


def _is_number(text: str) -> bool:
    is_digits = text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX
    return is_digits and (text == "0" or text[0] != "0")
