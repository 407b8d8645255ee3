"""The host on a real network: the same engines as in the simulator, on UDP with asyncio.

`covey.kernel.engine` lists what a host owes an engine; `covey.net.life` does it, for one incarnation after the
other. `covey.net.sockets` is what is left of Linux, `covey.net.plain` says what a seal is. Read them in this order.
"""

import asyncio
import os
import secrets
import signal
import socket
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, TypeVar

from covey.kernel.effects import Deliver, Halt, Install
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.errors import MisuseError
from covey.kernel.ids import ProcessId
from covey.kernel.storage import Storage, next_incarnation
from covey.net.addresses import Address, is_loopback, is_multicast, own_address, parse_address, show_address
from covey.net.keys import Keys
from covey.net.life import Life, boottime
from covey.net.plain import Plain, Sealing
from covey.net.proof import BOOT_BYTES
from covey.net.seal import Seals
from covey.net.sockets import Port

if TYPE_CHECKING:
    from typing import Any

    from covey.trace import Recorder

T = TypeVar("T")

RESTART_S = 0.05
"""From a `Halt` that asks for it to the start of the next incarnation."""

Build = Callable[[Surroundings, Sequence[str]], Engine]
"""Makes an engine of its surroundings and of all addresses, the own one first."""


class Host:
    """One process of a group, through its incarnations."""

    def __init__(
        self,
        build: Build,
        address: str,
        peers: Sequence[str],
        storage: Storage,
        recorder: "Recorder | None" = None,
        keys: Keys | None = None,
        on_effect: Callable[[Deliver | Install], None] = lambda effect: None,
        *,
        run: str = "live",
        group: str | None = None,
        restarts: bool = True,
        offload: bool = True,
    ) -> None:
        """Storage and recorder stay the caller's, to close; `storage` is written to by threads, one at a time.

        `address` is what the others know this process by; port 0 takes a free one. Without keys only loopback
        is allowed. A multicast `group`, if given, takes every `Cast`; otherwise each that it is for gets a copy,
        which are all `peers` where it names none.
        `run` is the name in the trace. With `restarts` a `Halt` that asks for the next incarnation gets it.
        """
        self.build = build
        self.address = address
        self.peers = tuple(peers)
        self.storage = storage
        self.recorder = recorder
        self.keys = keys
        self.on_effect = on_effect
        self.run_name = run
        self.restarts = restarts
        self.offload = offload
        self.life: Life | None = None
        self.unusable = 0
        """Addresses that `meet` was given and that cannot be sent to."""
        self.cut: frozenset[str] = frozenset()
        """Addresses that nothing is sent to, and nothing taken from: see `cut_off`."""
        self._group = None if group is None else _multicast(group)
        self._bind = own_address(address)
        self._leaving = False
        self._refuse_exposure()
        for peer in peers:
            own_address(peer, "the peer")

    def _refuse_exposure(self) -> None:
        if not any(map(int, self._bind[0].split("."))):
            raise MisuseError(
                f"{self.address} stands for all addresses of this machine; give the one that the others know it by"
            )
        if self.keys is None and not is_loopback(self._bind):
            raise MisuseError(
                f"{self.address} can be reached from other machines, and without a key anybody there could take part: "
                "make a key with `covey key new` and give it to every member, or stay on 127.0.0.1"
            )

    # ---- life ----

    async def run(self) -> Halt:
        """Live until an engine halts for good, and return that `Halt`; when cancelled, leave first."""
        while True:
            halt = await self._live()
            if self._leaving or not (halt.restart and self.restarts):
                return halt
            await asyncio.sleep(RESTART_S)

    async def _live(self) -> Halt:
        """One incarnation, from its socket to its end."""
        port = Port(self._bind, self._group, self.offload)
        self._bind = port.at
        self.address = show_address(port.at)
        try:
            peers = self.peers
            pid, engine, began = await _finished(asyncio.get_running_loop().run_in_executor(None, self._prepare))
            self.life = life = Life(self, pid, engine, port, self._sealing(pid), began, peers)
        except BaseException:
            port.close()
            raise
        try:
            life.start()
            if self._leaving:
                life.leave()
            return await asyncio.shield(life.ended)
        except asyncio.CancelledError:
            self.leave()
            await asyncio.wait([life.ended])
            raise
        finally:
            await life.close()

    def _prepare(self) -> tuple[ProcessId, Engine, float]:
        """Make the next incarnation of what the storage holds; in a thread, since the disk may take its time."""
        pid = next_incarnation(self.storage, fresh_name, f"the storage of {self.address}")
        began = boottime()
        around = Surroundings(pid, self.address, self.storage, Random(secrets.randbits(64)))
        return pid, self.build(around, self.addresses), began

    @property
    def addresses(self) -> list[str]:
        """Those of the whole group, the own one first."""
        return [self.address, *(peer for peer in self.peers if peer != self.address)]

    def _sealing(self, pid: ProcessId) -> Sealing:
        return Plain() if self.keys is None else Seals(self.keys, pid, os.urandom(BOOT_BYTES))

    def rekey(self, keys: Keys) -> None:
        """Seal with the first of these keys from now on, and open with any."""
        if self.keys is None:
            raise MisuseError("this process was started without a key; start it again with one")
        self.keys = keys
        if self.life is not None and isinstance(self.life.seals, Seals):
            self.life.seals.rekey(keys)

    def leave(self) -> None:
        """Have the engine leave, and `run` return when it has."""
        if not self._leaving:
            self._leaving = True
            if self.life is not None:
                self.life.leave()

    def meet(self, addresses: Iterable[str]) -> None:
        """Reach others at just these from now on, as `Discovery` finds them; what is no IPv4 address is counted."""
        usable = [address for address in sorted(addresses) if parse_address(address) is not None]
        self.unusable += len(set(addresses)) - len(usable)
        self.peers = tuple(usable)

    def cut_off(self, addresses: Iterable[str]) -> None:
        """For tests and demos: drop all datagrams to and from just these from now on; none heals.

        They are counted as "cut". The other side need not do the same: it is neither heard nor reached.
        """
        self.cut = frozenset(show_address(own_address(address, "the address to cut off")) for address in addresses)

    # ---- the application ----

    @property
    def room(self) -> int:
        """How many messages `submit` would take now."""
        return 0 if self.life is None or self.life.ended.done() else self.life.engine.room

    def submit(self, batch: "Sequence[Any]", service: str = "") -> int:
        """Send messages of the application, from the first on; return how many were taken.

        `service` is one of those that the stack has, its usual one if empty.
        """
        return 0 if self.life is None else self.life.submit(batch, service)

    def stats(self) -> dict[str, float]:
        """What this incarnation did, dropped and waited for, each under its name."""
        life = self.life
        if life is None:
            return {}
        port = life.port
        return {
            "received datagrams": life.received,
            **{f"sent {what}": count for what, count in sorted(port.sent.items())},
            **{f"dropped: {why}": count for why, count in sorted((port.drops + life.engine.drops).items())},
            "dropped: meet: no such address": self.unusable,
            "receive buffer bytes": port.buffers.receive,
            "send buffer bytes": port.buffers.send,
            "longest pause s": life.pause_s_max,
            "longest delay of the loop s": life.delay_s_max,
            "longest commit s": life.commit_s_max,
        }


def serve(host: Host) -> Halt:
    """Run a host as this process, until it halts or leaves at SIGTERM or SIGINT; on uvloop where installed."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_until_told(host))


async def _until_told(host: Host) -> Halt:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, host.leave)
    return await host.run()


def _loop_factory() -> Callable[[], AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _finished(work: "asyncio.Future[T]") -> T:
    """Wait for work in a thread to its end, also when cancelled: nobody else may use the storage before."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


def fresh_name() -> str:
    """A name that no process has or had."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(8)}"


def _multicast(text: str) -> Address:
    group = own_address(text, "the multicast group")
    if not is_multicast(group):
        raise MisuseError(
            f"{text} is no multicast group; these are 224.0.0.0 to 239.255.255.255, such as 239.7.7.7:7700"
        )
    return group
