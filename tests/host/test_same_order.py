"""One schedule in both hosts: what an engine wants done is done in one order, on real sockets as in the simulator.

Both are watched at the same places: the disk, the rows as they are written and as they are handed on, what the
application is told, and what leaves for other addresses. A run of packets leaves together, and those to different
addresses have no order among them: only so far are the two logs brought into one form.
"""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from covey.kernel.effects import Append, Cast, Deliver, Effect, Halt, Install, Note, Send, Store
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.ids import ProcessId
from covey.kernel.storage import provision
from covey.net.addresses import Address, show_address
from covey.net.host import Host
from covey.net.sockets import Port
from covey.sim.disk import Disk
from covey.sim.machine import Machine
from covey.sim.model import Model
from covey.sim.world import World
from covey.trace import MemorySink, Recorder
from tests.host.things import free_addresses, until
from tests.sim.probe import Probe

ME, B, C = ADDRESSES = free_addresses(3)
ONE = ProcessId(ME, 1)
VIEW = Install("v1", 1, (f"{ME}/1", f"{B}/1"))
REPLY = b"an application answers to this"

Log = list[tuple[Any, ...]]


class LoggedDisk(Disk):
    def __init__(self, log: Log) -> None:
        self.events: Log = []
        super().__init__()
        provision(self, ME, "the disk")
        self.events = log

    def put(self, key: str, value: bytes) -> None:
        self.events.append(("put", key, value))
        super().put(key, value)

    def append(self, record: bytes) -> None:
        self.events.append(("append", record))
        super().append(record)

    def flush(self) -> None:
        self.events.append(("durable",))
        super().flush()


class LoggedRows(list[Any]):
    """What a sink has pending: rows are logged as they are written."""

    def __init__(self, log: Log) -> None:
        self.events = log

    def append(self, row: Any) -> None:
        if row.process == ME:
            self.events.append(("row", row.incarnation, row.event, row.message, row.config))
        super().append(row)


class Answering:
    """An application that submits while it is delivered to."""

    def __init__(self, log: Log) -> None:
        self.events = log
        self.submit: Any = None

    def hear(self, effect: Deliver | Install) -> None:
        self.events.append(("told", effect))
        if isinstance(effect, Deliver) and effect.messages == (REPLY,):
            self.events.append(("took", self.submit([Send(B, b"reply"), Store("reply", b"1"), Send(C, b"reply")])))


class Schooled(Probe):
    """Each incarnation begins with some effects of its own."""

    opening = (Store("opened", b"1"), Send(B, b"hello"), Append(b"opened"))


PACKETS = st.sampled_from([b"p", b"q", bytes(1000), b""])
EFFECTS = st.one_of(
    st.builds(Send, st.sampled_from([B, C]), PACKETS),
    st.builds(Cast, PACKETS),
    st.builds(Store, st.sampled_from(["k", "l"]), PACKETS),
    st.builds(Append, PACKETS),
    st.builds(Deliver, st.just(ONE), st.integers(1, 9), st.sampled_from([(b"m",), (REPLY,)]), st.just("v1")),
    st.just(Deliver(ONE, 1, (b"without a view",))),
    st.just(VIEW),
    st.just(Note("flush", {})),
)
BATCHES = st.lists(st.lists(EFFECTS, max_size=12), max_size=4)


@settings(max_examples=40, deadline=None)
@given(BATCHES, BATCHES, st.lists(EFFECTS, max_size=3))
def test_one_schedule_gives_one_order_in_both_hosts(
    first: list[list[Effect]], second: list[list[Effect]], never: list[Effect]
) -> None:
    restart = [*(first.pop() if first else ()), Halt("again", restart=True), *never]
    stop = [*(second.pop() if second else ()), Halt("enough", restart=False), *never]
    lives = [[*first, restart], [*second, stop]]
    simulated, real = in_the_simulator(lives), asyncio.run(on_sockets(lives))
    assert list(comparable(real)) == list(comparable(simulated))
    assert no_row_overtaken(real)


def in_the_simulator(lives: Sequence[Sequence[Sequence[Effect]]]) -> Log:
    log: Log = []
    sink = MemorySink()
    sink.pending = LoggedRows(log)
    model = Model("evs", lambda around, *_: Schooled(around), lambda engines, _: True, lambda engine, bodies: bodies)
    world = World(0, ADDRESSES, model, recorder=Recorder(sink))
    machine = world.machine(ME)
    machine.disk = LoggedDisk(log)
    application = Answering(log)
    application.submit = machine.submit

    def saw(of: Machine, what: Any) -> None:
        if of is machine and isinstance(what, Deliver | Install):
            application.hear(what)

    def carry(source: str, to: str, packet: bytes) -> None:
        log.append(("sent", to, packet))

    def cast(source: str, packet: bytes, to: Sequence[str] = ()) -> None:
        log.extend(("sent", address, packet) for address in to or (B, C) if address != ME)

    world.watchers.append(saw)
    world.carry, world.cast = carry, cast  # type: ignore[method-assign]
    machine.start()
    for batches in lives:
        for batch in batches:
            machine.submit(batch)
        world.run_for(1)
    return log


async def on_sockets(lives: Sequence[Sequence[Sequence[Effect]]]) -> Log:
    log: Log = []
    sink = MemorySink()
    sink.pending = LoggedRows(log)
    application = Answering(log)
    recorder = Recorder(sink)
    recorder.flush = lambda: log.append(("rows handed on",))  # type: ignore[method-assign]
    host = Host(build, ME, [B, C], LoggedDisk(log), recorder, on_effect=application.hear)
    application.submit = host.submit
    port_send = Port._send

    def send(port: Port, to: Address, train: list[bytes]) -> bool:
        log.extend(("sent", show_address(to), packet) for packet in train)
        return port_send(port, to, train)

    Port._send = send  # type: ignore[method-assign]
    try:
        task = asyncio.get_running_loop().create_task(host.run())
        for incarnation, batches in enumerate(lives, start=1):
            await until(lambda n=incarnation: is_idle(host, n), f"incarnation {incarnation} lives")
            for batch in batches:
                host.submit(batch)
                await until(lambda n=incarnation: is_idle(host, n) or host.life.ended.done(), "it is carried out")
        await asyncio.wait_for(task, 10)
    finally:
        Port._send = port_send  # type: ignore[method-assign]
    return log


def build(around: Surroundings, addresses: Sequence[str]) -> Engine:
    return Schooled(around)


def is_idle(host: Host, incarnation: int) -> bool:
    life = host.life
    return (
        life is not None
        and life.pid.incarnation == incarnation
        and "start" in life.engine.names  # type: ignore[attr-defined]
        and not life._due
        and not life.is_writing
        and not life.engine.out
    )


def comparable(log: Log) -> Iterable[Any]:
    """The log without what only one of them has, and each run of packets by address."""
    kept = [entry for entry in log if entry != ("rows handed on",)]
    for is_sent, run in groupby(kept, key=lambda entry: entry[0] == "sent"):
        entries = list(run)
        yield from sorted(entries, key=lambda entry: entry[1]) if is_sent else entries


def no_row_overtaken(log: Log) -> bool:
    """Whether nothing left, and the application was told nothing, while a row before it was not handed on."""
    is_pending = False
    for what, *_ in log:
        if what == "row":
            is_pending = True
        elif what == "rows handed on":
            is_pending = False
        elif what in ("sent", "told") and is_pending:
            return False
    return True
