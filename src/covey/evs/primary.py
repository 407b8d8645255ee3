"""Which configurations are primary components (evs-1994, section 2.2).

PC-1 (uniqueness) is meant strictly: of two primary components in a row, installing the earlier one *precedes*
installing the later one: somebody who installs the later one has installed the earlier one before, so PC-2 (continuity)
holds, too.

The paper leaves the algorithm open. This one asks, for a proposed configuration H, for the `Standing` of each of its
members. A process that has told its standing for H acknowledges no earlier proposal from then on.

- L is the latest primary component that any of them knows to have been founded. Somebody in H must have installed it.
- H holds a quorum of L, so that it shares a member with whatever else wants to follow L.
- Of a later component G that a member of H has acknowledged it must be known that it never was nor will be founded. All
  its members acknowledge G, durably, before anybody installs it. So it is enough that some member of G in H has not,
  or that the one who founds G is in H: it would have said so. Otherwise H is not primary: the algorithm may block
  until that process is heard again.

The *founder* of H has installed L, and is the first to install H: the others do so only when they know that it has.
Otherwise those who have installed L could all crash before they install H, and others, who have not, install it all
the same: nothing that is seen would tell that L precedes H. It also settles what a crash leaves in doubt. The founder
says on its disk that it has installed H *before* it does so, the others *afterwards*:

- If the founder crashes between, nobody installs H, and nobody but the founder says to have done so; so it founds what
  comes next, too, and it has installed all that was installed before.
- If another one crashes between, its disk says less than is true. That can make the algorithm block, no more.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from covey.kernel.effects import Install, Store
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.errors import BrokenInvariant, MisuseError, WorldError
from covey.kernel.ids import NAME_BYTES_MAX, check_name

KEY = "evs.primary"
NAMES_MAX = 256
"""In one configuration, and configured."""
SEQ_MAX = 2**60

Policy = Literal["majority", "dynamic"]
"""Of what a successor needs a majority: of the configured set, or of the primary component itself (linear voting)."""

Seq = Annotated[int, Meta(ge=0, le=SEQ_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_BYTES_MAX)]
Names = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=NAMES_MAX)]


def _check_names(names: tuple[str, ...]) -> None:
    if names != tuple(sorted(set(names))):
        raise ValueError("names are listed in order, each once")


class Component(Struct, frozen=True, array_like=True):
    """A primary component, proposed or founded."""

    seq: Seq
    config: Annotated[str, Meta(max_length=2 * NAME_BYTES_MAX)]
    """Its regular configuration; empty for the one that all begin with, which nobody has installed."""
    members: Names
    configured: Names
    """The policy `majority` looks for a quorum of its successor among these."""
    founder: Name
    """Who installs it first."""

    def __post_init__(self) -> None:
        _check_names(self.members)
        _check_names(self.configured)
        if self.founder not in self.members:
            raise ValueError("the founder of a component is one of its members")


class Change(Struct, frozen=True, array_like=True):
    """A change of the configured set that takes effect with the next primary component."""

    number: Annotated[int, Meta(ge=1, le=SEQ_MAX)]
    """How many were delivered in this primary component; each builds on those before."""
    configured: Names
    """The set after them."""

    def __post_init__(self) -> None:
        _check_names(self.configured)


class Standing(Struct, frozen=True, array_like=True):
    """What a process knows of primary components: what it stores, and tells the others."""

    last: Component | None = None
    """The last one that it knows to have been founded."""
    is_installed: bool = False
    """Whether it has installed that one itself."""
    attempt: Component | None = None
    """A later one that it has acknowledged: for all it knows, somebody may have installed it."""
    change: Change | None = None
    """The changes that were delivered to it in `last`."""
    since: Seq = 0
    """Since which configuration it has been in the primary component without a break; 0 when it is not in it now."""

    def __post_init__(self) -> None:
        seq = -1 if self.last is None else self.last.seq
        if self.attempt is not None and self.attempt.seq <= seq:
            raise ValueError("an attempt is later than what is known to have been founded")
        if (
            (self.is_installed and self.last is None)
            or (self.change and not self.is_installed)
            or self.since > max(seq, 0)
        ):
            raise ValueError("a standing contradicts itself")


class Verdict(Struct, frozen=True):
    """Whether a proposed configuration is a primary component: the same at all of its members."""

    component: Component | None
    """None when it is not."""
    last: Component | None = None
    """The one that it follows."""
    since: Mapping[str, int] = {}
    """For `Install.since`."""
    why_not: str = ""

    @property
    def is_primary(self) -> bool:
        return self.component is not None


STANDING = msgspec.msgpack.Decoder(Standing)
encode = msgspec.msgpack.Encoder().encode


# ---- the verdict -------------------------------------------------------------------------------


def is_majority(part: Collection[str], whole: Collection[str]) -> bool:
    """Whether more than half of `whole` is in `part`."""
    return 2 * len(set(part).intersection(whole)) > len(whole)


def of_configured(last: Component, members: Collection[str]) -> bool:
    """The policy `majority`."""
    return is_majority(members, last.configured)


def of_last(last: Component, members: Collection[str]) -> bool:
    """The policy `dynamic`: a majority of the last primary component; of two halves, the one with the first by name."""
    twice = 2 * len(set(members).intersection(last.members))
    return twice > len(last.members) or (twice == len(last.members) and last.members[0] in members)


QUORUMS: dict[Policy, Callable[[Component, Collection[str]], bool]] = {"majority": of_configured, "dynamic": of_last}


def judge(policy: Policy, seq: int, config: str, standings: Mapping[str, Standing]) -> Verdict:
    """Say whether the configuration of these processes, by name, is a primary component."""
    members = tuple(sorted(standings))
    known = [standing.last for standing in standings.values() if standing.last is not None]
    if not known:
        return Verdict(None, why_not="nobody in it knows of a primary component")
    last = max(known, key=lambda component: component.seq)
    if any(component.seq == last.seq and component != last for component in known):
        return Verdict(
            None, why_not=f"its members disagree about component {last.seq}: were they given one configured set?"
        )
    founders = founders_after(last, standings)
    if not founders:
        return Verdict(None, why_not=f"nobody in it has installed {last.config}")
    if not QUORUMS[policy](last, members):
        return Verdict(None, why_not=f"no quorum of {last.config or 'the configured set'}")
    configured = configured_after(last, standings)
    if configured != last.configured and not is_majority(members, configured):
        return Verdict(None, why_not=f"no majority of the changed configured set: {', '.join(configured)}")
    for attempt in attempts_after(last, standings):
        if not is_abandoned(attempt, standings):
            return Verdict(None, why_not=f"{attempt.founder}, who is not in it, may have founded {attempt.config}")
    since = {name: since_when(seq, last, standings[name]) for name in members}
    return Verdict(Component(seq, config, members, configured, founders[0]), last, since)


def founders_after(last: Component, standings: Mapping[str, Standing]) -> list[str]:
    """Return who has installed the last component, and so can found the next."""
    return [name for name in sorted(standings) if standings[name].last == last and standings[name].is_installed]


def configured_after(last: Component, standings: Mapping[str, Standing]) -> tuple[str, ...]:
    """Return the configured set, with the changes that were delivered in the last component."""
    changes = [standings[name].change for name in founders_after(last, standings)]
    _, configured = max(((each.number, each.configured) for each in changes if each), default=(0, last.configured))
    return configured


def attempts_after(last: Component, standings: Mapping[str, Standing]) -> list[Component]:
    """Return the later components that somebody may have installed, as far as one process alone knows."""
    attempts = {standing.attempt for standing in standings.values() if standing.attempt is not None}
    return sorted((each for each in attempts if each.seq > last.seq), key=lambda each: (each.seq, each.config))


def is_abandoned(attempt: Component, standings: Mapping[str, Standing]) -> bool:
    """Whether a component that is later than all that the members know of is known never to be founded."""
    return attempt.founder in standings or any(
        standings[name].attempt != attempt for name in attempt.members if name in standings
    )


def since_when(seq: int, last: Component, standing: Standing) -> int:
    """Return since when a member of a primary component is in it without a break: from now on, if not from before."""
    goes_on = standing.since > 0 and standing.is_installed and standing.last == last
    return standing.since if goes_on else seq


# ---- one process -------------------------------------------------------------------------------


class Primary:
    """The primary components as one process knows them.

    All processes are given the same policy and the same set of configured names, for ever: later sets come by changes.
    A configured name comes with its storage; a process that has lost its disk comes back under another name.
    """

    def __init__(self, engine: Engine, around: Surroundings, configured: Collection[str], policy: Policy) -> None:
        if policy not in QUORUMS:
            raise MisuseError(f"no policy is called {policy!r}; the policies are {', '.join(QUORUMS)}")
        if not 0 < len(set(configured)) <= NAMES_MAX:
            raise MisuseError(f"1 to {NAMES_MAX} names are configured, not {len(set(configured))}")
        for name in configured:
            check_name(name)
        self.engine = engine
        self.me = engine.me.name
        self.policy = policy
        stored = around.stable.get(KEY)
        self.standing = _first(self.me, configured) if stored is None else _read(stored, self.me)

    @property
    def configured(self) -> tuple[str, ...]:
        """The configured set, with all changes so far."""
        if self.standing.change is not None:
            return self.standing.change.configured
        return () if self.standing.last is None else self.standing.last.configured

    def verdict(self, seq: int, config: str, standings: Mapping[str, Standing]) -> Verdict:
        """Judge a proposed configuration, by what its members have told for it.

        From when it tells, until it is told another one, a process acknowledges no other proposal, and installs none.
        """
        return judge(self.policy, seq, config, standings)

    def acknowledge(self, verdict: Verdict) -> None:
        """Put into `out` what must be durable before this process acknowledges (step 5) a configuration judged so."""
        if verdict.component is None:
            return
        mine = self.standing
        if mine.attempt is not None and mine.attempt.seq >= verdict.component.seq:
            raise BrokenInvariant(f"{self.me}: acknowledges {verdict.component} after {mine.attempt}")
        if mine.last != verdict.last:  # it has missed what was founded meanwhile
            mine = Standing(verdict.last)
        self._store(replace(mine, attempt=verdict.component))

    def install(self, verdict: Verdict, effect: Install) -> None:
        """Put into `out` the installation of a configuration judged so, with what it means for the disk.

        A primary component is installed by its founder first, when all members have acknowledged it; the others
        install it when they have received what somebody sent after installing it.
        """
        founded = verdict.component
        if founded is None:
            self.standing = replace(self.standing, since=0)
            self.engine.out.append(effect)
            return
        if self.standing.attempt != founded:
            raise BrokenInvariant(f"{self.me}: installs {founded} and has acknowledged {self.standing.attempt}")
        standing = Standing(founded, is_installed=True, since=verdict.since[self.me])
        if founded.founder == self.me:
            self._store(standing)
            self.engine.out.append(effect)
        else:
            self.engine.out.append(effect)
            self._store(standing)

    def check_change(self, old: str, new: str) -> None:
        """Refuse a change of the configured set that cannot be made now."""
        if self.policy != "majority":
            raise MisuseError(f"the policy {self.policy} knows no configured set that could change; it needs no change")
        if not self.standing.since:
            raise MisuseError("the configured set changes in the primary component, and this process is not in it now")
        if old not in self.configured:
            raise MisuseError(f"{old!r} is not configured; configured are {', '.join(self.configured)}")
        if new in self.configured:
            raise MisuseError(f"{new!r} is configured already")
        check_name(new)

    def change(self, old: str, new: str) -> bool:
        """Replace a configured name by another, from the next primary component on.

        This is delivered as a safe message of the primary component. Return False where an earlier one voids it.
        """
        try:
            self.check_change(old, new)
        except MisuseError:
            return False
        configured = sorted({*self.configured, new} - {old})
        number = 1 if self.standing.change is None else self.standing.change.number + 1
        self._store(replace(self.standing, change=Change(number, tuple(configured))))
        return True

    def _store(self, standing: Standing) -> None:
        self.standing = standing
        self.engine.out.append(Store(KEY, encode(standing)))


def _first(me: str, configured: Collection[str]) -> Standing:
    """Return where a process begins: those that are configured count as having installed the first component of all."""
    names = tuple(sorted(set(configured)))
    return Standing(Component(0, "", names, names, names[0]), is_installed=True) if me in names else Standing()


def _read(stored: bytes, me: str) -> Standing:
    """Return what was stored; after a restart a process is in no component."""
    try:
        return replace(STANDING.decode(stored), since=0)
    except (msgspec.DecodeError, ValueError) as error:
        raise WorldError(
            f"the storage of {me} is damaged under {KEY}: {error}. Set it aside; "
            "without it this process comes back under a fresh name"
        ) from None
