"""Who a process is, across its restarts, and what a message is called.

A *name* stays with its stable storage; the *incarnation* grows with each restart. Text forms are
parsed from the right, because a name may hold any character, slashes too.
"""

from typing import NamedTuple

from covey.kernel.errors import MisuseError


class ProcessId(NamedTuple):
    """One incarnation of a named process."""

    name: str
    incarnation: int

    def __str__(self) -> str:
        return f"{self.name}/{self.incarnation}"

    @classmethod
    def parse(cls, text: str) -> "ProcessId":
        """Read `name/incarnation`."""
        name, slash, incarnation = text.rpartition("/")
        if not slash or not _is_number(incarnation) or incarnation == "0":
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
        rest, slash, number = text.rpartition("/")
        if not slash or not _is_number(number):
            raise MisuseError(f"{text!r} is not a message id; it has the form process/incarnation/number")
        return cls(*ProcessId.parse(rest), int(number))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")
