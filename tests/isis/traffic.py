"""An independent judge of the channels between sites: what was sent, and what came of it.

Section 4.1 promises lossless, ordered transmission between two incarnations, until one of them ends:

- What b delivers from a is a prefix of what a sent to b: each message once, in order, none left out.
- In a complete run it is all of it, between two that rest in one view of just those that can reach each other.
- Once b has installed a view, it delivers nothing from incarnations that were dropped from the sequence by then.
"""

from collections import defaultdict
from collections.abc import Iterator

from covey.isis.sites import Outgoing
from covey.kernel.effects import Deliver, Effect, Install
from covey.kernel.ids import ProcessId
from covey.sim.machine import Machine
from covey.sim.world import World

Pair = tuple[ProcessId, ProcessId]


class Traffic:
    """Watches a world, and says in sentences what was wrong with its channels."""

    def __init__(self) -> None:
        self.delivered: defaultdict[Pair, list[bytes]] = defaultdict(list)
        self.views: dict[ProcessId, Install] = {}
        """The view that each installed last."""
        self.seen: dict[str, int] = {}
        """The first view that each was a member of."""
        self.late: list[str] = []

    def watch(self, world: World) -> None:
        self.world = world
        world.watchers.append(self.saw)

    def saw(self, machine: Machine, effect: Effect) -> None:
        if isinstance(effect, Install):
            self.views[machine.pid] = effect
            for member in effect.members:
                self.seen[member] = min(effect.seq, self.seen.get(member, effect.seq))
        elif isinstance(effect, Deliver):
            self.delivered[effect.origin, machine.pid] += effect.messages
            self._is_in_time(machine.pid, effect.origin)

    def _is_in_time(self, receiver: ProcessId, origin: ProcessId) -> None:
        view = self.views.get(receiver)
        if view is None or str(origin) in view.members or str(origin) not in self.seen:
            return
        if self.seen[str(origin)] < view.seq:
            self.late.append(f"late: {receiver} delivers from {origin} in view {view.seq}, which has dropped it")

    def wrong(self) -> Iterator[str]:
        yield from self.late
        sent: defaultdict[Pair, list[bytes]] = defaultdict(list)
        for sender, message in self.world.sent:
            assert isinstance(message, Outgoing)
            sent[sender, message.dest].append(message.message)
        for (sender, receiver), bodies in self.delivered.items():
            if bodies != sent[sender, receiver][: len(bodies)]:
                yield f"order: {receiver} delivers from {sender} what is no prefix of what that sent"
        if self.world.settled:
            yield from self._not_all(sent)

    def _not_all(self, sent: dict[Pair, list[bytes]]) -> Iterator[str]:
        for component in self.world.components():
            pids = {machine.pid for machine in component}
            if not all(pid in self.views and {*self.views[pid].members} == {*map(str, pids)} for pid in pids):
                continue
            for (sender, receiver), bodies in sent.items():
                missing = len(bodies) - len(self.delivered[sender, receiver])
                if missing and {sender, receiver} <= pids:
                    yield f"loss: {receiver} lacks {missing} of {len(bodies)} messages from {sender}"
