"""Packets that one core passes over loopback in a second, from the sender's engine to the receiver's.

    bare         two sockets and a loop: a burst is sent, then received, each packet made an object of its own
    host         two hosts on one asyncio loop, with engines that do nothing but count and give credit
    sealed       the same, with a key
    delivered    as host, and each packet is handed to the application
    traced       as delivered, and a row of the trace for each is with the operating system before that

`multicast` is whether packets go to a group, where the sending host is a member, too, and has to leave its own
packets alone. `offload` is whether the kernel cuts up and joins trains of packets. Each is repeated, in turns with
the others, and the median is shown with the least and the most. Time is CPU time of this process, in which both ends
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
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from covey.kernel.effects import Cast, Deliver, Effect, Halt, Send
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.ids import ProcessId
from covey.kernel.storage import provision
from covey.kernel.wire import header
from covey.net.host import Host
from covey.net.keys import KEY_BYTES, Key, Keys
from covey.net.sockets import UDP_GRO, UDP_SEGMENT
from covey.sim.disk import Disk
from covey.trace import Recorder, open_sink

BURST = 44
"""Packets under way at a time: as many of the larger ones as one train holds."""
SIZES = 64, 1400
HERE, GROUP = "127.0.0.1", "239.77.7.7"
GREETING, PACKET, CREDIT = 1, 2, 3
KIND_AT = 3
GREET_S = 0.002


class Count(NamedTuple):
    """Of one run."""

    packets: int
    seconds: float


# ---- what is measured --------------------------------------------------------------------------


def bare(multicast: bool, offload: bool, size: int, packets: int) -> Count:
    a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    with a, b:
        a.bind((HERE, 0))
        b.bind((GROUP if multicast else HERE, 0))
        if multicast:
            a.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(HERE))
            b.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(GROUP) + socket.inet_aton(HERE))
        b.setsockopt(socket.IPPROTO_UDP, UDP_GRO, int(offload))
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
    """Greets until it is greeted, and then sends a burst for every credit."""

    def __init__(self, around: Surroundings, to: str, size: int, multicast: bool) -> None:
        super().__init__(around)
        self.greeting = Send(to, header(GREETING, self.me))
        packet = header(PACKET, self.me)
        packet += bytes(size - len(packet))
        self.burst: list[Effect] = [Cast(packet) if multicast else Send(to, packet)] * BURST
        self.is_greeted = False

    def start(self, now: float) -> None:
        self.wake(now)

    def wake(self, now: float) -> None:
        self.deadline = None
        if not self.is_greeted:
            self.out.append(self.greeting)
            self.deadline = now + GREET_S

    def receive(self, now: float, source: str, packet: bytes) -> None:
        if packet[KIND_AT] == CREDIT or not self.is_greeted:
            self.is_greeted = True
            self.out += self.burst


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
        if packet[KIND_AT] == GREETING:
            self.out.append(Send(source, header(GREETING, self.me)))
            return
        self.received += 1
        if self.delivers:
            self.out.append(Deliver(ProcessId("source", 1), self.received, (packet,), "view"))
        if self.received >= self.packets:
            self.out.append(Halt("done", restart=False))
        elif self.received % BURST == 0:
            self.out.append(Send(source, header(CREDIT, self.me)))


class Delivering(Target):
    delivers = True


class Way(NamedTuple):
    """How hosts pass packets."""

    target: type[Target] = Target
    sealed: bool = False
    traced: bool = False


def disk(name: str) -> Disk:
    made = Disk()
    provision(made, name, name)
    return made


def free_group() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind((GROUP, 0))
        return f"{GROUP}:{free.getsockname()[1]}"


async def _pass(way: Way, recorder: Recorder | None, multicast: bool, offload: bool, size: int, packets: int) -> Count:
    def receiver(around: Surroundings, addresses: Sequence[str]) -> Engine:
        return way.target(around, packets)

    def sender(around: Surroundings, addresses: Sequence[str]) -> Engine:
        return Source(around, b.address, size, multicast)

    keys = Keys((Key(bytes(KEY_BYTES)),)) if way.sealed else None
    group = free_group() if multicast else None
    b = Host(receiver, f"{HERE}:0", [], disk("b"), recorder, keys, group=group, offload=offload)
    a = Host(sender, f"{HERE}:0", [], disk("a"), None, keys, group=group, offload=offload)
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


def host(way: Way, multicast: bool, offload: bool, size: int, packets: int) -> Count:
    with ExitStack() as stack:
        recorder = None
        if way.traced:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            recorder = stack.enter_context(Recorder(open_sink(folder / "rows")))
        return asyncio.run(_pass(way, recorder, multicast, offload, size, packets))


MEASURED: dict[str, Callable[[bool, bool, int, int], Count]] = {
    "bare": bare,
    "host": partial(host, Way()),
    "sealed": partial(host, Way(sealed=True)),
    "delivered": partial(host, Way(Delivering)),
    "traced": partial(host, Way(Delivering, traced=True)),
}
KINDS = [
    (name, multicast, offload, size)
    for size in SIZES
    for multicast in (False, True)
    for offload in (False, True)
    for name in MEASURED
    if not multicast or name in ("bare", "host", "sealed")
]


# ---- figures -----------------------------------------------------------------------------------


class Figure(msgspec.Struct):
    """Of several runs; speeds are packets in a second of CPU time."""

    name: str
    multicast: bool
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
    counts: dict[tuple[str, bool, bool, int], list[Count]] = {kind: [] for kind in KINDS}
    with console.status("measuring"):
        for _ in range(runs):
            for kind in KINDS:
                name, *how = kind
                counts[kind].append(MEASURED[name](*how, packets))
    return [figure(*kind, counts[kind]) for kind in KINDS]


def figure(name: str, multicast: bool, offload: bool, size: int, counts: list[Count]) -> Figure:
    speeds = [round(count.packets / count.seconds) for count in counts]
    return Figure(name, multicast, offload, size, len(counts), round(median(speeds)), min(speeds), max(speeds))


def table(figures: list[Figure]) -> Table:
    made = Table(
        "",
        "cast",
        "offload",
        "bytes",
        "packets/s",
        "least",
        "most",
        "MB/s",
        "of bare",
        title="covey.net over loopback, one core",
        box=None,
        padding=(0, 1, 0, 0),
    )
    for column in made.columns[3:]:
        column.justify = "right"
    floor = {(each.multicast, each.offload, each.bytes): each.median_per_s for each in figures if each.name == "bare"}
    for each in figures:
        speeds = (each.bytes, each.median_per_s, each.least_per_s, each.most_per_s)
        share = each.median_per_s / floor[each.multicast, each.offload, each.bytes]
        made.add_row(
            each.name,
            "multi" if each.multicast else "uni",
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
