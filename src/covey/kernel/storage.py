"""Stable storage: what a process finds again after it crashed.

Two things, in any order: values under keys, and one append-only log. Writes become durable
together at `flush`; those that no flush followed may be lost, or partly lost, in a crash, but what
is found again is always whole values and a log without holes.

The storage carries the version of its own format. A newer one is refused, since only the program
that wrote it can know what it means; an older one is brought up to date step by step.
"""

from collections.abc import Callable
from typing import Protocol

from covey.kernel.errors import WorldError
from covey.kernel.ids import ProcessId

FORMAT = 1
FORMAT_KEY = "covey.format"
NAME_KEY = "covey.name"
INCARNATION_KEY = "covey.incarnation"


class Stable(Protocol):
    """Reading: all that an engine sees of its storage."""

    def get(self, key: str) -> bytes | None:
        """Return what was stored under the key last, or None."""

    def log(self) -> list[bytes]:
        """Return the records of the log, oldest first."""


class Storage(Stable, Protocol):
    """Reading and writing: what a host holds."""

    def put(self, key: str, value: bytes) -> None:
        """Store a value, durable after the next flush."""

    def append(self, record: bytes) -> None:
        """Add a record to the log, durable after the next flush."""

    def flush(self) -> None:
        """Return when all writes so far are durable."""


MIGRATIONS: dict[int, Callable[[Storage], None]] = {}
"""From each older format the step to the next one."""


def open_format(storage: Storage, where: str) -> None:
    """Bring the storage to this program's format, or refuse it by the name `where`."""
    found = storage.get(FORMAT_KEY)
    if found is None:
        storage.put(FORMAT_KEY, str(FORMAT).encode())
        return
    version = int(found)
    if version > FORMAT:
        raise WorldError(
            f"{where} was written in storage format {version}, and this covey reads formats up to {FORMAT}: "
            "run the newer covey on it, or give this process new storage and a new name"
        )
    for step in range(version, FORMAT):
        MIGRATIONS[step](storage)
        storage.put(FORMAT_KEY, str(step + 1).encode())
    storage.flush()


def provision(storage: Storage, name: str, where: str) -> None:
    """Give a name to new storage: the first, and for this name the only, time."""
    open_format(storage, where)
    if (owner := storage.get(NAME_KEY)) is not None:
        raise WorldError(f"{where} already belongs to {owner.decode()!r}; it cannot be given to {name!r}")
    storage.put(NAME_KEY, name.encode())
    storage.put(INCARNATION_KEY, b"0")
    storage.flush()


def next_incarnation(storage: Storage, fresh_name: Callable[[], str], where: str) -> ProcessId:
    """Return the identity of the incarnation that starts now; it is durable before it is returned.

    A name is reused only together with its storage. Storage without a name (new, or what is left
    after a loss) gets a fresh one, which nobody else has or had.
    """
    open_format(storage, where)
    name = storage.get(NAME_KEY)
    if name is None:
        provision(storage, fresh_name(), where)
        return next_incarnation(storage, fresh_name, where)
    incarnation = int(storage.get(INCARNATION_KEY) or b"0") + 1
    storage.put(INCARNATION_KEY, str(incarnation).encode())
    storage.flush()
    return ProcessId(name.decode(), incarnation)
