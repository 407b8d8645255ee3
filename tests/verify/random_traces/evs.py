"""Random tiny traces of an idealised extended virtual synchrony (evs-1994, section 2.1).

A ring has one order of messages, and each member has received a beginning of it. Those that go together from one ring
to the next put together what they have; what is not yet safe in all of the old ring they deliver in the transitional
configuration.
"""

from collections import defaultdict

from tests.verify.random_traces.draw import GROUPS, Draw
from tests.verify.random_traces.tiny import Pen, Row, finished, odd_names, part_of, trace_of, turn_primary


class Ring:
    def __init__(self, seq: int, members: list["Process"]) -> None:
        self.seq, self.members = seq, members
        self.config = f"{seq}.{members[0].name}"
        self.order: list[tuple[str, str]] = []
        """Messages and services."""
        self.received = dict.fromkeys([member.name for member in members], 0)
        self.installed: list[str] = []


class Process:
    def __init__(self, name: str, group: str) -> None:
        self.name, self.pen = name, Pen(name, group)
        self.is_up = True
        self.ring: Ring | None = None
        self.highest = 0
        self.delivered = 0
        """How many of the messages of its ring."""


class World:
    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        group = draw.one_of(["", *GROUPS])
        self.processes = [Process(name, group) for name in odd_names(draw, 2 + draw.below(3))]
        self.numbers: dict[str, int] = defaultdict(int)
        self.tells_primary = draw.is_so(0.6)
        self.tells_ordinals = draw.is_so(0.7)
        if draw.is_so(0.6):
            self.form(self.processes)
        else:
            for process in self.processes:
                self.form([process])

    def step(self) -> None:
        process = self.draw.one_of(self.processes)
        what = self.draw.below(100)
        if what < 3:
            self.fail_or_start(process)
        elif what < 9:
            up = [each for each in self.processes if each.is_up]
            if up:
                self.form(part_of(self.draw, up, 0.6))
        elif process.ring is None:
            return
        elif what < 35:
            self.send(process, process.ring)
        elif what < 65:
            self.receive(process, process.ring, self.draw.below(4))
        else:
            self.deliver(process, process.ring, self.deliverable(process, process.ring), at_most=self.draw.below(4))

    # ---- in a ring ----

    def send(self, process: Process, ring: Ring) -> None:
        service = self.draw.one_of(["causal", "agreed", "agreed", "safe"])
        for _ in range(1 + self.draw.below(3)):
            self.numbers[process.pen.identity] += 1
            message = f"{process.pen.identity}/{self.numbers[process.pen.identity]}"
            process.pen.write("send", message=message, config=ring.config, service=service)
            ring.order.append((message, service))
        ring.received[process.name] = len(ring.order)

    def receive(self, process: Process, ring: Ring, count: int) -> None:
        ring.received[process.name] = min(len(ring.order), ring.received[process.name] + count)

    def deliverable(self, process: Process, ring: Ring) -> int:
        """Up to where it may deliver in the regular configuration."""
        everywhere = min(ring.received.values()) if len(ring.installed) == len(ring.members) else 0
        count = process.delivered
        while count < ring.received[process.name] and (ring.order[count][1] != "safe" or count < everywhere):
            count += 1
        return count

    def deliver(self, process: Process, ring: Ring, end: int, config: str = "", at_most: int = 1000) -> None:
        for message, _ in ring.order[process.delivered : end][:at_most]:
            process.delivered += 1
            ordinal = {"ordinal": process.delivered} if self.tells_ordinals else {}
            process.pen.write("deliver", message=message, config=config or ring.config, **ordinal)

    # ---- from ring to ring ----

    def form(self, members: list[Process]) -> None:
        """All of them leave the rings that they are in, together with those who were there, too."""
        new = Ring(2 + 2 * self.draw.below(2) + max(process.highest for process in members), members)
        old = {process.ring.config: process.ring for process in members if process.ring}
        for ring in old.values():
            self.leave(ring, [process for process in members if process.ring is ring], new)
        for process in members:
            process.highest = new.seq
            if self.draw.is_so(0.04) and not self.is_primary(new):
                self.fail(process)
            else:
                self.install(process, new)

    def leave(self, ring: Ring, together: list[Process], new: Ring) -> None:
        received = max(ring.received[process.name] for process in together)
        for process in together:
            ring.received[process.name] = received
        in_regular = max(process.delivered for process in together)
        if self.draw.is_so(0.5):
            in_regular = max(self.deliverable(process, ring) for process in together)
        is_passed_through = in_regular < received or self.draw.is_so(0.7)
        config = f"{ring.config}>{new.config}"
        names = [process.name for process in together]
        for process in together:
            self.deliver(process, ring, in_regular)
            if is_passed_through:
                columns = {"config": config, "kind": "transitional", "members": names, "seq": new.seq - 1}
                process.pen.write("config", **columns, previous=ring.config)
                self.deliver(process, ring, received, config)

    def install(self, process: Process, ring: Ring) -> None:
        names = [member.name for member in ring.members]
        columns = {"primary": self.is_primary(ring)} if self.tells_primary else {}
        process.pen.write("config", config=ring.config, kind="regular", members=names, seq=ring.seq, **columns)
        process.ring, process.delivered = ring, 0
        ring.installed.append(process.name)

    def is_primary(self, ring: Ring) -> bool:
        return 2 * len(ring.members) > len(self.processes)

    # ---- failures ----

    def fail_or_start(self, process: Process) -> None:
        if process.is_up:
            self.fail(process)
        else:
            self.start(process)

    def fail(self, process: Process) -> None:
        process.is_up, process.ring = False, None
        process.pen.write(self.draw.one_of(["fail", "stop"]))

    def start(self, process: Process) -> None:
        process.is_up, process.pen.incarnation = True, process.pen.incarnation + 1
        process.pen.write("start", recovered=True)
        self.form([process])

    def settle(self, is_healed: bool) -> None:
        """Let those that can reach one another come to rest in one ring, and deliver everything."""
        up = [process for process in self.processes if process.is_up]
        some = part_of(self.draw, up) if up and not is_healed else up
        for members in (some, [process for process in up if process not in some]):
            while members and not all(process.ring and process.ring.members == members for process in members):
                self.form(members)
                members = [process for process in members if process.is_up]
            for process in members:
                if process.ring:
                    self.receive(process, process.ring, 1000)
            for process in members:
                if process.ring:
                    self.deliver(process, process.ring, len(process.ring.order))


def trace(seed: int) -> list[Row]:
    """The rows of one run; two of three are mutated."""
    return _trace(seed, seed % 3 != 0)


def good(seed: int) -> list[Row]:
    """The rows of one run that nothing is wrong with."""
    return _trace(seed, is_mutated=False)


def _trace(seed: int, is_mutated: bool) -> list[Row]:
    draw = Draw(seed)
    world = World(draw)
    for _ in range(10 + draw.below(70)):
        world.step()
    complete, healed = draw.is_so(0.5), draw.is_so(0.6)
    if complete:
        world.settle(healed)
    rows = trace_of("evs", [process.pen for process in world.processes], complete, healed)
    return finished(draw, rows, f"evs {seed}", is_mutated, [turn_primary])
