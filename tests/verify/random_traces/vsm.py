"""Random tiny traces of the VS service: the machine of figure 9 (replicated-data-1998, appendix A), and processes that
fail and start again."""

from collections import defaultdict

from tests.verify.random_traces.draw import GROUPS, Draw
from tests.verify.random_traces.tiny import Pen, Row, finished, odd_names, part_of, trace_of


class Machine:
    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        group = draw.one_of(["", *GROUPS])
        self.pens = {name: Pen(name, group) for name in odd_names(draw, 2 + draw.below(3))}
        names = list(self.pens)
        self.prefix = draw.one_of(["", "v ", "g/"])
        self.created = [(1, names)]
        self.view: dict[str, int] = {}
        """Of those that are up and have one."""
        self.highest = dict.fromkeys(names, 0)
        self.numbers: dict[str, int] = defaultdict(int)
        self.pending: dict[tuple[str, int], list[str]] = defaultdict(list)
        self.queue: dict[int, list[str]] = defaultdict(list)
        self.received: dict[tuple[str, int], int] = defaultdict(int)
        self.told: dict[tuple[str, int], int] = defaultdict(int)
        for name in names:
            if draw.is_so(0.9):
                self.new_view(name)

    def step(self) -> None:
        process = self.draw.one_of(list(self.pens))
        view = self.view.get(process)
        what = self.draw.below(100)
        if what < 1:
            self.fail_or_start(process, view)
        elif what < 3:
            seq = self.created[-1][0] + 1 + self.draw.below(2)
            self.created.append((seq, part_of(self.draw, list(self.pens), 0.7)))
        elif what < 8:
            self.new_view(process)
        elif view is None:
            return
        elif what < 25:
            self.send(process, view)
        elif what < 45:
            self.order(process, view)
        elif what < 76:
            self.receive(process, view)
        else:
            self.tell(process, view)

    def config(self, seq: int) -> str:
        return f"{self.prefix}{seq}"

    def new_view(self, process: str) -> None:
        for seq, members in self.created:
            if process in members and seq > self.highest[process] and self.draw.is_so(0.7):
                self.highest[process] = self.view[process] = seq
                self.pens[process].write("config", config=self.config(seq), kind="regular", members=members, seq=seq)
                return

    def send(self, process: str, view: int) -> None:
        pen = self.pens[process]
        for _ in range(1 + self.draw.below(3)):
            self.numbers[pen.identity] += 1
            message = f"{pen.identity}/{self.numbers[pen.identity]}"
            self.pending[process, view].append(message)
            pen.write("send", message=message, config=self.config(view), service="agreed")

    def order(self, process: str, view: int) -> None:
        pending = self.pending[process, view]
        for _ in range(min(len(pending), 1 + self.draw.below(3))):
            self.queue[view].append(pending.pop(0))

    def receive(self, process: str, view: int) -> None:
        for message in self.queue[view][self.received[process, view] :][: 1 + self.draw.below(3)]:
            self.received[process, view] += 1
            self.pens[process].write("deliver", message=message, config=self.config(view))

    def tell(self, process: str, view: int) -> None:
        members = dict(self.created)[view]
        stable = min(self.received[member, view] for member in members)
        for message in self.queue[view][self.told[process, view] : stable]:
            self.told[process, view] += 1
            self.pens[process].write("safe", message=message, config=self.config(view))

    def fail_or_start(self, process: str, view: int | None) -> None:
        pen = self.pens[process]
        if view is not None:
            del self.view[process]
            where = {"config": self.config(view)} if self.draw.is_so(0.5) else {}
            pen.write(self.draw.one_of(["fail", "stop"]), **where)
            pen.incarnation += 1
            pen.write("start", recovered=self.draw.is_so(0.5))


def trace(seed: int) -> list[Row]:
    """The rows of one run; two of three are mutated."""
    return _trace(seed, seed % 3 != 0)


def good(seed: int) -> list[Row]:
    """The rows of one run that nothing is wrong with."""
    return _trace(seed, is_mutated=False)


def _trace(seed: int, is_mutated: bool) -> list[Row]:
    draw = Draw(seed)
    machine = Machine(draw)
    for _ in range(30 + draw.below(90)):
        machine.step()
    rows = trace_of("vsm", machine.pens.values(), complete=draw.is_so(0.5), healed=draw.is_so(0.5))
    return finished(draw, rows, f"vsm {seed}", is_mutated)
