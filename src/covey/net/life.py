"""One incarnation on real sockets: what happens is given to the engine, what it leaves is carried out in order.

As in the simulator (`covey.sim.machine`), a list of effects is carried out from first to last. Two things are
added by the real world. Packets leave together, a whole run of `Send` and `Cast` at a time; before they do, every
row of the trace is with the operating system. And a run of `Store` and `Append` is made durable in
a thread: until that is done the engine is not called and nothing later is carried out, but the loop goes on.

All that happens enters by `_enter`, which is where a pause of this process is noticed: a tick that should have
come often did not. So the engine hears of it before it hears of anything that waited meanwhile, whether the
process was stopped, the machine slept, or the disk took long.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from covey.kernel.effects import Append, Cast, Deliver, Effect, Halt, Install, Note, Send, Store
from covey.kernel.engine import Engine
from covey.kernel.ids import ProcessId
from covey.kernel.storage import Storage
from covey.net.addresses import parse_address, show_address
from covey.net.plain import Sealing
from covey.net.seal import Refused
from covey.net.sockets import Port
from covey.trace.effects import row_of

if TYPE_CHECKING:
    from covey.net.host import Host
    from covey.trace import Member

logger = logging.getLogger(__name__)

PAUSE_S = 0.2
"""An engine is told that it was not running if that was for longer than this."""
TICK_S = 0.05
"""The process looks at its clock at least so often, to notice that it could not."""
MISMATCHES = ("version", "key", "unsealed", "boot")
TOLD_MAX = 64
"""So many mismatches are named; they are counted all the same."""
LEAVE_S = 5.0
"""An engine that wants to leave has so long for it."""


def boottime() -> float:
    """Seconds of a clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Life:
    """An engine, its port, and its end."""

    def __init__(
        self,
        host: "Host",
        pid: ProcessId,
        engine: Engine,
        port: Port,
        seals: Sealing,
        began: float,
        peers: tuple[str, ...],
    ) -> None:
        """The engine was made with these peers."""
        self.host = host
        self.pid = pid
        self.engine = engine
        self.port = port
        self.seals = seals
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Halt] = self.loop.create_future()
        self.member: Member | None = None
        if host.recorder is not None:
            self.member = host.recorder.member(host.run_name, *pid)
        self.config: str | None = None
        self.received = 0
        self.pause_s_max = 0.0
        self.delay_s_max = 0.0
        """By so much was a tick late: so long the loop was held up by something."""
        self.commit_s_max = 0.0
        self._began = began
        self._met = peers
        self._told: set[str] = set()
        self._seen = 0.0
        self._is_to_leave = False
        self._due: deque[Effect] = deque()
        self._carrying = False
        self._writing: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._tick: asyncio.TimerHandle | None = None
        self._tick_at = 0.0

    @property
    def now(self) -> float:
        return boottime() - self._began

    @property
    def is_writing(self) -> bool:
        """Whether the disk is waited for."""
        return self._writing is not None

    @property
    def is_over(self) -> bool:
        """Whether the engine is not called any more: its `Halt` has been taken, or the life has ended otherwise."""
        return self.ended.done() or any(type(effect) is Halt for effect in self._due)

    # ---- inputs ----

    def start(self) -> None:
        self._write("start", recovered=self.pid.incarnation > 1)
        self.port.listen(self.loop, self._on_readable)
        self._seen = self._tick_at = self.now
        self._enter(self.engine.start)
        self._on_tick()

    def submit(self, batch: Sequence[Any], service: str) -> int:
        """Give the engine messages of the application; return how many it took."""
        if self.is_over:
            return 0
        taken = self.engine.submit(self.now, batch, service)
        self._guard(self._drain)
        return taken

    def leave(self) -> None:
        """Go gracefully, or after a while without grace."""
        self._is_to_leave = True
        self._enter(self._leave)
        halt = Halt("did not leave in time", restart=False)
        self.loop.call_later(LEAVE_S, self._guard, lambda: self._end(halt))

    def _leave(self, now: float) -> None:
        self._is_to_leave = False
        try:
            self.engine.leave(now)
        except NotImplementedError:
            self.engine.out.append(Halt("left", restart=False))

    def _on_readable(self) -> None:
        self._enter(self._receive)

    def _on_timer(self) -> None:
        self._timer = None
        self._enter(self._wake)

    def _on_tick(self) -> None:
        now = self.now
        self.delay_s_max = max(self.delay_s_max, now - self._tick_at)
        self._tick_at = now + TICK_S
        self._tick = self.loop.call_later(TICK_S, self._on_tick)
        self._enter(self._wake)

    def _enter(self, step: Callable[[float], None]) -> None:
        """Let something happen to the engine, after the pause if there was one."""
        if not self.is_over and self._writing is None:
            self._guard(lambda: self._happen(step))

    def _happen(self, step: Callable[[float], None]) -> None:
        now = self.now
        silent, self._seen = now - self._seen, now
        if silent > PAUSE_S:
            self.pause_s_max = max(self.pause_s_max, silent)
            self.engine.paused(now, silent)
        step(now)
        if self._met is not self.host.peers:
            self._met = self.host.peers
            self.engine.meet(now, self.host.addresses)
        self._drain()

    def _guard(self, step: Callable[[], None]) -> None:
        """An error of the engine, of the application or of the disk ends this incarnation, and `Host.run` raises it."""
        try:
            step()
        except Exception as error:
            if not self.ended.done():
                self.ended.set_exception(error)

    def _receive(self, now: float) -> None:
        """Give the engine what has come, up to a bound, and what else is due."""
        seals, engine = self.seals, self.engine
        for source, datagram in self.port.receive():
            self.received += 1
            if source in self.host.cut:
                self.port.drops["cut"] += 1
                continue
            packet = seals.open(datagram, source, now)
            if isinstance(packet, Refused):
                self.port.drops[f"refused: {packet.reason}"] += 1
                self._tell_mismatch(packet)
            else:
                engine.receive(now, source, packet)
        for peer in self.port.refusals():
            engine.hint(now, peer)
        for to, datagram in seals.replies:
            self._put(to, datagram)
        seals.replies.clear()
        self._wake(now)

    def _tell_mismatch(self, refused: Refused) -> None:
        """Name, once each, what somebody has to set right: a version, a key, an image that was started twice."""
        text = str(refused)
        if refused.reason in MISMATCHES and text not in self._told and len(self._told) < TOLD_MAX:
            self._told.add(text)
            logger.warning("%s refuses a packet: %s", self.pid, text)

    def _wake(self, now: float) -> None:
        if self.engine.deadline is not None and self.engine.deadline <= now:
            self.engine.wake(now)

    # ---- effects ----

    def _drain(self) -> None:
        """Carry out what the engine left, up to a write that must be waited for; then set the timer.

        An application that submits while it is delivered to comes here again: what it causes waits its turn.
        """
        if self._carrying or self._writing is not None:
            return
        self._carrying = True
        try:
            while not self.ended.done() and (self._due or self.engine.out):
                if not self._due:
                    self._due.extend(self.engine.take())
                if writes := self._writes():
                    self._commit(writes)
                    return
                self._carry_out(self._due.popleft())
            self._flush()
        finally:
            self._carrying = False
        self._arm()

    def _carry_out(self, effect: Effect) -> None:
        kind = type(effect)
        if kind is Send:
            self._put(effect.to, self.seals.seal(effect.packet))  # type: ignore[union-attr, arg-type]
        elif kind is Cast:
            self._cast(self.seals.seal(effect.packet), effect.to)  # type: ignore[union-attr]
        else:
            if self.port.is_loaded:
                self._flush()
            self._act(effect)

    def _put(self, to: str, datagram: bytes) -> None:
        address = parse_address(to)
        if address is None:
            self.port.drops["send: no such address"] += 1
        elif self.host.cut and show_address(address) in self.host.cut:
            self.port.drops["cut"] += 1
        else:
            self.port.put(address, datagram)

    def _cast(self, datagram: bytes, to: Sequence[str]) -> None:
        if self.port.group is not None and not self.host.cut:  # a group cannot be told whom to leave out
            self.port.put(self.port.group, datagram)
            return
        for peer in to or self.host.peers:
            if peer != self.host.address:
                self._put(peer, datagram)

    def _flush(self) -> None:
        """Let packets leave, after the rows that they follow."""
        if self.host.recorder is not None:
            self.host.recorder.flush()
        self.port.flush()

    def _act(self, effect: Effect) -> None:
        """Carry out one of the rarer effects; the application hears of nothing that is not in the trace."""
        match effect:
            case Deliver():
                if effect.view:
                    self._write_down(effect)
                self._tell(effect)
            case Install():
                self.config = effect.config
                self._write_down(effect)
                self._tell(effect)
            case Note():
                self._write_down(effect)
            case Halt():
                self._end(effect)
            case _:
                raise TypeError(f"no such effect: {effect!r}")

    def _tell(self, effect: Deliver | Install) -> None:
        self._flush()
        self.host.on_effect(effect)

    def _end(self, halt: Halt) -> None:
        if self.ended.done():
            return
        if halt.restart and self.member is not None:
            self.member.write_fail(self._time_ns, self.config)
        else:
            self._write("stop", config=self.config)
        self._flush()
        self.ended.set_result(halt)

    # ---- disk ----

    def _writes(self) -> list[Store | Append]:
        """Take the writes that are next."""
        writes: list[Store | Append] = []
        while self._due and isinstance(effect := self._due[0], Store | Append):
            writes.append(effect)
            self._due.popleft()
        return writes

    def _commit(self, writes: list[Store | Append]) -> None:
        """Make them durable, and go on then; what arrives meanwhile waits in the kernel."""
        self._flush()
        self.port.rest()
        began = boottime()
        self._writing = self.loop.run_in_executor(None, write_all, self.host.storage, writes)
        self._writing.add_done_callback(lambda done: self._guard(lambda: self._go_on(done, began)))

    def _go_on(self, done: "asyncio.Future[None]", began: float) -> None:
        self._writing = None
        self.commit_s_max = max(self.commit_s_max, boottime() - began)
        done.result()
        if self.ended.done():
            return
        self.port.listen(self.loop, self._on_readable)
        # First the inputs: they must not starve where every message of the application is written.
        self._enter(self._leave if self._is_to_leave else self._receive)
        self._drain()

    # ---- trace ----

    def _write_down(self, effect: Deliver | Install | Note) -> None:
        if self.member is not None:
            event, columns = row_of(effect)
            self._write(event, **columns)

    def _write(self, event: str, **columns: Any) -> None:
        if self.member is not None:
            self.member.write(self._time_ns, event, **columns)

    @property
    def _time_ns(self) -> int:
        return int(self.now * 1_000_000_000)

    # ---- timer and end ----

    def _arm(self) -> None:
        """See to it that the engine is woken at its deadline."""
        deadline = self.engine.deadline
        if deadline is None or (self._timer is not None and self._timer_at <= deadline) or self.ended.done():
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self.loop.call_later(max(deadline - self.now, 0.0), self._on_timer)

    async def close(self) -> None:
        """Let go of loop and port; a write under way is waited for."""
        for handle in (self._timer, self._tick):
            if handle is not None:
                handle.cancel()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        self.port.close()


def write_all(storage: Storage, writes: Sequence[Store | Append]) -> None:
    """Make these durable."""
    for write in writes:
        if isinstance(write, Store):
            storage.put(write.key, write.value)
        else:
            storage.append(write.record)
    storage.flush()
