"""Random tiny traces of an idealised virtual synchrony (evs-1994, sections 4 and 5): one sequence of primary views.

A view has one order of messages. Those that survive it deliver all that any of them has delivered or sent there; who is
left behind fails, and comes back as the next incarnation.
"""

from collections import defaultdict

from tests.verify.random_traces.draw import GROUPS, Draw
from tests.verify.random_traces.tiny import Pen, Row, finished, odd_names, part_of, trace_of


class Process:
    def __init__(self, name: str, group: str) -> None:
        self.pen = Pen(name, group)
        self.is_up = True
        self.is_in = False
        self.delivered = 0
        """How many of the messages of the view."""
        self.sent = 0
        """How many of them must be delivered for its own to be."""


class World:
    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        group = draw.one_of(["", *GROUPS])
        self.processes = [Process(name, group) for name in odd_names(draw, 2 + draw.below(3))]
        self.numbers: dict[str, int] = defaultdict(int)
        self.tells_ordinals = draw.is_so(0.7)
        self.seq, self.config = 0, ""
        self.order: list[str] = []
        self.install(part_of(draw, self.processes, 0.8))

    @property
    def members(self) -> list[Process]:
        return [process for process in self.processes if process.is_in]

    def step(self) -> None:
        process = self.draw.one_of(self.processes)
        what = self.draw.below(100)
        if what < 4:
            self.fail_or_start(process)
        elif what < 12:
            self.change()
        elif not (process.is_in and process.is_up):
            return
        elif what < 45:
            self.send(process)
        else:
            self.deliver(process, process.delivered + self.draw.below(4))

    # ---- in a view ----

    def send(self, process: Process) -> None:
        service = self.draw.one_of(["causal", "agreed", "agreed", "safe"])
        for _ in range(1 + self.draw.below(3)):
            self.numbers[process.pen.identity] += 1
            message = f"{process.pen.identity}/{self.numbers[process.pen.identity]}"
            process.pen.write("send", message=message, config=self.config, service=service)
            self.order.append(message)
        process.sent = len(self.order)

    def deliver(self, process: Process, end: int) -> None:
        for message in self.order[process.delivered : end]:
            process.delivered += 1
            ordinal = {"ordinal": process.delivered} if self.tells_ordinals else {}
            process.pen.write("deliver", message=message, config=self.config, **ordinal)

    # ---- from view to view ----

    def change(self) -> None:
        """Some survive, and at most one joins them."""
        up = [process for process in self.members if process.is_up]
        if up:
            surviving = part_of(self.draw, up, 0.9)
            joining = [process for process in self.processes if process.is_up and not process.is_in]
            joining = [self.draw.one_of(joining)] if joining and self.draw.is_so(0.7) else []
            self.flush(surviving)
            self.install([process for process in self.processes if process in [*surviving, *joining]])

    def flush(self, surviving: list[Process]) -> None:
        """Deliver what any of them has delivered or sent, and perhaps more; the others fail."""
        end = max(max(process.delivered, process.sent) for process in surviving)
        if self.draw.is_so(0.5):
            end = len(self.order)
        for process in self.members:
            if process in surviving:
                self.deliver(process, end)
            elif process.is_up:
                self.fail(process)
                if self.draw.is_so(0.7):
                    self.start(process)

    def install(self, members: list[Process]) -> None:
        self.seq += 1 + self.draw.below(3)
        self.config = f"{self.seq}.{members[0].pen.process}"
        self.order = []
        identities = sorted(process.pen.identity for process in members)
        for process in self.processes:
            process.is_in, process.delivered, process.sent = process in members, 0, 0
        for process in members:
            columns = {"kind": "regular", "members": identities, "seq": self.seq, "primary": True}
            process.pen.write("config", config=self.config, **columns)

    # ---- failures ----

    def fail_or_start(self, process: Process) -> None:
        """One always remains, to go on with."""
        others = [other for other in self.members if other.is_up and other is not process]
        if not process.is_up and not process.is_in:
            self.start(process)
        elif process.is_up and others:
            self.fail(process)

    def fail(self, process: Process) -> None:
        process.is_up = False
        process.pen.write(self.draw.one_of(["fail", "stop"]))

    def start(self, process: Process) -> None:
        """It is no member from now on, though a view may have its last incarnation."""
        process.is_up, process.is_in, process.pen.incarnation = True, False, process.pen.incarnation + 1
        process.pen.write("start", recovered=True)

    def settle(self) -> None:
        """Let those that are left come to rest in one view, and deliver everything."""
        up = [process for process in self.members if process.is_up]
        self.flush(up)
        self.install(up)
        for process in self.members:
            if self.draw.is_so(0.5):
                self.send(process)
        for process in self.members:
            self.deliver(process, len(self.order))


def trace(seed: int) -> list[Row]:
    """The rows of one run; two of three are mutated."""
    return _trace(seed, seed % 3 != 0)


def good(seed: int) -> list[Row]:
    """The rows of one run that nothing is wrong with."""
    return _trace(seed, is_mutated=False)


def _trace(seed: int, is_mutated: bool) -> list[Row]:
    draw = Draw(seed)
    world = World(draw)
    for _ in range(10 + draw.below(60)):
        world.step()
    complete = draw.is_so(0.5)
    if complete:
        world.settle()
    rows = trace_of("vs", [process.pen for process in world.processes], complete, healed=draw.is_so(0.5))
    return finished(draw, rows, f"vs {seed}", is_mutated)
