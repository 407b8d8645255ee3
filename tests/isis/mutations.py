"""The site layer broken on purpose: what the scenarios and the judge must find.

Each mutation takes a site that was just built and makes it forget one rule.
"""

from collections.abc import Callable, Sequence
from unittest.mock import patch

from covey.isis.messages import NO_ROUND, Commit, Extension, Round, Standing, View
from covey.isis.reign import Alive, Answer, Reign
from covey.isis.scenarios import at_rest, build, messages
from covey.isis.sequence import Quorum
from covey.isis.sites import Sites
from covey.kernel.engine import Surroundings
from covey.kernel.ids import ProcessId
from covey.sim.model import Model

Mutation = Callable[[Sites], None]


def skip_nack(site: Sites) -> None:
    """Step 2b: a site that knows of more than it is sent keeps that to itself."""
    site._misses_something = lambda proposed: False  # type: ignore[method-assign]


def break_reign(site: Sites, breaks: Callable[[Reign], None]) -> None:
    """Break each reign as it begins, before it asks anybody."""

    class Broken(Reign):
        def open(self, alive: Alive) -> None:
            breaks(self)
            super().open(alive)

    review = site._review

    def reviewed(now: float) -> None:
        with patch("covey.isis.sites.Reign", Broken):
            review(now)

    site._review = reviewed  # type: ignore[method-assign]


def skip_rule_4(site: Sites) -> None:
    """Rule 4: a new manager drops the extension that is pending."""

    def breaks(reign: Reign) -> None:
        adopt = reign.adopt

        def forgetful(alive: Alive) -> None:
            upto = -1 if site.memory.committed is None else site.memory.committed.number
            for pid, (missing, standing) in reign.answers.items():
                kept = tuple(each for each in missing.views if each.number <= upto)
                reign.answers[pid] = Answer(Extension(missing.round if kept else NO_ROUND, kept), standing)
            adopt(alive)

        reign.adopt = forgetful  # type: ignore[method-assign]

    break_reign(site, breaks)


def skip_rule_5(site: Sites) -> None:
    """Rule 5: a new manager takes it that everybody has what it has seen committed."""

    def breaks(reign: Reign) -> None:
        eligible = reign.eligible

        def trusting(alive: Alive, last: View | None) -> Alive:
            return {pid: max(view, site.memory.number) for pid, view in eligible(alive, last).items()}

        reign.eligible = trusting  # type: ignore[method-assign]

    break_reign(site, breaks)


def forget_the_incarnation(site: Sites) -> None:
    """Section 4.1: packets to or from another incarnation of a site are taken like any other."""
    site.links._is_mine = lambda to: to is not None and to.name == site.me.name  # type: ignore[method-assign]
    site.links.is_dead = lambda pid: False  # type: ignore[method-assign]


class NoQuorum(Quorum):
    """Any sites will do."""

    def holds(self, sites: object) -> bool:
        return True


def ignore_the_quorum(site: Sites) -> None:
    """The section's last paragraph: a component without a majority goes on."""
    site.quorum = NoQuorum(site.quorum.configured)


def forget_promises(site: Sites) -> None:
    """A promise is not in stable storage before it is answered."""

    def promise(round_: Round) -> None:
        site.memory.promised = round_
        site.memory.since = round_ if site.memory.since == NO_ROUND else site.memory.since

    site.memory.promise = promise  # type: ignore[method-assign]


def forget_what_was_accepted(site: Sites) -> None:
    """Step 2a: the site does not save the extension that it acknowledges."""

    def accept(extension: Extension) -> None:
        site.memory.accepted = extension

    site.memory.accept = accept  # type: ignore[method-assign]


def commit_early(site: Sites) -> None:
    """Step 3a: the manager does not wait for the last acknowledgement."""

    def breaks(reign: Reign) -> None:
        def all_but_one(last: View) -> bool:
            return sum(reign.acks.get(pid, -1) < last.number for pid in last.members) <= 1

        reign.all_acknowledged = all_but_one  # type: ignore[method-assign]

    break_reign(site, breaks)


def take_back(site: Sites) -> None:
    """Deviation 5: a site that this manager proposed, and left out again, seems new when it comes back."""

    class Forgetful(set[ProcessId]):
        def __contains__(self, pid: object) -> bool:
            return False

    def breaks(reign: Reign) -> None:
        reign.proposed = Forgetful()

    break_reign(site, breaks)


def believe_newcomers(site: Sites) -> None:
    """Deviation 5: a site that is in no view seems new, whatever round it first took part in."""

    def breaks(reign: Reign) -> None:
        adopt = reign.adopt

        def trusting(alive: Alive) -> None:
            for pid, (missing, standing) in reign.answers.items():
                reign.answers[pid] = Answer(missing, Standing(standing.view, reign.round))
            adopt(alive)

        reign.adopt = trusting  # type: ignore[method-assign]

    break_reign(site, breaks)


def refuse_late_commits(site: Sites) -> None:
    """Deviation 4: a commit counts only until another round is promised."""
    on_commit = site._on_commit

    def strict(commit: Commit) -> None:
        if commit.round == site.memory.promised:
            on_commit(commit)

    site._on_commit = strict  # type: ignore[method-assign]


MUTATIONS: dict[str, Mutation] = {
    "skip-nack": skip_nack,
    "skip-rule-4": skip_rule_4,
    "skip-rule-5": skip_rule_5,
    "forget-incarnation": forget_the_incarnation,
    "ignore-quorum": ignore_the_quorum,
    "forget-promises": forget_promises,
    "forget-accepted": forget_what_was_accepted,
    "commit-early": commit_early,
    "take-back": take_back,
    "believe-newcomers": believe_newcomers,
}
"""What random scenarios find."""

KEPT: dict[str, tuple[Mutation, str]] = {"refuse-late-commits": (refuse_late_commits, "late-commit")}
"""What they find too seldom, each with the scenario that was kept when one did."""


def mutant(name: str) -> Model:
    """The site layer with that mutation."""
    mutation = MUTATIONS.get(name) or KEPT[name][0]

    def build_broken(around: Surroundings, addresses: Sequence[str], options: Sequence[str]) -> Sites:
        site = build(around, addresses)
        mutation(site)
        return site

    return Model("isis85", build_broken, at_rest, messages)
