"""What the simulator needs to know of a protocol."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from covey.kernel.engine import Engine, Surroundings
from covey.kernel.layer import Layer

if TYPE_CHECKING:
    from covey.sim.scenario import Scenario

SIZES = ("usual", "large")
"""Of random runs."""

Build = Callable[[Surroundings, Sequence[str], Sequence[str]], Engine]
"""Makes an engine of its surroundings, of all addresses, and of the options of the run."""

AtRest = Callable[[Sequence[Engine], Sequence[str]], bool]
"""Whether engines that can all reach one another, of those names in all, have come to rest."""

Messages = Callable[[Engine, Sequence[bytes]], Sequence[Any]]
"""Makes what `submit` takes of the bodies of messages."""

Ask = Callable[[Engine, float, Sequence[str]], None]
"""Makes a request to an engine, in words of the model's own; `MisuseError` where they make no sense."""

Cases = Callable[[Sequence[dict[str, Any]]], set[str]]
"""Tells from the rows of a run which cases it reached, by their names."""


class Model(NamedTuple):
    """A protocol under its name in the traces."""

    name: str
    build: Build
    at_rest: AtRest
    messages: Messages
    services: Sequence[str] = ()
    """What messages may be sent under, besides what is usual."""
    options: Sequence[str] = ()
    """What a run may be played with."""
    ask: Ask | None = None
    generate: "Callable[[int, str], Scenario] | None" = None
    """Makes the random scenario of a seed, of one of the `SIZES`; without it there is one mix, of one size."""
    cases: Cases | None = None
    layer: tuple[str, Callable[[str], Layer]] | None = None
    """The model that what it lets through is judged by, and what makes it for a process of that name."""
