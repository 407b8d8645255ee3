"""The world: virtual time, and everything that may befall the machines in it.

`World(seed, ...)` owns one heap of what is to come. Ties are broken by a counter, all chance comes from
one seeded `Random`, and nothing depends on the order of a set, on addresses or on real time: the same
seed gives the same trace, byte for byte.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any

from covey.kernel.effects import Effect, Install
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.errors import BrokenInvariant, MisuseError
from covey.kernel.ids import ProcessId
from covey.kernel.layer import Layer
from covey.sim.machine import DOWN, UP, Life, Machine
from covey.sim.model import Model
from covey.sim.network import Network, NetworkOptions
from covey.trace import MemorySink, Recorder

if TYPE_CHECKING:
    from covey.sim.scenario import Step
    from covey.trace import Member

SAME_INSTANT_MAX = 100_000
"""More events than that in one instant are an endless loop."""

REST_S = 2.0
"""For so long a world must be at rest to count as settled."""


def check_members(members: Sequence[str]) -> None:
    """Refuse names that could be taken for another, or for something else in the text of a scenario."""
    if len(set(members)) != len(members) or not members:
        raise MisuseError(f"a world needs members with different names, not {' '.join(members) or 'none'}")
    for name in members:
        if name.split() != [name] or "~" in name or "#" in name or name in ("|", ">", "for"):
            raise MisuseError(f"{name!r} is no name: a name is one word, without ~ or #, and none of | > for")


class World:
    """A simulated world; its methods are what a scenario is written in."""

    def __init__(
        self,
        seed: int,
        members: Sequence[str],
        model: Model,
        *,
        recorder: Recorder | None = None,
        run: str = "run",
        burst: bool = False,
        multicast: bool = False,
        options: Sequence[str] = (),
        checking: bool = True,
    ) -> None:
        """Members run the engines of `model`; with `burst` they drain once for many packets.

        With `multicast` everybody hears every `Cast`, whomever it was meant for; `options` are the model's own.
        """
        check_members(members)
        self.seed = seed
        self.random = Random(seed)
        self.now = 0.0
        self.checking = checking
        self.network = Network(self.random)
        self.watchers: list[Callable[[Machine, Effect | Life], None]] = []
        """Told of every effect that was carried out, but for packets to one address, and of every turn of a life."""
        self.steps: list[tuple[float, Step]] = []
        """What a scenario has begun to do so far, and when."""
        self.step_watchers: list[Callable[[Step], None]] = []
        """Told of each step of a scenario when it has been done."""
        self.bodies = 0
        """How many messages the applications have made: each has its number for a body."""
        self.sent: list[tuple[ProcessId, Any]] = []
        """What the engines took of the applications' messages, with its sender."""
        self.configs: set[tuple[str, str]] = set()
        """The group and the name of every configuration that anyone installed."""
        self.recorder = Recorder(MemorySink()) if recorder is None else recorder
        self.run = run
        self.model = model
        self.settled = False
        self.burst = burst
        self.multicast = multicast
        self.options = tuple(options)
        self._layers: dict[str, Layer] = {}
        self._heap: list[tuple[float, int, Any, Any, Any]] = []
        self._count = 0
        self.machines = {name: Machine(self, name) for name in members}

    # ---- what machines ask for ----

    def carry(self, source: str, to: str, packet: bytes) -> None:
        """Send a packet on its way."""
        machine = self.machines.get(to)
        if machine is None:
            self.lose("no such address")
            return
        leaves = self.network.leave(self.now, source, len(packet))
        if leaves is not None:
            self._spread(leaves, source, machine, packet)

    def cast(self, source: str, packet: bytes, to: Sequence[str] = ()) -> None:
        """Send a packet on its way to these, or to all others: it leaves its sender once."""
        leaves = self.network.leave(self.now, source, len(packet))
        if leaves is None:
            return
        for address in self.machines if self.multicast or not to else to:
            if address not in self.machines:
                self.lose("no such address")
            elif address != source:
                self._spread(leaves, source, self.machines[address], packet)

    def _spread(self, leaves: float, source: str, machine: Machine, packet: bytes) -> None:
        for time in self.network.transit(leaves, source, machine.address):
            self._count += 1
            heappush(self._heap, (time, self._count, machine, source, packet))

    def refuse(self, source: str, to: str) -> None:
        """Lose a packet to a process that is down; its sender may be given a hint."""
        self.lose("process down")
        time = self.network.refusal(self.now, source, to)
        if time is not None:
            self.at(time, lambda: self.machines[source].hint(to))

    def lose(self, why: str, packets: int = 1) -> None:
        """Count packets that no engine is given."""
        if packets:
            self.network.lost[why] += packets

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Do something at a time."""
        self._count += 1
        heappush(self._heap, (time, self._count, None, action, None))

    def set_timer(self, machine: Machine, time: float) -> None:
        self._count += 1
        heappush(self._heap, (time, self._count, machine, None, None))

    def engine(self, around: Surroundings) -> Engine:
        return self.model.build(around, list(self.machines), self.options)

    def member(self, pid: ProcessId) -> "Member":
        return self.recorder.member(self.run, pid.name, pid.incarnation)

    def layer(self, name: str) -> Layer | None:
        """Return what lies above the stack at a process of that name, always the same."""
        if self.model.layer is not None and name not in self._layers:
            self._layers[name] = self.model.layer[1](name)
        return self._layers.get(name)

    def layer_member(self, pid: ProcessId) -> "Member":
        return self.recorder.member(self.layer_run, pid.name, pid.incarnation)

    @property
    def layer_run(self) -> str:
        """The name of the run that tells what the layer let through."""
        assert self.model.layer is not None
        return f"{self.run}.{self.model.layer[0]}"

    def write_headers(self, complete: bool) -> None:
        """Write what the trace says of the run as a whole."""
        healed = complete and self.healed
        self.recorder.header(self.run, self.model.name, complete, healed, self.machines)
        if self.model.layer is not None:
            self.recorder.header(self.layer_run, self.model.layer[0], complete, healed, self.machines)

    def saw(self, machine: Machine, what: Effect | Life) -> None:
        if isinstance(what, Install):
            self.configs.add((what.group, what.config))
        for watcher in self.watchers:
            watcher(machine, what)

    # ---- time ----

    def run_until(self, end: float) -> None:
        """Let everything happen that is due by then."""
        heap = self._heap
        instant, repeats = self.now, 0
        while heap and heap[0][0] <= end:
            time, _, machine, what, packet = heappop(heap)
            if time == instant:
                repeats += 1
                if repeats > SAME_INSTANT_MAX:
                    raise BrokenInvariant(f"seed {self.seed}: more than {SAME_INSTANT_MAX} events at {time} s")
            else:
                instant, repeats = time, 0
            self.now = time
            if machine is None:
                what()
            elif what is None:
                if machine.timer == time:
                    machine.wake()
            else:
                machine.receive(what, packet)
        self.now = max(self.now, end)

    def run_for(self, seconds: float) -> None:
        self.run_until(self.now + seconds)

    # ---- what a scenario does ----

    def start(self, *names: str) -> None:
        """Start these machines, or all that are down."""
        for name in names or self.machines:
            self.machine(name).start()

    def machine(self, name: str) -> Machine:
        if name not in self.machines:
            raise MisuseError(f"no machine {name!r}; there are {', '.join(self.machines)}")
        return self.machines[name]

    def crash(self, name: str, *, after: int = 0, kept: float = 0.0) -> None:
        """Crash a process, at once or after so many more effects; `kept` of the unflushed bytes survive.

        The effects of its next start count, too.
        """
        if after:
            self.machine(name).light(after, kept)
        else:
            self.machine(name).crash(kept)

    def rob(self, name: str) -> None:
        """Crash a process and take its disk away: it comes back under a fresh name."""
        self.machine(name).rob()

    def send(self, name: str, count: int, service: str = "") -> None:
        """Let the application at a process send so many messages; those that there is no room for are not sent."""
        machine = self.machine(name)
        if machine.state != UP or machine.engine is None:
            return
        bodies = [b"%d" % number for number in range(self.bodies, self.bodies + count)]
        self.bodies += count
        sender, batch = machine.pid, self.model.messages(machine.engine, bodies)
        taken = machine.submit(batch, service)
        self.sent += [(sender, message) for message in batch[:taken]]

    def ask(self, name: str, words: Sequence[str]) -> None:
        """Make a request to a process that is up, in the words of its model."""
        if self.model.ask is None:
            raise MisuseError(f"the model {self.model.name} is asked for nothing")
        self.machine(name).ask(self.model.ask, words)

    def pause(self, name: str, seconds: float) -> None:
        """Stop a process for a while; its packets queue."""
        self.machine(name).pause(seconds)

    def clock(self, name: str, rate: float) -> None:
        """Let a process's clock run fast or slow."""
        if rate <= 0:
            raise MisuseError(f"a clock's rate is above 0, not {rate}")
        self.machine(name).set_rate(rate)

    def jump(self, name: str, seconds: float) -> None:
        """Let a process's clock jump forward."""
        self.machine(name).jump(seconds)

    def partition(self, *groups: Sequence[str]) -> int:
        """Cut the network between the groups; return what `mend` takes."""
        pairs = [(a, b) for i, g in enumerate(groups) for j, h in enumerate(groups) if i != j for a in g for b in h]
        return self._cut(pairs)

    def cut_one_way(self, sources: Sequence[str], sinks: Sequence[str]) -> int:
        """Keep the packets of some from others, in that direction only; return what `mend` takes."""
        return self._cut([(a, b) for a in sources for b in sinks if a != b])

    def _cut(self, pairs: list[tuple[str, str]]) -> int:
        for a, b in pairs:
            self.machine(a), self.machine(b)
        return self.network.cut(pairs)

    def mend(self, cut: int) -> None:
        """Take one cut back."""
        self.network.mend(cut)

    def weather(self, options: NetworkOptions) -> None:
        self.network.set_weather(options)

    def calm(self) -> None:
        """End all faults: a good network, true clocks, everybody up."""
        self.network.mend_all()
        self.network.set_weather(NetworkOptions())
        for machine in self.machines.values():
            machine.fuse = None
            machine.set_rate(1.0)
            machine.resume()
            machine.start()

    def settle(self, seconds: float) -> None:
        """Let time pass until all have come to rest, for so long at most."""
        end = self.now + seconds
        rested = 0.0
        while self.now < end and rested < REST_S:
            self.run_for(0.5)
            rested = rested + 0.5 if self.is_at_rest() else 0.0
        self.settled = True

    # ---- looking ----

    def is_at_rest(self) -> bool:
        """Whether in each component the protocol has nothing more to do."""
        names = list(self.machines)
        return all(
            self.model.at_rest([machine.engine for machine in component if machine.engine is not None], names)
            for component in self.components()
        )

    @property
    def packets(self) -> int:
        """How many packets the engines have been given."""
        return sum(machine.received for machine in self.machines.values())

    @property
    def healed(self) -> bool:
        """Whether every process that is up can reach every other."""
        return len(self.components()) <= 1

    @property
    def up(self) -> list[Machine]:
        return [machine for machine in self.machines.values() if machine.state != DOWN]

    def components(self) -> list[list[Machine]]:
        """The machines that are up, grouped by who can reach whom in both directions, directly."""
        groups: list[list[Machine]] = []
        for machine in self.up:
            for group in groups:
                if all(self._reach(machine, other) for other in group):
                    group.append(machine)
                    break
            else:
                groups.append([machine])
        return groups

    def _reach(self, a: Machine, b: Machine) -> bool:
        cuts = self.network.cuts
        return (a.address, b.address) not in cuts and (b.address, a.address) not in cuts
