"""What stands between a stack and the application, and shows it less, or something else, than the stack does.

A layer takes no part in the protocol. It is shown in order what the stack tells the application of one process,
over all its incarnations, and says what it lets through. That is a history of its own, with incarnations of its
own: the simulator writes it down as a second run, beside that of the stack.
"""

from typing import Any, NamedTuple, Protocol

from covey.kernel.effects import Deliver, Install, Note


class Passed(NamedTuple):
    """A row of what a layer lets through: its event and columns, as the trace has them."""

    incarnation: int
    """As the layer counts them."""
    event: str
    columns: dict[str, Any]


class Layer(Protocol):
    """Of one process, by its name, for as long as it keeps that."""

    def see(self, effect: Deliver | Install | Note) -> list[Passed]:
        """Learn what the stack tells; return what the application is told."""

    def end(self, event: str) -> list[Passed]:
        """Learn that an incarnation of the process has ended: `fail` or `stop`."""
