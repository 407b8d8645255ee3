"""Packets that the simulator carries in a second of one core, from sender to engine.

    floor        no simulator: a heap push, a heap pop and a call for each packet
    echo         engines at two machines that send back whatever they are given
    cast         engines at five machines that pass a token, and cast a packet each time
    sites        five sites of the ISIS layer in a good network, with messages of applications
    generated    the ISIS site layer in random scenarios, with every fault

Each is repeated, in turns with the others, and the median is shown with the least and the most. Time is CPU
time of this process; what is counted are packets that an engine was given. `check` is whether the engines'
invariants are checked after every input.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from statistics import median
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from covey.cli.models import MODELS
from covey.kernel.effects import Cast, Effect, Send
from covey.kernel.engine import Engine, Surroundings
from covey.sim.generate import generate
from covey.sim.model import Model
from covey.sim.run import run
from covey.sim.world import World

PACKET = bytes(64)
UNDER_WAY = 64
"""Packets of the echo at a time; so many entries are in the heap."""
AIM = 200_000


class Count(NamedTuple):
    """Of one run."""

    packets: int
    seconds: float


def timed(work: Callable[[], int]) -> Count:
    began = time.process_time()
    packets = work()
    return Count(packets, time.process_time() - began)


# ---- what is measured --------------------------------------------------------------------------


def floor(checking: bool, packets: int) -> Count:
    received = 0

    def receive(now: float, packet: bytes) -> None:
        nonlocal received
        received += 1

    def work() -> int:
        heap = [(number * 0.001, number, receive, PACKET) for number in range(UNDER_WAY)]
        for number in range(UNDER_WAY, packets + UNDER_WAY):
            now, _, to, packet = heappop(heap)
            to(now, packet)
            heappush(heap, (now + 0.064, number, to, packet))
        return received

    return timed(work)


class Counting(Engine):
    """Counts what it is given."""

    def __init__(self, around: Surroundings, addresses: Sequence[str]) -> None:
        super().__init__(around)
        self.received = 0
        self.next = addresses[(addresses.index(around.address) + 1) % len(addresses)]
        self.is_first = around.address == addresses[0]

    def start(self, now: float) -> None: ...
    def wake(self, now: float) -> None: ...


class Echo(Counting):
    def start(self, now: float) -> None:
        if self.is_first:
            self.out += [Send(self.next, PACKET)] * UNDER_WAY

    def receive(self, now: float, source: str, packet: bytes) -> None:
        self.received += 1
        self.out.append(Send(source, packet))


class Ring(Counting):
    TOKEN = b"token"

    def pass_on(self) -> list[Effect]:
        return [Cast(PACKET), Send(self.next, self.TOKEN)]

    def start(self, now: float) -> None:
        if self.is_first:
            self.out += self.pass_on()

    def receive(self, now: float, source: str, packet: bytes) -> None:
        self.received += 1
        if packet is self.TOKEN:
            self.out += self.pass_on()


def engines(kind: type[Counting], members: str, checking: bool, packets: int) -> Count:
    """Let these engines run until they have been given so many packets."""
    model = Model(
        "evs", lambda around, names, _: kind(around, names), lambda engines, names: True, lambda engine, bodies: bodies
    )
    world = World(1, members, model, checking=checking)
    world.start()

    def work() -> int:
        while world.packets < packets:
            world.run_for(0.1)
        return sum(machine.engine.received for machine in world.up if isinstance(machine.engine, Counting))

    counted = timed(work)
    assert counted.packets == world.packets
    return counted


def sites(checking: bool, packets: int) -> Count:
    world = World(1, "abcde", MODELS["isis85"], checking=checking)
    world.start()
    world.run_for(5)
    before = world.packets

    def work() -> int:
        while world.packets - before < packets:
            for name in world.machines:
                world.send(name, 20)
            world.run_for(0.1)
        return world.packets - before

    return timed(work)


def generated(checking: bool, packets: int) -> Count:
    def work() -> int:
        received, seed = 0, 0
        while received < packets:
            received += run(generate(seed), MODELS["isis85"], checking=checking).packets
            seed += 1
        return received

    return timed(work)


MEASURED: dict[str, Callable[[bool, int], Count]] = {
    "floor": floor,
    "echo": lambda checking, packets: engines(Echo, "ab", checking, packets),
    "cast": lambda checking, packets: engines(Ring, "abcde", checking, packets),
    "sites": lambda checking, packets: sites(checking, packets // 4),
    "generated": lambda checking, packets: generated(checking, packets // 4),
}


# ---- figures -----------------------------------------------------------------------------------


class Figure(msgspec.Struct):
    """Of several runs; speeds are packets in a second of CPU time."""

    name: str
    check: bool | None
    runs: int
    packets: int
    """In each run, the least."""
    median_per_s: int
    least_per_s: int
    most_per_s: int


def measure(runs: int, packets: int, console: Console) -> list[Figure]:
    """Run all in turns, so that a slow minute of the machine is shared by all."""
    kinds = [(name, checking) for name in MEASURED for checking in (False, True) if name != "floor" or not checking]
    counts: dict[tuple[str, bool], list[Count]] = {kind: [] for kind in kinds}
    with console.status("measuring"):
        for _ in range(runs):
            for name, checking in kinds:
                counts[name, checking].append(MEASURED[name](checking, packets))
    return [figure(*kind, counts[kind]) for kind in kinds]


def figure(name: str, checking: bool, counts: list[Count]) -> Figure:
    speeds = [round(count.packets / count.seconds) for count in counts]
    check = None if name == "floor" else checking
    packets = min(count.packets for count in counts)
    return Figure(name, check, len(counts), packets, round(median(speeds)), min(speeds), max(speeds))


def table(figures: list[Figure]) -> Table:
    made = Table(
        "", "check", "packets a run", "packets/s", "least", "most", "of the floor", title="covey.sim, one core"
    )
    for column in made.columns[2:]:
        column.justify = "right"
    floor = figures[0].median_per_s
    for each in figures:
        check = "" if each.check is None else "on" if each.check else "off"
        speeds = (each.packets, each.median_per_s, each.least_per_s, each.most_per_s)
        made.add_row(each.name, check, *(f"{number:,}" for number in speeds), f"{each.median_per_s / floor:.0%}")
    made.caption = f"median of {figures[0].runs} runs on Python {sys.version.split()[0]}; aim: echo at {AIM:,}"
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--runs", type=int, default=5, help="how often each is repeated (default: %(default)s)")
    parser.add_argument("--packets", type=int, default=200_000, help="in a run, at least (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="one object a line instead of a table")
    asked = parser.parse_args()
    if asked.runs < 1 or asked.packets < UNDER_WAY:
        parser.error(f"at least 1 run of {UNDER_WAY} packets")
    figures = measure(asked.runs, asked.packets, Console(stderr=True))
    if asked.json:
        sys.stdout.writelines(msgspec.json.encode(each).decode() + "\n" for each in figures)
    else:
        Console().print(table(figures))


if __name__ == "__main__":
    main()
