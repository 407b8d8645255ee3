"""What the simulator needs to know of extended virtual synchrony."""

from collections.abc import Sequence

from covey.evs.engine import Evs
from covey.evs.membership import State
from covey.evs.messages import SERVICES as SERVICES
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.errors import MisuseError
from covey.kernel.ids import ProcessId

OPTIONS = ("dynamic", "spares")
"""Of a run: dynamic linear voting; the last one or two members are not configured, and can replace others."""


FRAME_BYTES = 16
"""Two or three messages of the simulated applications: so a few messages make many frames."""


def build(around: Surroundings, addresses: Sequence[str], options: Sequence[str] = ()) -> Evs:
    """Make a process of those that start at these addresses, each under its address as its name."""
    return _build(around, addresses, options, primary_only=False)


def build_virtually_synchronous(around: Surroundings, addresses: Sequence[str], options: Sequence[str] = ()) -> Evs:
    """The same for an application that sends in the primary component only."""
    return _build(around, addresses, options, primary_only=True)


def _build(around: Surroundings, addresses: Sequence[str], options: Sequence[str], *, primary_only: bool) -> Evs:
    configured = addresses
    if "spares" in options:  # an odd number is left, for close votes
        configured = addresses[: max(1, len(addresses) - (1 if len(addresses) % 2 == 0 else 2))]
    dynamic = "dynamic" in options
    return Evs(around, addresses, configured, dynamic=dynamic, primary_only=primary_only, frame_bytes=FRAME_BYTES)


def messages(engine: Engine, bodies: Sequence[bytes]) -> Sequence[bytes]:
    return bodies


def ask(engine: Engine, now: float, words: Sequence[str]) -> None:
    """`replace OLD NEW` in the configured set; where that cannot be, it is not done."""
    match words, engine:
        case ["replace", old, new], Evs():
            try:
                engine.replace(now, old, new)
            except MisuseError:
                engine.drop("change: refused")
        case _:
            raise MisuseError("expected replace OLD NEW")


def at_rest(engines: Sequence[Engine], configured: Sequence[str]) -> bool:
    """Whether processes that all reach one another have delivered all, in one configuration of just them."""
    processes = [engine for engine in engines if isinstance(engine, Evs)]
    everybody = {process.me for process in processes}
    return all(_rests(process, processes[0], everybody) for process in processes)


def _rests(process: Evs, other: Evs, everybody: set[ProcessId]) -> bool:
    ring = process.ring
    return (
        process.membership.state is State.OPERATIONAL
        and ring.id == other.ring.id
        and {*ring.members} == everybody
        and ring.delivered == other.ring.delivered == ring.token_seq * (not ring.is_alone) + ring.aru * ring.is_alone
        and not (process.outbox and process.may_send)
    )
