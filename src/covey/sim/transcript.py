"""What happened in a run, in the fewest lines that a person can check.

       3.0  > crash b
       3.0    b/1 crashes
       4.8    all install v1: a/1 c/1 d/1 e/1

A line that begins with `>` is a step of the scenario; the others are what processes did. Those that did the same
thing at nearly the same time share a line, which stands where the first of them did it: *all* are all members
of a view. What one process did stands in the order in which it did it, and below the step that came before.
"""

from msgspec import Struct

from covey.kernel.effects import Deliver, Effect, Halt, Install
from covey.sim.machine import Life, Machine
from covey.sim.model import Model
from covey.sim.run import run
from covey.sim.scenario import Scenario, Step
from covey.sim.world import World

TOGETHER_S = 0.5
"""Processes that do the same thing within that time share a line."""

LIVES = {"start": "start", "fail": "crash", "stop": "stop", "resume": "resume"}
"""What is told of the turns of a life; that it pauses, the step says."""


class Deed(Struct):
    """What one process did, or several at nearly the same time."""

    at: float
    verb: str
    """As of several."""
    what: str
    members: tuple[str, ...]
    """Of the view that is installed."""
    counts: dict[str, int]
    """How often each did it."""

    def __str__(self) -> str:
        times = {*self.counts.values()}
        verb = self.verb if len(self.counts) > 1 else self.verb + ("es" if self.verb.endswith("sh") else "s")
        if times == {1} or len(times) > 1:
            return f"{self.at:8.1f}    {self._who()} {verb} {self.what}".rstrip()
        return f"{self.at:8.1f}    {self._who()} {verb} {times.pop()} {self.what}"

    def _who(self) -> str:
        if len(self.counts) > 1 and {*self.counts} == {*self.members}:
            return "all"
        if len({*self.counts.values()}) == 1:
            return " ".join(sorted(self.counts))
        return " ".join(f"{name} ({count})" for name, count in sorted(self.counts.items()))


class Transcript:
    """Writes down one run; `attach` is what `covey.sim.run.run` takes as `watch`."""

    def __init__(self) -> None:
        self.lines: list[str | Deed] = []
        self._told = 0

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    def attach(self, world: World) -> None:
        self._world = world
        world.watchers.append(self._saw)
        world.step_watchers.append(self._did)

    def _tell_steps(self) -> None:
        """Steps stand above what they cause."""
        for at, step in self._world.steps[self._told :]:
            self.lines.append(f"{at:8.1f}  > {' '.join((step.verb, *step.words))}")
        self._told = len(self._world.steps)

    def _did(self, step: Step) -> None:
        self._tell_steps()
        if step.verb == "settle":
            rest = "at rest" if self._world.is_at_rest() else "not at rest"
            self.lines.append(f"{self._world.now:8.1f}    {rest}")

    def _saw(self, machine: Machine, what: Effect | Life) -> None:
        self._tell_steps()
        who = str(machine.pid)
        match what:
            case Life(turn) if turn in LIVES:
                self._add(who, LIVES[turn])
            case Halt(why):
                self._withdraw(who)
                self._add(who, "halt", f"({why})")
            case Install():
                kind = "" if what.kind == "regular" else f"{what.kind} "
                group = f" of group {what.group}" if what.group else ""
                self._add(who, "install", f"{kind}{what.config}{group}: {' '.join(what.members)}", what.members)
            case Deliver():
                self._add(who, "deliver", f"from {what.origin}", count=len(what.messages))

    def _add(self, who: str, verb: str, what: str = "", members: tuple[str, ...] = (), count: int = 1) -> None:
        """Put it on the line where others did the same, unless this process has a later one."""
        for line in reversed(self.lines):
            if isinstance(line, str) or self._world.now - line.at > TOGETHER_S:
                break
            if (line.verb, line.what) == (verb, what):
                line.counts[who] = line.counts.get(who, 0) + count
                return
            if who in line.counts:
                break
        self.lines.append(Deed(self._world.now, verb, what, members, {who: count}))

    def _withdraw(self, who: str) -> None:
        """Take back that a process ended, to say why it did."""
        deed = next(line for line in reversed(self.lines) if isinstance(line, Deed) and who in line.counts)
        del deed.counts[who]
        if not deed.counts:
            self.lines.remove(deed)


def transcribe(scenario: Scenario, model: Model) -> str:
    """Play a scenario and return its transcript."""
    transcript = Transcript()
    outcome = run(scenario, model, watch=transcript.attach)
    return f"{transcript}FAILED: {outcome.why}\n" if outcome.failed else str(transcript)
