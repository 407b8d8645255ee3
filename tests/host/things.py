"""What tests of the host share: probes at real sockets, and waiting for what they do."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from covey.kernel.effects import Halt
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.storage import Storage
from covey.net.host import Host
from covey.sim.disk import Disk
from tests.sim.probe import Probe

WAIT_S = 20.0
"""More than anything here takes on a busy machine; a test that waits so long has failed."""


class Guest(Probe):
    """A probe that leaves when it is asked to."""

    def leave(self, now: float) -> None:
        super().leave(now)
        self.out.append(Halt("left", restart=False))


def build(around: Surroundings, addresses: Sequence[str]) -> Engine:
    return Guest(around)


def probe(host: Host) -> Probe:
    """The engine of the host's present incarnation."""
    assert host.life is not None
    assert isinstance(host.life.engine, Probe)
    return host.life.engine


async def until(condition: Callable[[], Any], what: str) -> None:
    """Wait until that holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + WAIT_S
    while not condition():
        assert loop.time() < end, f"in vain waited until {what}"
        await asyncio.sleep(0.002)


@asynccontextmanager
async def running(host: Host) -> AsyncIterator[asyncio.Task[Any]]:
    """A host whose first incarnation has begun; cancelled at the end, if it still runs."""
    task = asyncio.get_running_loop().create_task(host.run())
    try:
        await until(lambda: task.done() or (host.life is not None and host.life.received >= 0), "it lives")
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def make(address: str = "127.0.0.1:0", peers: Sequence[str] = (), storage: Storage | None = None, **more: Any) -> Host:
    """A host of a probe."""
    return Host(more.pop("build", build), address, peers, storage or Disk(), **more)


def free_addresses(count: int) -> list[str]:
    """Addresses whose ports were free just now."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return ["{}:{}".format(*each.getsockname()) for each in sockets]
    finally:
        for each in sockets:
            each.close()
