"""The gather state: processes agree on whom to form a configuration with (Totem's membership protocol, first phase).

Each says in Join messages whom it has seen (`procs`) and whom it has given up (`failed`). Both sets only grow,
until all that are left say the same: so it ends. Only the latest incarnation of a name counts; an earlier one is
dead.
"""

from collections.abc import Iterable

from covey.evs.messages import MEMBERS_MAX, Join
from covey.kernel.ids import ProcessId


class Gather:
    """What one process has gathered."""

    def __init__(self, now: float, me: ProcessId, known: Iterable[ProcessId]) -> None:
        """Those that are `known` are expected to come along; for others one waits, since more may be about to come."""
        self.me = me
        self.known = frozenset(known)
        self.procs: frozenset[ProcessId] = frozenset((me,))
        self.failed: frozenset[ProcessId] = frozenset()
        self.heard: dict[ProcessId, Join] = {}
        """What each said last."""
        self.changed_at = now
        self.grown_at = now

    def add(self, now: float, procs: Iterable[ProcessId], failed: Iterable[ProcessId] = ()) -> bool:
        """Learn of processes, and of some that were given up; whether that was new."""
        seen = self.procs.union(procs)
        latest: dict[str, int] = {}
        for name, incarnation in seen:
            latest[name] = max(incarnation, latest.get(name, 0))
        latest[self.me.name] = self.me.incarnation
        seen = frozenset(pid for pid in seen if latest[pid.name] == pid.incarnation)
        given_up = self.failed.union(failed).intersection(seen) - {self.me}
        if (seen, given_up) == (self.procs, self.failed) or len(seen) > MEMBERS_MAX:
            return False
        if seen - self.procs:
            self.grown_at = now
        self.procs, self.failed, self.changed_at = seen, given_up, now
        return True

    def hear(self, now: float, sender: ProcessId, join: Join) -> bool:
        """Take what somebody says; whether it changes what I say. Who has given me up is given up."""
        if self.me in join.failed:
            is_new = self.add(now, (sender,), (sender,))
        else:
            is_new = self.add(now, (sender, *join.procs), join.failed)
        if sender in self.procs:
            self.heard[sender] = join
        if len(self.heard) > len(self.procs):
            self.heard = {pid: said for pid, said in self.heard.items() if pid in self.procs}
        return is_new

    def includes(self, join: Join) -> bool:
        """Whether I know all that it says."""
        return self.procs.issuperset(join.procs) and self.failed.issuperset(join.failed)

    @property
    def living(self) -> tuple[ProcessId, ...]:
        """The members of the configuration to be, in order."""
        return tuple(sorted(self.procs - self.failed))

    @property
    def is_growing(self) -> bool:
        """Whether somebody comes along who was not known."""
        return not self.known.issuperset(self.living)

    @property
    def silent(self) -> frozenset[ProcessId]:
        """Those of the living who have not said the same as I."""
        return frozenset(pid for pid in self.living if pid != self.me and not self._agrees(pid))

    def _agrees(self, pid: ProcessId) -> bool:
        join = self.heard.get(pid)
        return join is not None and (frozenset(join.procs), frozenset(join.failed)) == (self.procs, self.failed)

    def join(self, ring_seq: int) -> Join:
        """What I say."""
        return Join(ring_seq, tuple(sorted(self.procs)), tuple(sorted(self.failed)))
