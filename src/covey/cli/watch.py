"""What happens in a simulated run, as a list of events: what a picture of it is drawn from."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from covey.isis.messages import EXTENSION
from covey.isis.sequence import ACCEPTED
from covey.kernel.effects import Deliver, Effect, Halt, Install, Store
from covey.kernel.ids import ProcessId
from covey.sim.machine import UP, Life, Machine
from covey.sim.network import NetworkOptions
from covey.sim.run import Outcome
from covey.sim.scenario import Scenario, Step, weather_words
from covey.sim.world import World

Pair = tuple[str, str]


class Event(Struct, frozen=True):
    """One thing that happened, at one member or to the network."""

    at: float
    kind: str
    """One of `covey.cli.picture.MARKS`, or `note`, for what has no mark."""
    member: str = ""
    """Its address: the column that it is drawn in."""
    who: str = ""
    """The incarnation, as it is called in texts."""
    number: int | None = None
    """Of a view or an incarnation; of messages, how many."""
    text: str = ""
    members: tuple[str, ...] = ()
    """Who is in a view."""
    cuts: frozenset[Pair] = frozenset()
    """Whose packets do not reach whom from now on."""


class Watch:
    """Collects the events of one run; `attach` is what `covey.sim.run.run` takes as `watch`."""

    def __init__(self, scenario: Scenario) -> None:
        self.events: list[Event] = []
        if scenario.weather != NetworkOptions():
            self.events.append(Event(0.0, "note", text=f"weather: {' '.join(weather_words(scenario.weather))}"))
        self._cuts: frozenset[Pair] = frozenset()

    def attach(self, world: World) -> None:
        self._world = world
        world.watchers.append(self._saw)
        world.step_watchers.append(self._did)

    def finish(self, outcome: Outcome) -> None:
        """Add how it ended."""
        if outcome.failed:
            self._add("broken", text=outcome.why)
        elif self._world.settled:
            self._add("rest", text="all have come to rest")
        else:
            self._add("note", text="the scenario ends")

    def _add(self, kind: str, member: str = "", **more: Any) -> None:
        self.events.append(Event(self._world.now, kind, member, **more))

    # ---- at one member ----

    def _saw(self, machine: Machine, what: Effect | Life) -> None:
        member, who = machine.address, short(machine.pid)
        match what:
            case Life(turn="start"):
                self._add("start", member, who=who, number=machine.pid.incarnation)
            case Life(turn=turn):
                self._add(turn, member, who=who)
            case Install(group="", kind="regular"):
                self._add("view", member, who=who, number=what.seq, members=names(what.members))
            case Store(key) if key == ACCEPTED:
                extension = EXTENSION.decode(what.value)
                kind = "propose" if extension.round.manager == machine.pid else "accept"
                self._add(kind, member, who=who, number=extension.views[-1].number)
            case Deliver():
                self._add("deliver", member, who=who)
            case Halt(restart=True):
                self._add("halt", member, who=who, text=what.why)

    # ---- to the machines and the network ----

    def _did(self, step: Step) -> None:
        """Tell a step as far as nothing else tells it."""
        words = step.words
        match step.verb:
            case "rob":
                for name in words:
                    self._add("rob", name, who=name)
            case "clock":
                self._add("clock", words[0], text=f"the clock of {words[0]} runs at {words[1]} times the speed")
            case "jump":
                self._add("clock", words[0], text=f"the clock of {words[0]} jumps {words[1]} s ahead")
            case "send" if (machine := self._world.machines[words[0]]).state == UP:
                self._add("send", words[0], who=short(machine.pid), number=int(float(words[1])))
            case "ask":
                self._add("note", text=f"ask {' '.join(words)}")
            case "weather":
                self._add("note", text=f"weather: {' '.join(words)}")
            case "calm":
                self._add("note", text="calm: all faults end")
                self._look("")
            case "cut":
                self._look(f"cut: {' '.join(words)}")
                if "for" in words:
                    end = self._world.now + float(words[words.index("for") + 1])
                    self._world.at(end, lambda: self._look(""))

    def _look(self, text: str) -> None:
        """Whether the network is another one than before."""
        cuts = frozenset(self._world.network.cuts)
        if cuts != self._cuts:
            self._add("cut" if cuts - self._cuts else "mend", text=text, cuts=cuts)
        elif text:
            self._add("note", text=text)
        self._cuts = cuts


def short(pid: ProcessId) -> str:
    """Its name alone in its first life."""
    return pid.name if pid.incarnation == 1 else str(pid)


def names(members: Sequence[str]) -> tuple[str, ...]:
    """The members of a view, which some protocols call by their names alone."""
    return tuple(member.removesuffix("/1") for member in members)
