"""What the simulator needs to know of a protocol."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from covey.kernel.engine import Engine, Surroundings

Build = Callable[[Surroundings, Sequence[str]], Engine]
"""Makes an engine of its surroundings and of all addresses."""

AtRest = Callable[[Sequence[Engine], Sequence[str]], bool]
"""Whether engines that can all reach one another, of those names in all, have come to rest."""


Messages = Callable[[Engine, Sequence[bytes]], Sequence[Any]]
"""Makes what `submit` takes of the bodies of messages."""


class Model(NamedTuple):
    """A protocol under its name in the traces."""

    name: str
    build: Build
    at_rest: AtRest
    messages: Messages
