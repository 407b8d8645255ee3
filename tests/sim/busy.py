"""Traces to compare: `python -m tests.sim.busy MODEL FILE SEED ...` plays generated scenarios into a file.

The model `busy` does a bit of everything that an engine can do, and changes only with this file.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from covey.cli.models import MODELS
from covey.kernel.effects import Append, Cast, Deliver, Halt, Install, Note, Send, Store
from covey.kernel.engine import Engine, Surroundings
from covey.sim.generate import scenario_of
from covey.sim.model import Model
from covey.sim.run import run
from covey.sim.scenario import Scenario
from covey.trace import JsonLinesSink, Recorder


class Busy(Engine):
    """Tells everybody how often it has ticked, remembers what it hears, and sometimes has enough."""

    def __init__(self, around: Surroundings, addresses: Sequence[str], options: Sequence[str]) -> None:
        super().__init__(around)
        self.addresses = addresses
        self.ticks = len(around.stable.log())
        self.heard = {str(self.me): 0}
        self.pauses = 0.0

    def start(self, now: float) -> None:
        self.deadline = now + self.random.random()
        self.out.append(Install(f"{self.me}:0", 0, (str(self.me),)))

    def receive(self, now: float, source: str, packet: bytes) -> None:
        self.heard[source] = self.heard.get(source, 0) + len(packet)
        if self.random.getrandbits(3) == 0:
            self.out.append(Send(source, packet[:40] + b"!"))
        if self.random.random() < 0.002:
            self.out.append(Halt("enough", restart=self.random.random() < 0.8))

    def wake(self, now: float) -> None:
        if self.deadline is None or now < self.deadline:
            return
        self.deadline = now + 0.05 + 0.1 * self.random.random()
        self.ticks += 1
        told = f"{now!r} {self.ticks} {sorted(self.heard)} {self.pauses!r}".encode()
        self.out += [Store("ticks", told), Cast(told[: 10 + self.random.getrandbits(6)]), Append(told)]
        self.out.append(Deliver(self.me, self.ticks, [told, told], f"{self.me}:0"))
        self.out.append(Note("state", {"counters": {**self.heard, "now": int(now * 1e9)}}))

    def submit(self, now: float, batch: Sequence[bytes], service: str = "") -> int:
        self.out += [Send(address, body) for body in batch[:3] for address in self.addresses]
        return min(3, len(batch))

    def hint(self, now: float, peer: str) -> None:
        self.heard[f"refused by {peer}"] = int(now * 1e9)

    def paused(self, now: float, seconds: float) -> None:
        self.pauses += seconds

    def leave(self, now: float) -> None:
        self.out.append(Halt("left", restart=False))


BUSY = Model("evs", Busy, lambda engines, names: True, lambda engine, bodies: bodies)


def write_traces(model: Model, file: Path, scenarios: Iterable[Scenario]) -> bytes:
    """Write one file, and return what is in it."""
    with Recorder(JsonLinesSink(file)) as recorder:
        for number, scenario in enumerate(scenarios):
            outcome = run(scenario, model, recorder, f"run {number}")
            assert not outcome.failed, outcome
    return file.read_bytes()


if __name__ == "__main__":
    _, name, where, *numbers = sys.argv
    asked = {**MODELS, "busy": BUSY}[name]
    write_traces(asked, Path(where), (scenario_of(asked, int(number)) for number in numbers))
