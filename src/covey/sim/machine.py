"""One simulated machine: an address, a disk, a clock, and the process that runs on it.

This is the simulator's host: it calls the engine and carries its effects out in order. A real host
does the same (`covey.kernel.engine` lists the duties); here a fuse can end the process between any two
effects, and time and packets come from the world.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from covey.kernel.effects import Append, Cast, Deliver, Effect, Halt, Install, Note, Send, Store
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.ids import ProcessId
from covey.kernel.storage import NAME_KEY, next_incarnation, provision
from covey.sim.disk import Disk

if TYPE_CHECKING:
    from covey.trace import Member

PAUSE_S = 0.2
"""A wake-up that comes so much too late is a pause."""
RESTART_S = 0.05
"""From a `Halt` that asks for it to the start of the next incarnation."""
INBOX_MAX = 2000
"""Packets that wait for a paused process; more are lost."""

ROUNDING_S = 1e-9
"""A timer may be that early, by rounding between two clocks."""

UP, DOWN, PAUSED = "up", "down", "paused"


class Life(Struct, frozen=True):
    """A turn in the life of a process, for those who watch: start, fail, stop, pause or resume."""

    turn: str


class Outside(Protocol):
    """What a machine needs of its world."""

    now: float
    random: Random
    checking: bool

    def carry(self, source: str, to: str, packet: bytes) -> None: ...
    def listeners(self) -> Sequence[str]: ...
    def at(self, time: float, action: Callable[[], None]) -> None: ...
    def set_timer(self, machine: "Machine", time: float) -> None: ...
    def engine(self, around: Surroundings) -> Engine: ...
    def member(self, pid: ProcessId) -> "Member": ...
    def saw(self, machine: "Machine", what: Effect | Life) -> None: ...


class Machine:
    """A machine that keeps its address through all that happens to it."""

    def __init__(self, world: Outside, address: str) -> None:
        self.world = world
        self.address = address
        self.disk = Disk()
        provision(self.disk, address, f"the disk of {address}")
        self.names = 1
        self.state = DOWN
        self.engine: Engine | None = None
        self.pid = ProcessId(address, 0)
        self.config: str | None = None
        self.member: Member | None = None
        self.rate = 1.0
        self.offset = 0.0
        self.latest = 0.0
        self.fuse: int | None = None
        self.kept = 0.0
        self.inbox: list[tuple[str, bytes]] = []
        self.timer: float | None = None

    # ---- clock ----

    @property
    def clock(self) -> float:
        """The machine's own time; it never goes back."""
        self.latest = max(self.latest, self.offset + self.rate * self.world.now)
        return self.latest

    def set_rate(self, rate: float) -> None:
        """Let the clock run fast or slow from now on."""
        self.offset += (self.rate - rate) * self.world.now
        self.rate = rate
        self._arm()

    def jump(self, seconds: float) -> None:
        """Let the clock jump forward; the host notices it as it would a pause."""
        self.offset += seconds
        if self.state == UP:
            self._notice_pause()
            self._arm()

    # ---- life and death ----

    def start(self) -> None:
        """Begin the next incarnation, under the name that the disk holds, or a fresh one."""
        if self.state != DOWN:
            return
        recovered = self.disk.get(NAME_KEY) is not None and self.pid.incarnation > 0
        self.pid = next_incarnation(self.disk, self._fresh_name, f"the disk of {self.address}")
        self.state = UP
        self.config = None
        self.member = self.world.member(self.pid)
        self._write("start", recovered=recovered)
        self.world.saw(self, Life("start"))
        self.engine = self.world.engine(
            Surroundings(self.pid, self.address, self.disk, Random(self.world.random.getrandbits(64)))
        )
        self._call(self.engine.start)

    def _fresh_name(self) -> str:
        self.names += 1
        return f"{self.address}~{self.names}"

    def crash(self, kept: float = 0.0) -> None:
        """End the process; of what its disk had not made durable, that share of bytes is kept."""
        if self.state == DOWN:
            return
        self.disk.crash(kept)
        self._end("fail")

    def light(self, effects: int, kept: float) -> None:
        """Crash after so many more effects."""
        if self.state != DOWN:
            self.fuse, self.kept = effects, kept

    def rob(self) -> None:
        """Crash, and lose the disk."""
        self.crash()
        self.disk.rob()

    def pause(self) -> None:
        if self.state == UP:
            self.state = PAUSED
            self.world.saw(self, Life("pause"))

    def resume(self) -> None:
        """Go on: what came meanwhile has queued."""
        if self.state != PAUSED:
            return
        self.state = UP
        self.world.saw(self, Life("resume"))
        self._notice_pause()
        inbox, self.inbox = self.inbox, []
        for source, packet in inbox:
            self.receive(source, packet)
        self._arm()

    def _notice_pause(self) -> None:
        """Tell the engine when it should have been woken long ago."""
        engine = self.engine
        if engine is not None and engine.deadline is not None and self.clock - engine.deadline > PAUSE_S:
            self._call(engine.paused, self.clock - engine.deadline)

    def leave(self) -> None:
        if self.state == UP and self.engine is not None:
            self._call(self.engine.leave)

    def _end(self, event: str) -> None:
        if self.member is not None:
            if event == "fail":
                self.member.write_fail(self._time_ns, self.config)
            else:
                self._write(event, config=self.config)
        self.state, self.engine, self.fuse = DOWN, None, None
        self.inbox.clear()
        self.world.saw(self, Life(event))

    # ---- inputs ----

    def receive(self, source: str, packet: bytes) -> None:
        if self.state == UP:
            assert self.engine is not None
            self.engine.receive(self.clock, source, packet)
            self._drain(self.engine)
        elif self.state == PAUSED and len(self.inbox) < INBOX_MAX:
            self.inbox.append((source, packet))

    def receive_burst(self, packets: list[tuple[str, bytes]]) -> None:
        """Give the engine everything that the socket held, and drain once."""
        for source, packet in packets:
            if self.state == UP and self.engine is not None:
                self.engine.receive(self.clock, source, packet)
            else:
                self.receive(source, packet)
        if self.state == UP and self.engine is not None:
            self._drain(self.engine)

    def wake(self) -> None:
        """The timer that was set has come."""
        self.timer = None
        if self.state != UP or self.engine is None or self.engine.deadline is None:
            return
        deadline = self.engine.deadline
        if deadline <= self.clock + ROUNDING_S:
            self.latest = max(self.latest, deadline)
            self._call(self.engine.wake)
        else:
            self._arm()

    def submit(self, batch: Sequence[Any]) -> int:
        """Let the application of a process that is up send; return how many messages the engine took."""
        assert self.engine is not None
        taken = self.engine.submit(self.clock, batch)
        self._drain(self.engine)
        return taken

    def hint(self, peer: str) -> None:
        if self.state == UP and self.engine is not None:
            self._call(self.engine.hint, peer)

    def _call(self, method: Callable[..., None], *args: Any) -> None:
        method(self.clock, *args)
        if self.engine is not None:
            self._drain(self.engine)

    # ---- effects ----

    def _drain(self, engine: Engine) -> None:
        """Carry out what the engine left, in order; then check it and set its timer."""
        world = self.world
        while engine.out:
            dirty = False
            for effect in engine.take():
                if self.fuse is not None and self._burn():
                    return
                kind = type(effect)
                if kind is Store or kind is Append:
                    self._write_disk(effect)
                    world.saw(self, effect)
                    dirty = True
                    continue
                if dirty:
                    self.disk.flush()
                    dirty = False
                if kind is Send:
                    world.carry(self.address, effect.to, effect.packet)  # type: ignore[union-attr]
                elif not self._act(effect):
                    return
            if dirty:
                self.disk.flush()
        if world.checking:
            engine.check()
        if engine.deadline is not None and (
            self.timer is None or engine.deadline - self.offset < self.timer * self.rate
        ):
            self._arm()

    def _burn(self) -> bool:
        """Crash when the fuse has burnt down."""
        assert self.fuse is not None
        if self.fuse <= 0:
            self.crash(self.kept)
            return True
        self.fuse -= 1
        return False

    def _write_disk(self, effect: Effect) -> None:
        if isinstance(effect, Store):
            self.disk.put(effect.key, effect.value)
        elif isinstance(effect, Append):
            self.disk.append(effect.record)

    def _act(self, effect: Effect) -> bool:
        """Carry out one of the rarer effects; False when the process ended."""
        match effect:
            case Deliver():
                if effect.view:
                    self._write_delivery(effect)
            case Cast():
                for address in self.world.listeners():
                    if address != self.address:
                        self.world.carry(self.address, address, effect.packet)
            case Install():
                self._write_view(effect)
            case Note():
                self._write(effect.event, **effect.columns)
            case Halt():
                self._end("fail" if effect.restart else "stop")
                if effect.restart:
                    self.disk.crash(0.0)
                    self.world.at(self.world.now + RESTART_S, self.start)
            case _:
                raise TypeError(f"no such effect: {effect!r}")
        self.world.saw(self, effect)
        return self.state != DOWN

    def _write_view(self, view: Install) -> None:
        self.config = view.config
        columns = {} if view.primary is None else {"primary": view.primary}
        self._write(
            "config",
            group=view.group,
            config=view.config,
            kind=view.kind,
            members=list(view.members),
            seq=view.seq,
            **columns,
        )

    def _write_delivery(self, batch: Deliver) -> None:
        message = f"{batch.origin}/{batch.number}"
        self._write("deliver", message=message, config=batch.view, count=len(batch.messages))

    def _write(self, event: str, **columns: Any) -> None:
        if self.member is not None:
            self.member.write(self._time_ns, event, **columns)

    @property
    def _time_ns(self) -> int:
        return int(self.clock * 1_000_000_000)

    # ---- timer ----

    def _arm(self) -> None:
        """See to it that the engine is woken at its deadline."""
        if self.state == UP and self.engine is not None and self.engine.deadline is not None:
            time = max((self.engine.deadline - self.offset) / self.rate, self.world.now)
            if self.timer is None or time < self.timer:
                self.timer = time
                self.world.set_timer(self, time)
