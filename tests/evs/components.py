"""A tiny world of processes with disks that form components and fail, for the rules of `covey.evs.primary` alone.

Its rings do what those of an engine do, one step of one process at a time, in any order: a member leaves the ring that
it was in and tells its standing; when all have told, each acknowledges; when all have acknowledged, the founder
installs, then the others. Any number of rings are under way at a time, each may be left at any step, and a process may
crash at any effect.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from random import Random
from types import SimpleNamespace

from covey.evs.primary import Component, Policy, Primary, Standing, Verdict
from covey.kernel.effects import Install, Store
from covey.kernel.engine import Surroundings
from covey.kernel.ids import ProcessId


class Disk(dict[str, bytes]):
    """Stable storage; all that was written is durable."""

    def log(self) -> list[bytes]:
        return []


class Ring:
    def __init__(self, seq: int, members: list[str]) -> None:
        self.seq = seq
        self.config = f"{seq}.{members[0]}"
        self.members = members
        self.told: dict[str, Standing] = {}
        self.acknowledged: set[str] = set()
        self.installed: set[str] = set()
        self.changes: list[tuple[str, str]] = []
        """In the order in which they are delivered."""


class Process:
    def __init__(self, name: str, configured: list[str], policy: Policy) -> None:
        self.name, self.configured, self.policy = name, configured, policy
        self.disk = Disk()
        self.highest = 0
        """The number of the last ring that it took part in; on disk, too."""
        self.incarnation = 0
        self.log: list[str] = []
        """The configurations that it installed, over all its incarnations."""
        self.start()

    def start(self) -> None:
        self.ring: Ring | None = None
        self.delivered = 0
        self.incarnation += 1
        engine = SimpleNamespace(me=ProcessId(self.name, self.incarnation), out=[])
        self.out: list[Store | Install] = engine.out
        around = Surroundings(engine.me, self.name, self.disk, Random(0))  # type: ignore[arg-type]
        self.primary = Primary(engine, around, self.configured, self.policy)  # type: ignore[arg-type]


class World:
    def __init__(self, seed: int, policy: Policy, founder_first: bool = True) -> None:
        self.random = Random(seed)
        self.founder_first = founder_first
        self.configured = list("abcde"[: self.below(3) + 3])
        names = [*self.configured, *("yz" if policy == "majority" else "")]
        self.processes = {name: Process(name, self.configured, policy) for name in names}
        self.rings: list[Ring] = []
        self.founded: dict[str, Component] = {}
        """The primary components that somebody installed."""
        self.seen: defaultdict[str, int] = defaultdict(int)
        self.wrong: list[str] = []
        self.is_safe = False
        """Whether nobody crashes."""

    def below(self, bound: int) -> int:
        return int(self.random.random() * bound)

    def run(self, steps: int) -> None:
        """Do so many random things, then let all be together, without faults."""
        for _ in range(steps):
            self.step()
        self.is_safe = True
        everyone = sorted(self.processes)
        self.begin(everyone)
        ring = self.rings[-1]
        while moves := list(self.moves(ring)):
            moves[0]()
        if not self.verdict(ring).is_primary:
            self.wrong.append(f"all are together, and it is not primary: {self.verdict(ring).why_not}")
        self.wrong += self.judge()

    def step(self) -> None:
        del self.rings[:-4]
        moves = [move for ring in self.rings for move in self.moves(ring)]
        if moves and self.random.random() < 0.88:
            moves[self.below(len(moves))]()
        elif self.random.random() < 0.15:
            self.crash(self.processes[sorted(self.processes)[self.below(len(self.processes))]])
        else:
            some = [name for name in sorted(self.processes) if self.random.random() < 0.6]
            if some:
                self.begin(some)

    # ---- a ring ----

    def begin(self, members: list[str]) -> None:
        ring = Ring(2 + max(self.processes[name].highest for name in members), members)
        self.rings.append(ring)
        self.tell(ring, self.processes[members[0]])

    def moves(self, ring: Ring) -> list[Callable[[], None]]:
        """What could happen next in a ring."""
        found: list[Callable[[], None]] = []
        for name in ring.members:
            process = self.processes[name]
            if process.highest < ring.seq:
                found.append(lambda process=process: self.tell(ring, process))  # type: ignore[misc]
            if process.ring is not ring or len(ring.told) < len(ring.members):
                continue
            if name not in ring.acknowledged:
                found.append(lambda process=process: self.acknowledge(ring, process))  # type: ignore[misc]
            elif name not in ring.installed and len(ring.acknowledged) == len(ring.members):
                component = self.verdict(ring).component
                if component is None or component.founder == name or ring.installed or not self.founder_first:
                    found.append(lambda process=process: self.install(ring, process))  # type: ignore[misc]
            elif name in ring.installed and process.delivered < len(ring.changes):
                found.append(lambda process=process: self.deliver(ring, process))  # type: ignore[misc]
            elif name in ring.installed and self.random.random() < 0.3 and not self.is_safe:
                found.append(lambda process=process: self.change(ring, process))  # type: ignore[misc]
        return found

    def verdict(self, ring: Ring) -> Verdict:
        return self.processes[ring.members[0]].primary.verdict(ring.seq, ring.config, ring.told)

    def tell(self, ring: Ring, process: Process) -> None:
        process.ring, process.highest = ring, ring.seq
        ring.told[process.name] = process.primary.standing

    def acknowledge(self, ring: Ring, process: Process) -> None:
        verdict = process.primary.verdict(ring.seq, ring.config, ring.told)
        self.seen[kind(verdict)] += 1
        process.primary.acknowledge(verdict)
        if self.carry_out(ring, process):
            ring.acknowledged.add(process.name)

    def install(self, ring: Ring, process: Process) -> None:
        verdict = self.verdict(ring)
        was_in = process.log[-1] if process.log else ""
        is_merged = not process.primary.standing.since
        effect = Install(ring.config, ring.seq, tuple(ring.members), primary=verdict.is_primary, since=verdict.since)
        process.primary.install(verdict, effect)
        process.delivered = 0
        if verdict.is_primary and verdict.since[process.name] < ring.seq:
            assert verdict.last
            self.seen["goes on"] += 1
            if is_merged or was_in != verdict.last.config:
                self.wrong.append(f"{process.name} goes on into {ring.config}, from {was_in}")
        self.carry_out(ring, process)

    def deliver(self, ring: Ring, process: Process) -> None:
        old, new = ring.changes[process.delivered]
        process.delivered += 1
        self.seen["change"] += process.primary.change(old, new)
        self.carry_out(ring, process)

    def change(self, ring: Ring, process: Process) -> None:
        """Let a member of a primary component send a change."""
        if process.primary.policy == "majority":
            counted = process.primary.configured
            others = [name for name in sorted(self.processes) if name not in counted]
            if counted and others:
                ring.changes.append((counted[self.below(len(counted))], others[self.below(len(others))]))

    # ---- a process ----

    def carry_out(self, ring: Ring, process: Process) -> bool:
        """Carry out what is in `out`; return False when the process crashes before the end."""
        effects, process.out[:] = process.out[:], []
        for effect in effects:
            if self.crashes(process):
                self.seen[f"crash before {type(effect).__name__}"] += 1
                return False
            if isinstance(effect, Store):
                process.disk[effect.key] = effect.value
            else:
                self.installs(ring, process, effect)
        return not self.crashes(process)

    def installs(self, ring: Ring, process: Process, effect: Install) -> None:
        process.log.append(effect.config)
        ring.installed.add(process.name)
        component = self.verdict(ring).component
        if component is not None:
            self.founded[effect.config] = component

    def crashes(self, process: Process) -> bool:
        if self.is_safe or self.random.random() >= 0.04:
            return False
        self.crash(process)
        return True

    def crash(self, process: Process) -> None:
        process.start()

    # ---- the judge ----

    def judge(self) -> list[str]:
        """What PC-1 and PC-2 say of the logs."""
        after: defaultdict[str, set[str]] = defaultdict(set)
        for process in self.processes.values():
            for one, other in pairwise(process.log):
                after[one].add(other)
        found = []
        history = sorted(self.founded.values(), key=lambda each: each.seq)
        for one, other in pairwise(history):
            if other.config not in reached(after, one.config):
                found.append(f"PC-1: {one.config} does not precede {other.config}")
            if not set(one.members).intersection(other.members):
                found.append(f"PC-2: {one.config} and {other.config} share no member")
        return found


def kind(verdict: Verdict) -> str:
    """The sentence of a verdict, without the names in it."""
    kinds = (
        "no quorum",
        "nobody in it has installed",
        "nobody in it knows",
        "changed configured set",
        "may have founded",
        "disagree",
    )
    return "primary" if verdict.is_primary else next(each for each in kinds if each in verdict.why_not)


def reached(after: dict[str, set[str]], start: str) -> set[str]:
    """What follows an installation, all those of one configuration merged."""
    found: set[str] = set()
    open_ = [start]
    while open_:
        for other in after.get(open_.pop(), ()):
            if other not in found:
                found.add(other)
                open_.append(other)
    return found
