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
from covey.kernel.layer import Layer, Passed
from covey.kernel.storage import NAME_KEY, next_incarnation, provision
from covey.sim.disk import Disk
from covey.trace.effects import row_of

if TYPE_CHECKING:
    from covey.sim.model import Ask
    from covey.trace import Member

PAUSE_S = 0.2
"""A process is told that it was not running if that was for longer than this."""
RESTART_S = 0.05
"""From a `Halt` that asks for it to the start of the next incarnation."""
INBOX_MAX = 2000
"""Packets that wait in a socket; more are lost."""
BURST_S = 0.001
"""A process that drains in bursts looks into its socket so long after the first packet came."""

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
    burst: bool

    def carry(self, source: str, to: str, packet: bytes) -> None: ...
    def cast(self, source: str, packet: bytes, to: Sequence[str]) -> None: ...
    def refuse(self, source: str, to: str) -> None: ...
    def lose(self, why: str, packets: int = 1) -> None: ...
    def at(self, time: float, action: Callable[[], None]) -> None: ...
    def set_timer(self, machine: "Machine", time: float) -> None: ...
    def engine(self, around: Surroundings) -> Engine: ...
    def member(self, pid: ProcessId) -> "Member": ...
    def layer(self, name: str) -> Layer | None: ...
    def layer_member(self, pid: ProcessId) -> "Member": ...
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
        self.layer: Layer | None = None
        self.rate = 1.0
        self.offset = 0.0
        self.latest = 0.0
        self.fuse: int | None = None
        self.kept = 0.0
        self.restarts = False
        """Whether it is down for a moment only, after a `Halt` that asks for a restart."""
        self.asleep_since = 0.0
        self.asleep_until = 0.0
        self.inbox: list[tuple[str, bytes]] = []
        self.received = 0
        """Packets that its engines were given."""
        self.under_way: Sequence[Effect] = ()
        """What is being carried out now."""
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
            self._tell_pause(seconds)
            self._arm()

    # ---- life and death ----

    def start(self) -> None:
        """Begin the next incarnation, under the name that the disk holds, or a fresh one."""
        if self.state != DOWN:
            return
        self.restarts = False
        recovered = self.disk.get(NAME_KEY) is not None and self.pid.incarnation > 0
        self.pid = next_incarnation(self.disk, self._fresh_name, f"the disk of {self.address}")
        self.state = UP
        self.config = None
        self.member = self.world.member(self.pid)
        self.layer = self.world.layer(self.pid.name)
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
        self.restarts = False
        if self.state != DOWN:
            self.disk.crash(kept)
            self._end("fail")

    def light(self, effects: int, kept: float) -> None:
        """Crash after so many more effects, the first ones of the next start included."""
        self.fuse, self.kept = effects, kept

    def rob(self) -> None:
        """Crash, and lose the disk."""
        self.crash()
        self.disk.rob()

    def pause(self, seconds: float) -> None:
        """Stop running for so long, or for what is left of an earlier pause."""
        if self.state == DOWN:
            return
        if self.state == UP:
            self.state, self.asleep_since, self.asleep_until = PAUSED, self.clock, 0.0
            self.world.saw(self, Life("pause"))
        self.asleep_until = max(self.asleep_until, self.world.now + seconds)
        self.world.at(self.asleep_until, self._wake_up)

    def _wake_up(self) -> None:
        if self.world.now >= self.asleep_until:
            self.resume()

    def resume(self) -> None:
        """Go on: what came meanwhile has queued."""
        if self.state != PAUSED:
            return
        self.state = UP
        self.world.saw(self, Life("resume"))
        self._tell_pause(self.clock - self.asleep_since)
        self._empty_socket()
        self._arm()

    def _tell_pause(self, seconds: float) -> None:
        if seconds > PAUSE_S and self.engine is not None:
            self._call(self.engine.paused, seconds)

    def leave(self) -> None:
        if self.state == UP and self.engine is not None:
            self._call(self.engine.leave)

    def _restart(self) -> None:
        if self.restarts:
            self.start()

    def _end(self, event: str) -> None:
        if self.member is not None:
            if event == "fail":
                self.member.write_fail(self._time_ns, self.config)
            else:
                self._write(event, config=self.config)
        if self.layer is not None:
            self._write_passed(self.layer.end(event))
        self.state, self.engine, self.fuse = DOWN, None, None
        self.world.lose("socket of a crashed process", len(self.inbox))
        self.inbox = []
        self.world.saw(self, Life(event))

    # ---- inputs ----

    def receive(self, source: str, packet: bytes) -> None:
        """Take a packet from the network."""
        if self.state == DOWN:
            self.world.refuse(source, self.address)
        elif self.state == PAUSED or self.world.burst:
            self._queue(source, packet)
        else:
            assert self.engine is not None
            self.received += 1
            self.engine.receive(self.clock, source, packet)
            self._drain()

    def _queue(self, source: str, packet: bytes) -> None:
        """Keep a packet in the socket until the process next looks there."""
        if len(self.inbox) >= INBOX_MAX:
            self.world.lose("socket full")
            return
        if self.state == UP and not self.inbox:
            self.world.at(self.world.now + BURST_S, self._empty_socket)
        self.inbox.append((source, packet))

    def _empty_socket(self) -> None:
        """Give the engine everything that the socket holds: drain after each packet, or once in burst mode."""
        if self.state != UP or not self.inbox:
            return
        inbox, self.inbox = self.inbox, []
        if not self.world.burst:
            for source, packet in inbox:
                self.receive(source, packet)
            return
        assert self.engine is not None
        self.received += len(inbox)
        for source, packet in inbox:
            self.engine.receive(self.clock, source, packet)
        if self.engine.deadline is not None:
            self.engine.wake(self.clock)  # a host may wake early
        self._drain()

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

    def submit(self, batch: Sequence[Any], service: str = "") -> int:
        """Let the application of a process that is up send; return how many messages the engine took."""
        assert self.engine is not None
        if self._is_halting:
            return 0
        taken = self.engine.submit(self.clock, batch, service)
        self._drain()
        return taken

    def ask(self, request: "Ask", words: Sequence[str]) -> None:
        """Make a request to the engine of a process that is up."""
        if self.state == UP and self.engine is not None and not self._is_halting:
            request(self.engine, self.clock, words)
            self._drain()

    def hint(self, peer: str) -> None:
        """Let the engine know that a port refused a packet."""
        if self.state == UP and self.engine is not None:
            self._call(self.engine.hint, peer)

    def _call(self, method: Callable[..., None], *args: Any) -> None:
        if not self._is_halting:
            method(self.clock, *args)
            self._drain()

    @property
    def _is_halting(self) -> bool:
        """Whether a `Halt` was taken: the engine is not called any more."""
        return any(type(effect) is Halt for effect in self.under_way)

    # ---- effects ----

    def _drain(self) -> None:
        """Carry out what the engine left; then check it and set its timer.

        An application that sends while it is delivered to comes here again: what it causes waits its turn.
        """
        if self.under_way:
            return
        while self.engine is not None and self.engine.out:
            self._carry_out(self.engine)
        engine = self.engine
        if engine is None:
            return
        if self.world.checking:
            engine.check()
        if engine.deadline is not None and (
            self.timer is None or engine.deadline - self.offset < self.timer * self.rate
        ):
            self._arm()

    def _carry_out(self, engine: Engine) -> None:
        """Take what the engine left, and carry it out in order until the process ends."""
        world = self.world
        dirty = False
        self.under_way = engine.take()
        for effect in self.under_way:
            if self.engine is not engine or (self.fuse is not None and self._burn()):
                break
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
                world.carry(self.address, effect.to, effect.packet)  # type: ignore[union-attr, arg-type]
            elif kind is Cast:
                world.cast(self.address, effect.packet, effect.to)  # type: ignore[union-attr]
            else:
                self._act(effect)
        if dirty:
            self.disk.flush()
        self.under_way = ()

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

    def _act(self, effect: Effect) -> None:
        """Carry out one of the rarer effects."""
        match effect:
            case Install():
                self.config = effect.config
                self._write_down(effect)
            case Deliver() | Note():
                self._write_down(effect)
            case Halt():
                self._end("fail" if effect.restart else "stop")
                if effect.restart:
                    self.restarts = True
                    self.world.at(self.world.now + RESTART_S, self._restart)
            case _:
                raise TypeError(f"no such effect: {effect!r}")
        self.world.saw(self, effect)

    def _write_down(self, effect: Deliver | Install | Note) -> None:
        if not isinstance(effect, Deliver) or effect.view:
            event, columns = row_of(effect)
            self._write(event, **columns)
        if self.layer is not None:
            self._write_passed(self.layer.see(effect))

    def _write_passed(self, passed: Sequence[Passed]) -> None:
        """Write what the layer lets through of what happened just now."""
        for incarnation, event, columns in passed:
            member = self.world.layer_member(ProcessId(self.pid.name, incarnation))
            if event == "fail":
                member.write_fail(self._time_ns, columns.get("config"))
            else:
                member.write(self._time_ns, event, **columns)

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
