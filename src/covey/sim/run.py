"""One run: a scenario played, its trace complete, and what the simulator itself can say of it."""

import traceback
from collections.abc import Callable

from msgspec import Struct

from covey.kernel.errors import BrokenInvariant
from covey.sim.model import Model
from covey.sim.scenario import Scenario
from covey.sim.world import World
from covey.trace import Recorder


class Outcome(Struct, frozen=True):
    """What became of a run."""

    seed: int
    broken: str = ""
    """The invariant that broke, or the error that ended the engine; empty where there was none."""
    unrested: bool = False
    """Whether it was let come to rest and did not."""
    packets: int = 0
    seconds: float = 0.0
    """Of virtual time."""
    views: int = 0
    """How many different configurations were installed."""

    @property
    def failed(self) -> bool:
        """Whether the protocol did what it must not do."""
        return bool(self.broken) or self.unrested

    @property
    def why(self) -> str:
        """What was wrong, in one line."""
        return self.broken or ("did not come to rest" if self.unrested else "")


def run(
    scenario: Scenario,
    model: Model,
    recorder: Recorder | None = None,
    name: str = "run",
    watch: Callable[[World], None] | None = None,
    *,
    checking: bool = True,
) -> Outcome:
    """Play a scenario to its end, or until an invariant breaks, and write the whole trace of it.

    `watch` is given the world before anything happens in it.
    """
    world = World(
        scenario.seed,
        scenario.members,
        model,
        recorder=recorder,
        run=name,
        burst=scenario.burst,
        multicast=scenario.multicast,
        options=scenario.options,
        checking=checking,
    )
    if watch is not None:
        watch(world)
    return play(scenario.play, world)


def play(script: Callable[[World], None], world: World) -> Outcome:
    """Let a script happen in a new world: a scenario's, or any function that does things to it."""
    broken = ""
    try:
        script(world)
    except BrokenInvariant as error:
        broken = str(error)
    except Exception as error:
        broken = f"{type(error).__name__}: {error} at {_where(error)}"
    complete = world.settled and not broken
    world.write_headers(complete)
    world.recorder.flush()
    unrested = complete and not world.is_at_rest()
    return Outcome(world.seed, broken, unrested, world.packets, world.now, len(world.configs))


def _where(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
