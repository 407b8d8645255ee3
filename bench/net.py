"""Packets that one core passes over loopback in a second, from the sender's engine to the receiver's.

    bare         two sockets and a loop: a burst is sent, then received, each packet made an object of its own
    host         two hosts on one asyncio loop, with engines that do nothing but count and give credit
    delivered    the same, and each packet is handed to the application
    traced       the same, and a row of the trace for each is with the operating system before that

`offload` is whether the kernel cuts up and joins trains of packets. Each is repeated, in turns with the
others, and the median is shown with the least and the most. Time is CPU time of this process, in which both ends
run; a burst of packets is under way at a time, so that none is lost.
"""

import argparse
import asyncio
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from covey.kernel.effects import Deliver, Halt, Send
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.ids import ProcessId
from covey.net.host import Host
from covey.net.sockets import UDP_GRO, UDP_SEGMENT
from covey.sim.disk import Disk
from covey.trace import Recorder, open_sink

BURST = 44
"""Packets under way at a time: as many of the larger ones as one train holds."""
SIZES = 64, 1400


class Count(NamedTuple):
    """Of one run."""

    packets: int
    seconds: float


# ---- what is measured --------------------------------------------------------------------------


def bare(offload: bool, size: int, packets: int) -> Count:
    a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    with a, b:
        for each in (a, b):
            each.bind(("127.0.0.1", 0))
            each.setsockopt(socket.IPPROTO_UDP, UDP_GRO, int(offload))
        to, packet = b.getsockname(), bytes(size)
        train, extra = [packet] * BURST, [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("=H", size))]
        received = 0
        began = time.process_time()
        while received < packets:
            if offload:
                a.sendmsg(train, extra, 0, to)
            else:
                for _ in range(BURST):
                    a.sendto(packet, to)
            wanted = received + BURST
            while received < wanted:
                content, _, _, _ = b.recvmsg(1 << 16, 64)
                received += len([content[start : start + size] for start in range(0, len(content), size)])
        return Count(received, time.process_time() - began)


class Source(Engine):
    """Sends a burst for every packet that it is given."""

    def __init__(self, around: Surroundings, to: str, size: int) -> None:
        super().__init__(around)
        self.burst = [Send(to, bytes(size))] * BURST

    def start(self, now: float) -> None:
        self.out += self.burst

    def receive(self, now: float, source: str, packet: bytes) -> None:
        self.out += self.burst

    def wake(self, now: float) -> None: ...


class Target(Engine):
    """Gives credit for every burst, and is done at so many packets."""

    delivers = False

    def __init__(self, around: Surroundings, packets: int) -> None:
        super().__init__(around)
        self.packets = packets
        self.received = 0

    def start(self, now: float) -> None: ...
    def wake(self, now: float) -> None: ...

    def receive(self, now: float, source: str, packet: bytes) -> None:
        self.received += 1
        if self.delivers:
            self.out.append(Deliver(ProcessId("source", 1), self.received, (packet,), "view"))
        if self.received >= self.packets:
            self.out.append(Halt("done", restart=False))
        elif self.received % BURST == 0:
            self.out.append(Send(source, b""))


class Delivering(Target):
    delivers = True


async def _pass(target: type[Target], recorder: Recorder | None, offload: bool, size: int, packets: int) -> Count:
    def receiver(around: Surroundings, addresses: Sequence[str]) -> Engine:
        return target(around, packets)

    def sender(around: Surroundings, addresses: Sequence[str]) -> Engine:
        return Source(around, b.address, size)

    b = Host(receiver, "127.0.0.1:0", [], Disk(), recorder, offload=offload)
    a = Host(sender, "127.0.0.1:0", [], Disk(), offload=offload)
    running = asyncio.create_task(b.run())
    while b.life is None:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    began = time.process_time()
    sending = asyncio.create_task(a.run())
    await running
    seconds = time.process_time() - began
    a.leave()
    await sending
    return Count(packets, seconds)


def host(target: type[Target], traced: bool, offload: bool, size: int, packets: int) -> Count:
    with ExitStack() as stack:
        recorder = None
        if traced:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            recorder = stack.enter_context(Recorder(open_sink(folder / "rows")))
        return asyncio.run(_pass(target, recorder, offload, size, packets))


MEASURED: dict[str, Callable[[bool, int, int], Count]] = {
    "bare": bare,
    "host": lambda *run: host(Target, False, *run),
    "delivered": lambda *run: host(Delivering, False, *run),
    "traced": lambda *run: host(Delivering, True, *run),
}


# ---- figures -----------------------------------------------------------------------------------


class Figure(msgspec.Struct):
    """Of several runs; speeds are packets in a second of CPU time."""

    name: str
    offload: bool
    bytes: int
    """Of each packet."""
    runs: int
    median_per_s: int
    least_per_s: int
    most_per_s: int

    @property
    def megabytes_per_s(self) -> float:
        return self.median_per_s * self.bytes / 1e6


def measure(runs: int, packets: int, console: Console) -> list[Figure]:
    """Run all in turns, so that a slow minute of the machine is shared by all."""
    kinds = [(name, offload, size) for size in SIZES for offload in (False, True) for name in MEASURED]
    counts: dict[tuple[str, bool, int], list[Count]] = {kind: [] for kind in kinds}
    with console.status("measuring"):
        for _ in range(runs):
            for name, offload, size in kinds:
                counts[name, offload, size].append(MEASURED[name](offload, size, packets))
    return [figure(*kind, counts[kind]) for kind in kinds]


def figure(name: str, offload: bool, size: int, counts: list[Count]) -> Figure:
    speeds = [round(count.packets / count.seconds) for count in counts]
    return Figure(name, offload, size, len(counts), round(median(speeds)), min(speeds), max(speeds))


def table(figures: list[Figure]) -> Table:
    made = Table(
        "",
        "offload",
        "bytes",
        "packets/s",
        "least",
        "most",
        "MB/s",
        "of bare",
        title="covey.net over loopback, one core",
    )
    for column in made.columns[2:]:
        column.justify = "right"
    floor = {(each.offload, each.bytes): each.median_per_s for each in figures if each.name == "bare"}
    for each in figures:
        speeds = (each.bytes, each.median_per_s, each.least_per_s, each.most_per_s)
        share = each.median_per_s / floor[each.offload, each.bytes]
        made.add_row(
            each.name,
            "on" if each.offload else "off",
            *(f"{number:,}" for number in speeds),
            f"{each.megabytes_per_s:.0f}",
            f"{share:.0%}",
        )
    made.caption = f"median of {figures[0].runs} runs on Python {sys.version.split()[0]}"
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--runs", type=int, default=5, help="how often each is repeated (default: %(default)s)")
    parser.add_argument("--packets", type=int, default=50_000, help="in a run (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="one object a line instead of a table")
    asked = parser.parse_args()
    if asked.runs < 1 or asked.packets < BURST:
        parser.error(f"at least 1 run of {BURST} packets")
    figures = measure(asked.runs, asked.packets, Console(stderr=True))
    if asked.json:
        sys.stdout.writelines(msgspec.json.encode(each).decode() + "\n" for each in figures)
    else:
        Console().print(table(figures))


if __name__ == "__main__":
    main()
