"""The reign of one view manager: steps 1 and 3 of isis-1985, section 4.2, and its rules 4 and 5.

`covey.isis.sites` has the theory, and step 2, which every site takes part in. A reign has two phases:

    opening     rules 4 and 5: ask everybody what my knowledge is missing; when all that are alive, and a
                majority of the configured sites, have answered, the heaviest answer is adopted
    proposing   steps 1 and 3, over and over: propose an extension to the sites of its last view, commit it
                when all have acknowledged, and propose a longer one when who is alive has changed

It ends when the site takes part in a later round, hears of one, or, while it is opening, is no longer the
manager of a majority.
"""

from typing import TYPE_CHECKING, NamedTuple

from covey.isis.messages import NO_ROUND, NOTHING, Ack, Commit, Extension, Nack, Propose, Round, Standing, View
from covey.isis.sequence import members_after, weight, with_next
from covey.kernel.ids import ProcessId

if TYPE_CHECKING:
    from covey.isis.sites import Sites

Alive = dict[ProcessId, int]
"""The sites that are not silent, this one included, and the view that each installed last (-1 for none)."""


class Answer(NamedTuple):
    """What a site said when it promised to take part in a round: its state since, but for that round's doing."""

    missing: Extension
    """What it had accepted, where the manager may have been missing that."""
    standing: Standing


class Reign:
    """What a view manager knows of its own round, and what it does about it."""

    def __init__(self, site: "Sites") -> None:
        self.site = site
        self.memory = site.memory
        self.round = Round(site.memory.promised.term + 1, site.me)
        self.opening = True
        self.asked = {site.me}
        self.answers: dict[ProcessId, Answer] = {}
        self.base = NO_ROUND
        """The round of the extension that was adopted: nothing committed before this reign is of a later one."""
        self.proposed: set[ProcessId] = set()
        """Who was in a view that this manager proposed."""
        self.acks: dict[ProcessId, int] = {}
        """The number of the last view that each site has acknowledged."""

    # ---- rules 4 and 5: a new manager ----

    def open(self, alive: Alive) -> None:
        """Begin: ask everybody what my knowledge is missing.

        Rule 4: an extension that I accepted may have been committed by the manager before me: it stays.
        Rule 5: one that was committed may not have reached everybody: it is sent again.
        """
        self.memory.promise(self.round)
        self.answers[self.site.me] = Answer(self.memory.accepted, self.memory.standing)
        self.ask(alive)

    def ask(self, alive: Alive) -> None:
        """Send step 1 of the opening to whom it has not been sent yet."""
        for pid in sorted(alive.keys() - self.asked):
            self.asked.add(pid)
            self.site.say(pid, Propose(self.memory.accepted, self.round, opening=True))

    def adopt(self, alive: Alive) -> None:
        """End the opening: what may have been committed stays, and my own view comes after it."""
        best = max((answer.missing for answer in self.answers.values()), key=weight)
        self.base = best.round
        eligible = self.eligible(alive, best.views[-1] if best.views else None)
        if self.site.me in eligible:
            self.opening = False
            self.propose(with_next(best.views, eligible, self.site.quorum))

    def eligible(self, alive: Alive, last: View | None) -> Alive:
        """Who of the living can be in a view after `last`.

        Nobody may come back to the sequence who has left it: a site that is not in the last view, and may have
        been in an earlier one, is dead. It has not been in one if its first round is later than all that was
        committed before this reign, and it was not proposed in this reign. (Deviation 5.)
        """
        members = () if last is None else last.members
        eligible = {}
        for pid, view in alive.items():
            answer = self.answers.get(pid)
            if pid in members:
                eligible[pid] = view if answer is None else max(view, answer.standing.view)
            elif answer is not None and answer.standing.since > self.base and pid not in self.proposed:
                eligible[pid] = answer.standing.view
            elif answer is not None:
                self.site.kill(pid)
        return eligible

    # ---- steps 1 and 3 ----

    def propose(self, views: tuple[View, ...]) -> None:
        """Step 1."""
        if not views or (proposed := Extension(self.round, views)) == self.memory.accepted:
            return
        self.memory.accept(proposed)
        self.proposed.update(views[-1].members)
        self.acks[self.site.me] = views[-1].number
        for pid in views[-1].members:
            if pid != self.site.me:
                self.site.say(pid, Propose(proposed, self.round, opening=False))

    def advance(self, alive: Alive) -> None:
        """Step 3: when all have answered, go on."""
        last = self.memory.last
        if self.opening:
            if self.answers.keys() >= alive.keys() and self.site.quorum.holds(self.answers):
                self.adopt(alive)
        elif last is not None and last != self.memory.view and self.all_acknowledged(last):
            self.commit(last)

    def all_acknowledged(self, last: View) -> bool:
        return all(self.acks.get(pid, -1) >= last.number for pid in last.members)

    def commit(self, last: View) -> None:
        """Step 3a."""
        self.site.install(last.number)
        for pid in last.members:
            if pid != self.site.me:
                self.site.say(pid, Commit(self.round, last.number))

    def update(self, alive: Alive) -> None:
        """Step 3b; while nobody that is waited for has failed, newcomers wait for the commit."""
        last = self.memory.last
        if last is not None and last != self.memory.view and all(pid in alive for pid in last.members):
            return
        eligible = self.eligible(alive, last)
        if is_change_wanted(last, self.memory.view, eligible):
            self.propose(with_next(self.memory.accepted.views, eligible, self.site.quorum))

    def review(self, alive: Alive) -> None:
        """Ask who has come since, and see whether the proposal must change."""
        self.forget_dead()
        self.ask(alive)
        self.advance(alive)
        if not self.opening:
            self.update(alive)

    def forget_dead(self) -> None:
        """Forget who is dead: a reign may last for years, and see any number of incarnations."""
        if not self.opening:
            dead = {pid for pid in self.asked | self.proposed | self.acks.keys() if self.site.links.is_dead(pid)}
            self.asked -= dead
            self.proposed -= dead
            for pid in dead:
                self.answers.pop(pid, None)
                self.acks.pop(pid, None)

    # ---- the answers to step 1 ----

    def on_ack(self, sender: ProcessId, ack: Ack) -> None:
        """Count the answer to step 2a."""
        if ack.opening:
            self.answers[sender] = Answer(NOTHING, ack.standing)
        elif self.memory.last is None or ack.upto > self.memory.last.number:
            self.site.drop("ack of what was not proposed")
        else:
            self.acks[sender] = ack.upto

    def on_nack(self, sender: ProcessId, nack: Nack) -> None:
        """Take in the events that step 2b found missing."""
        self.answers[sender] = Answer(nack.missing, nack.standing)


def is_change_wanted(last: View | None, installed: View | None, alive: Alive) -> bool:
    """Whether the sequence needs an extension: what is last is not installed, or not who is alive."""
    return last is None or last != installed or members_after(last, alive) != last.members
