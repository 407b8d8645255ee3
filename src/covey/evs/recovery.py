"""The recovery algorithm: what became of the messages of the old configuration (evs-1994, section 3).

The code of each step stands under its number. Step 1 is the ring's; step 2 (what is new waits) and the restart at
step 2 are the engine's, as is what step 5 says of acknowledging. Everything here follows from what the processes
told one another in step 3, and is the same at all of them.

    3    each tells of its last regular configuration, of what it has and knows to be safe there, and of its obligations
    4.a  who comes from the same configuration as I: the transitional configuration
    4.b  which frames not all of these have, and who sends them again: the first that has it
    5.a  they are sent as frames of the new ring; since all know how many there are, all know when they have them
    5.c  who has acknowledged them all is obliged to its transitional configuration, and to whom that is obliged
    6    what is delivered, in which configuration
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from covey.evs.messages import CHANGE, SAFE, Frame, Info, RingId
from covey.evs.ring import UNSAFE_MAX, Ring, in_ranges
from covey.kernel.ids import ProcessId

Infos = Mapping[ProcessId, Info]


def is_possible(infos: Infos) -> bool:
    """Whether those of one old configuration could be in such different states."""
    groups: defaultdict[RingId, list[Info]] = defaultdict(list)
    for info in infos.values():
        groups[info.old].append(info)
    return all(_is_possible(group) for group in groups.values())


def _is_possible(group: Sequence[Info]) -> bool:
    low = min(info.aru for info in group)
    high = max(info.have[-1].last if info.have else info.aru for info in group)
    return high - low <= UNSAFE_MAX and max(info.safe for info in group) <= low


def rebroadcasts(infos: Infos) -> dict[ProcessId, list[int]]:
    """Step 4.b, of all old configurations: which frames each process sends again."""
    plan: dict[ProcessId, list[int]] = {pid: [] for pid in infos}
    for old in sorted({info.old for info in infos.values()}):
        group = [pid for pid in sorted(infos) if infos[pid].old == old]
        have = {pid: set(in_ranges(infos[pid].have)) for pid in group}
        low = min(infos[pid].aru for pid in group)
        for pid in group:
            have[pid].update(range(low + 1, infos[pid].aru + 1))
        for seq in sorted(set().union(*have.values())):
            holders = [pid for pid in group if seq in have[pid]]
            if len(holders) < len(group):
                plan[holders[0]].append(seq)
    return plan


class Deliveries(NamedTuple):
    """Step 6: what becomes of the frames that are left."""

    regular: list[Frame]
    """6.b"""
    transitional: list[Frame]
    """6.d"""
    counters: dict[str, int]
    """What there was to decide, for the trace."""


class Recovery:
    """What one process needs to know of a recovery, once step 3 is done."""

    def __init__(self, old: Ring, infos: Infos) -> None:
        self.old = old
        self.infos = infos
        me = old.members[old.place]
        self.members = tuple(pid for pid in sorted(infos) if infos[pid].old == old.id)  # 4.a
        plan = rebroadcasts(infos)
        self.total = sum(map(len, plan.values()))
        """How many frames are rebroadcast: the first so many of the new ring."""
        self.mine = plan[me]
        """Those that I have to send and have not sent yet."""
        self.safe = max(infos[pid].safe for pid in self.members)
        """Some process in the transitional configuration knows that all of the old one have all up to here."""

    def obligations(self) -> frozenset[str]:
        """Step 5.c: the members, me among them, and those whom each has told that it is obliged to."""
        return frozenset(name for pid in self.members for name in (pid.name, *self.infos[pid].obligations))

    def deliveries(self, obligations: frozenset[str]) -> Deliveries:
        """Step 6: divide what has not been delivered; all that the transitional configuration has is here by now."""
        old = self.old
        before = [old.frames[seq] for seq in range(old.delivered + 1, old.aru + 1)]
        cut = next(
            (i for i, each in enumerate(before) if each.service in (SAFE, CHANGE) and each.seq > self.safe), None
        )
        regular, rest = (before, []) if cut is None else (before[:cut], before[cut:])
        beyond = [old.frames[seq] for seq in old.beyond]  # after the first unavailable message, 6.a
        kept = [frame for frame in beyond if old.names[frame.origin] in obligations]
        going = {pid.name for pid in self.members}
        counters = {
            "rebroadcast": self.total,
            "holes": beyond[-1].seq - old.aru - len(beyond) if beyond else 0,
            "discarded": len(beyond) - len(kept),
            "obliged": sum(old.names[frame.origin] not in going for frame in kept),
        }
        return Deliveries(regular, rest + kept, counters)
