"""An engine that does what the test tells it, and remembers how it was called."""

from collections.abc import Callable, Sequence
from typing import Any

from covey.kernel.effects import Effect
from covey.kernel.engine import Engine, Surroundings
from covey.sim.model import Model
from covey.sim.world import World
from covey.trace import MemorySink, Recorder


class Probe(Engine):
    """Its messages are effects: what is submitted to it is what it wants done."""

    opening: Sequence[Effect] = ()
    """What every probe wants done when it starts."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.around = around
        self.calls: list[tuple[Any, ...]] = []
        self.services: list[str] = []
        self.checks = 0
        self.answer: Callable[[str, bytes], Sequence[Effect]] = lambda source, packet: ()

    def start(self, now: float) -> None:
        self.calls.append(("start", now))
        self.out += self.opening

    def receive(self, now: float, source: str, packet: bytes) -> None:
        self.calls.append(("receive", now, source, packet))
        self.out += self.answer(source, packet)

    def wake(self, now: float) -> None:
        self.calls.append(("wake", now))
        self.deadline = None

    def submit(self, now: float, batch: Sequence[Effect], service: str = "") -> int:
        self.calls.append(("submit", now))
        self.services.append(service)
        self.out += batch
        return len(batch)

    def hint(self, now: float, peer: str) -> None:
        self.calls.append(("hint", now, peer))

    def paused(self, now: float, seconds: float) -> None:
        self.calls.append(("paused", now, seconds))

    def leave(self, now: float) -> None:
        self.calls.append(("leave", now))

    def check(self) -> None:
        self.checks += 1

    @property
    def names(self) -> list[str]:
        return [call[0] for call in self.calls]

    @property
    def packets(self) -> list[bytes]:
        return [call[3] for call in self.calls if call[0] == "receive"]


def ask(engine: Engine, now: float, words: Sequence[str]) -> None:
    assert isinstance(engine, Probe)
    engine.calls.append(("ask", now, tuple(words)))


def model(engine: type[Engine] = Probe) -> Model:
    return Model(
        "evs",
        lambda around, *_: engine(around),
        lambda engines, _: True,
        lambda engine, bodies: bodies,
        services=("causal", "safe"),
        options=("dynamic",),
        ask=ask,
    )


class Bench:
    """A world of probes, started, and its trace."""

    def __init__(self, members: str = "a b", engine: type[Engine] = Probe, seed: int = 0, **options: bool) -> None:
        self.sink = MemorySink()
        self.world = World(seed, members.split(), model(engine), recorder=Recorder(self.sink), **options)
        self.world.start()

    def __getitem__(self, name: str) -> Probe:
        engine = self.world.machine(name).engine
        assert isinstance(engine, Probe)
        return engine

    def do(self, name: str, *effects: Effect) -> None:
        """Have a process do these things."""
        assert self.world.machine(name).submit(effects) == len(effects)

    def wake_at(self, name: str, deadline: float | None) -> None:
        """Have a process want a wake-up."""
        self[name].deadline = deadline
        self.do(name)

    @property
    def events(self) -> list[tuple[str, str]]:
        """Process and event of every row so far."""
        return [(f"{row['process']}/{row['incarnation']}", row["event"]) for row in self.sink.rows]
