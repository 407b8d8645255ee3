"""Stable storage: what a process finds again after it crashed.

Two things, in any order: values under keys, and one append-only log. Writes become durable
together at `flush`. After a crash what is found again is a *prefix* of all writes, in their order and each
of them whole: at least those up to the last flush, at most all of them.

The storage carries the version of its own format. A newer one is refused, since only the program
that wrote it can know what it means; an older one is brought up to date step by step.
"""

from collections.abc import Callable
from typing import Protocol

from covey.kernel.errors import WorldError
from covey.kernel.ids import INCARNATION_MAX, ProcessId, check_name

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
"""From each older format the step to the next one. A crash may end a step anywhere: it is then done again."""


def open_format(storage: Storage, where: str) -> None:
    """Bring the storage to this program's format, or refuse it by the name `where`."""
    if storage.get(FORMAT_KEY) is None:
        storage.put(FORMAT_KEY, b"%d" % FORMAT)
        return
    version = _number(storage, FORMAT_KEY, where)
    if version > FORMAT:
        raise WorldError(
            f"{where} was written in storage format {version}, and this covey reads formats up to {FORMAT}: "
            "run the newer covey on it, or give this process new storage and a new name"
        )
    for step in range(version, FORMAT):
        MIGRATIONS[step](storage)
        storage.put(FORMAT_KEY, b"%d" % (step + 1))
        storage.flush()


def provision(storage: Storage, name: str, where: str) -> None:
    """Give a name to new storage: the first, and for this name the only, time."""
    check_name(name)
    open_format(storage, where)
    if storage.get(NAME_KEY) is not None:
        owner = _text(storage, NAME_KEY, where)
        raise WorldError(f"{where} already belongs to {owner!r}: start it as it is, or give {name!r} new storage")
    storage.put(INCARNATION_KEY, b"0")
    storage.put(NAME_KEY, name.encode())  # last: storage that has a name has the rest, too
    storage.flush()


def next_incarnation(storage: Storage, fresh_name: Callable[[], str], where: str) -> ProcessId:
    """Return the identity of the incarnation that starts now; it is durable before it is returned.

    A name is reused only together with its storage. Storage without a name (new, or what is left
    after a loss) gets a fresh one, which nobody else has or had.
    """
    open_format(storage, where)
    if storage.get(NAME_KEY) is None:
        provision(storage, fresh_name(), where)
    incarnation = _number(storage, INCARNATION_KEY, where) + 1
    if incarnation > INCARNATION_MAX:
        raise WorldError(f"{where} has used up its {INCARNATION_MAX} incarnations: give this process new storage")
    storage.put(INCARNATION_KEY, b"%d" % incarnation)
    storage.flush()
    return ProcessId(_text(storage, NAME_KEY, where), incarnation)


def _text(storage: Storage, key: str, where: str) -> str:
    try:
        return (storage.get(key) or b"").decode()
    except UnicodeDecodeError:
        raise _damaged(storage, key, where) from None


def _number(storage: Storage, key: str, where: str) -> int:
    try:
        return int(_text(storage, key, where))
    except ValueError:
        raise _damaged(storage, key, where) from None


def _damaged(storage: Storage, key: str, where: str) -> WorldError:
    return WorldError(
        f"{where} is damaged: under {key} it holds {storage.get(key)!r}. Set it aside; "
        "without it this process comes back under a fresh name"
    )
