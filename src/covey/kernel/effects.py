"""What an engine wants done: the few things that it leaves in its ordered list `out`.

The order of the list is the promise. A host carries the effects out from first to last; what a
`Store` or an `Append` wrote is durable before any later effect of another kind takes place. (A
host may therefore make a whole run of them durable at once.)
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from covey.kernel.ids import ProcessId


class Send(Struct, frozen=True, gc=False):
    """Send one packet to one address; it may be lost."""

    to: str
    packet: bytes


class Cast(Struct, frozen=True, gc=False):
    """Send one packet to several addresses, the sender's own excepted; any copy may be lost."""

    packet: bytes
    to: tuple[str, ...] = ()
    """To every one that listens where none is named. A network that multicasts may let others hear it, too."""


class Store(Struct, frozen=True, gc=False):
    """Write a value under a key of stable storage."""

    key: str
    value: bytes


class Append(Struct, frozen=True, gc=False):
    """Add a record to the log of stable storage."""

    record: bytes


class Deliver(Struct, frozen=True):
    """Hand a batch of consecutive messages of one origin to the application."""

    origin: ProcessId
    number: int
    """Of the first message; the others follow by one."""
    messages: Sequence[bytes]
    view: str = ""
    """The configuration that they are delivered in; empty where the protocol has none."""
    ordinal: int | None = None
    """Of the first message, in the protocol's total order; the others follow by one."""


class Install(Struct, frozen=True):
    """Tell the application, and the trace, of a new configuration (a view)."""

    config: str
    seq: int
    members: tuple[str, ...]
    """Sorted, as the trace writes them."""
    kind: str = "regular"
    primary: bool | None = None
    group: str = ""
    previous: str = ""
    """Of a transitional configuration, the regular one that it ends."""
    since: Mapping[str, int] = {}
    """Of a primary component, for each member by name: the `seq` of the configuration since which it has been in the
    primary component without a break; this configuration's own for those that are merged into it now."""


class Note(Struct, frozen=True):
    """Write a row of the trace: an event of the trace format and its columns."""

    event: str
    columns: dict[str, Any]


class Halt(Struct, frozen=True, gc=False):
    """End this incarnation: nothing after it is carried out."""

    why: str
    restart: bool
    """Whether the host should start the next incarnation at once."""


Effect = Send | Cast | Store | Append | Deliver | Install | Note | Halt
