"""The site view sequence: what one site remembers of it, and how it grows (isis-1985, section 4.2).

A site remembers two things in stable storage: the last round that it *promised* to take part in, and
the last extension that it *accepted* (saved, step 2a). Committed views go to the log. After a restart
this is all there is, and it is enough: what may have been committed is in the accepted extension of
some site of any majority.
"""

from collections.abc import Collection, Mapping

from covey.isis.messages import (
    COUNT_MAX,
    EXTENSION,
    NO_ROUND,
    NOTHING,
    ROUND,
    VIEW,
    VIEWS_MAX,
    Extension,
    Round,
    Standing,
    View,
    encode,
)
from covey.kernel.effects import Append, Install, Store
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.errors import BrokenInvariant
from covey.kernel.ids import ProcessId

PROMISED = "isis.promised"
ACCEPTED = "isis.accepted"


class Quorum:
    """A majority of the configured sites. Only names that come with their storage are configured."""

    def __init__(self, configured: Collection[str]) -> None:
        self.configured = frozenset(configured)

    def holds(self, sites: Collection[ProcessId]) -> bool:
        """Whether these sites are a quorum."""
        return 2 * len(self.configured.intersection(pid.name for pid in sites)) > len(self.configured)


def weight(extension: Extension) -> tuple[Round, int]:
    """Of two extensions the heavier includes the other, or the other was never committed."""
    return extension.round, extension.views[-1].number if extension.views else -1


def members_after(last: View | None, alive: Mapping[ProcessId, int]) -> tuple[ProcessId, ...]:
    """Return the members of `last` that live, by age, and then those that wait to be taken in, by name.

    `alive` has the number of the view that each installed last; those that wait are in none (-1).
    """
    old = () if last is None else last.members
    new = sorted(pid for pid, view in alive.items() if pid not in old and view < 0)
    return (*(pid for pid in old if pid in alive), *new)


def with_next(views: tuple[View, ...], alive: Mapping[ProcessId, int], quorum: Quorum) -> tuple[View, ...]:
    """Append the next view, where there is a change and it has a quorum; leave out what all have installed."""
    last = views[-1] if views else None
    members = members_after(last, alive)
    number = 0 if last is None else last.number + 1
    has_place = len(views) < VIEWS_MAX and number <= COUNT_MAX
    if (last is None or members != last.members) and quorum.holds(members) and has_place:
        views = (*views, View(number, members))
    if not views:
        return views
    first = min(_needs(pid, views, alive) for pid in views[-1].members)
    return tuple(view for view in views if view.number >= first)


def _needs(pid: ProcessId, views: tuple[View, ...], alive: Mapping[ProcessId, int]) -> int:
    """Return the first view of those that a member of the last may not have installed yet."""
    if alive.get(pid, -1) >= 0:
        return min(alive[pid] + 1, views[-1].number)
    return next(view.number for view in views if pid in view.members)


class Memory:
    """What one site remembers of the sequence."""

    def __init__(self, engine: Engine, around: Surroundings) -> None:
        self.engine = engine
        self.me = engine.me
        promised, accepted, log = around.stable.get(PROMISED), around.stable.get(ACCEPTED), around.stable.log()
        self.promised = NO_ROUND if promised is None else ROUND.decode(promised)
        self.accepted = NOTHING if accepted is None else EXTENSION.decode(accepted)
        self.committed = VIEW.decode(log[-1]) if log else None
        """The last view that is known to be committed."""
        self.view: View | None = None
        """The last view that this incarnation has installed; None while it is in none."""
        self.since = NO_ROUND
        """The first round that this incarnation promised to take part in."""
        self.holes = 0
        """How often this incarnation missed a view of the sequence: never."""

    @property
    def last(self) -> View | None:
        """The last view that is known, committed or not."""
        return self.accepted.views[-1] if self.accepted.views else None

    @property
    def number(self) -> int:
        """The number of that view, or -1."""
        return -1 if self.view is None else self.view.number

    @property
    def standing(self) -> Standing:
        return Standing(self.number, self.since)

    def can_follow(self, extension: Extension, quorum: Quorum) -> bool:
        """Whether an extension can be of this sequence: its views have a quorum, and this site has missed none.

        Unless the last of them leaves it out: then it has missed what it has, and learns that it is dead.
        """
        is_in = bool(extension.views) and self.me in extension.views[-1].members
        mine = [view.number for view in extension.views if view.number > self.number and self.me in view.members]
        follows = self.view is None or not is_in or mine == list(range(self.number + 1, self.number + 1 + len(mine)))
        return follows and all(quorum.holds(view.members) for view in extension.views)

    def promise(self, round_: Round) -> None:
        """Take part in a round, and in no earlier one from now on."""
        if self.since == NO_ROUND:
            self.since = round_
        if round_ != self.promised:
            self.promised = round_
            self.engine.out.append(Store(PROMISED, encode(round_)))

    def accept(self, extension: Extension) -> None:
        """Save a proposed extension."""
        self.accepted = extension
        self.engine.out.append(Store(ACCEPTED, encode(extension)))

    def commit(self, upto: int) -> list[ProcessId]:
        """Record what is committed, and install what is new to this site of it; return who has left the sequence."""
        before = {
            pid for view in (*self.accepted.views, self.view) if view and view.number <= upto for pid in view.members
        }
        for view in self.accepted.views:
            if view.number <= upto and (self.committed is None or view.number > self.committed.number):
                self.engine.out.append(Append(encode(view)))
                self.committed = view
        for view in self._new_to_me(upto):
            self.holes += self.view is not None and view.number != self.view.number + 1
            self.view = view
            members = tuple(sorted(str(pid) for pid in view.members))
            self.engine.out.append(Install(f"v{view.number}", view.number, members, primary=True))
        return sorted(before.difference(self.committed.members if self.committed else ()))

    def _new_to_me(self, upto: int) -> list[View]:
        """Return the committed views after the installed one; a joiner begins where it is in for good."""
        new: list[View] = []
        for view in self.accepted.views:
            if self.number < view.number <= upto:
                new = [*new, view] if self.me in view.members else []
        return new

    def check(self, quorum: Quorum) -> None:
        """The invariants of the section and of the deviations."""
        self._require(self.promised >= self.accepted.round, "accepted in a round that was not promised")
        for view in self.accepted.views:
            self._require(quorum.holds(view.members), f"view {view.number} has no quorum")
        self._require(not self.holes, "missed a view")
        if self.view is not None:
            self._require(self.me in self.view.members, "operational outside its own view")
            self._require(self.committed is not None, "operational without a committed view")

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            raise BrokenInvariant(f"{self.me}: {what}; view {self.view}, accepted {self.accepted}")
