"""View management in the fewest lines: isis-1985, section 4.2, with the deviations of `covey.isis.sites`.

No links, no time, no batching: lists, sets and comprehensions. A round is (term, manager), a view (number,
members by age), an extension (round, views), a site (name, incarnation). What is sent is left in `sent`.
"""

from collections.abc import Callable, Collection
from typing import Any

Pid = tuple[str, int]
NO_ROUND: Any = (0, ("", 0))
NOTHING: Any = (NO_ROUND, ())


def weight(extension: Any) -> Any:
    return extension[0], max((number for number, _ in extension[1]), default=-1)


class Twin:
    """One site."""

    def __init__(self, me: Pid, configured: Collection[str], disk: dict[str, Any]) -> None:
        self.me, self.configured, self.disk = me, set(configured), disk
        disk.setdefault("promised", NO_ROUND), disk.setdefault("accepted", NOTHING), disk.setdefault("committed", None)
        self.view: Any = None
        self.since = NO_ROUND
        self.reign: dict[str, Any] | None = None
        self.installed: list[Any] = []
        self.sent: list[tuple[Pid, Any]] = []
        self.dead: set[Pid] = set()
        self.seen: set[Pid] = set()
        self.is_halted = False

    # ---- what it remembers ----

    number = property(lambda self: self.view[0] if self.view else -1)
    standing = property(lambda self: (self.number, self.since))

    def is_quorum(self, pids: Collection[Pid]) -> bool:
        return 2 * len(self.configured & {name for name, _ in pids}) > len(self.configured)

    def promise(self, round_: Any) -> None:
        self.since = round_ if self.since == NO_ROUND else self.since
        self.disk["promised"] = round_

    def install(self, upto: int) -> None:
        committed = [view for view in self.disk["accepted"][1] if view[0] <= upto]
        before = {pid for view in (*committed, self.view or (0, ())) for pid in view[1]}
        self.disk["committed"] = max([committed[-1], *filter(None, [self.disk["committed"]])], key=lambda view: view[0])
        new = [view for view in committed if view[0] > self.number]
        while any(self.me not in members for _, members in new):
            new = new[1:]
        self.installed += new
        self.view = new[-1] if new else self.view
        dropped = before - {*self.disk["committed"][1]}
        self.is_halted |= self.me in dropped
        self.dead |= dropped - {self.me}

    # ---- steps 1 and 3, rules 4 and 5: the manager ----

    def next_members(self, last: Any, alive: dict[Pid, int]) -> tuple[Pid, ...]:
        old = last[1] if last else ()
        return (
            *(pid for pid in old if pid in alive),
            *sorted(pid for pid in alive if pid not in old and alive[pid] < 0),
        )

    def is_wanted(self, alive: dict[Pid, int]) -> bool:
        last = (self.disk["accepted"][1] or (None,))[-1]
        return last is None or last != self.view or self.next_members(last, alive) != last[1]

    def is_manager(self, alive: dict[Pid, int]) -> bool:
        operational = {pid for pid in alive if alive[pid] >= 0}
        if self.view:
            return self.me == next(pid for pid in self.view[1] if pid in operational)
        return not operational and self.me == min(alive, key=lambda pid: (pid[0] not in self.configured, pid))

    def review(self, alive: dict[Pid, int]) -> None:
        alive = {**alive, self.me: self.number}
        is_growing, self.seen = not {*alive} <= self.seen, {*alive}
        if is_growing:
            return
        if not (self.is_manager(alive) and self.is_quorum(alive)):
            self.reign = None if self.reign and self.reign["opening"] else self.reign
        elif self.reign:
            self.ask(alive)
            self.advance(alive)
            self.update(alive)
        elif self.is_wanted(alive):
            round_ = (self.disk["promised"][0] + 1, self.me)
            self.promise(round_)
            mine = (self.disk["accepted"], self.standing)
            self.reign = {"round": round_, "opening": True, "asked": {self.me}, "answers": {self.me: mine}}
            self.reign.update(base=NO_ROUND, proposed=set(), acks={})
            self.ask(alive)

    def ask(self, alive: dict[Pid, int]) -> None:
        assert self.reign
        for pid in sorted(alive.keys() - self.reign["asked"]):
            self.sent.append((pid, ("propose", self.disk["accepted"], self.reign["round"], True)))
        self.reign["asked"] |= alive.keys()

    def eligible(self, alive: dict[Pid, int], last: Any) -> dict[Pid, int]:
        assert self.reign
        answers, members = self.reign["answers"], last[1] if last else ()
        new = {pid for pid in answers if answers[pid][1][1] > self.reign["base"]} - self.reign["proposed"]
        killed = {pid for pid in alive if pid in answers} - new - {*members}
        self.is_halted |= self.me in killed
        self.dead |= killed - {self.me}
        stand = {pid: answers[pid][1][0] for pid in answers}
        return {
            pid: max(alive[pid], stand.get(pid, -1)) if pid in members else stand[pid]
            for pid in alive
            if pid in members or pid in new
        }

    def with_next(self, views: Any, alive: dict[Pid, int]) -> Any:
        last = views[-1] if views else None
        members = self.next_members(last, alive)
        if (last is None or members != last[1]) and self.is_quorum(members):
            views = (*views, (last[0] + 1 if last else 0, members))

        def needs(pid: Pid) -> int:
            joined = min(number for number, members in views if pid in members)
            return min(alive[pid] + 1, views[-1][0]) if alive.get(pid, -1) >= 0 else joined

        return tuple(view for view in views if view[0] >= min(map(needs, views[-1][1])))

    def propose(self, views: Any) -> None:
        assert self.reign
        if views and (self.reign["round"], views) != self.disk["accepted"]:
            self.disk["accepted"] = (self.reign["round"], views)
            self.reign["proposed"] |= {*views[-1][1]}
            self.reign["acks"][self.me] = views[-1][0]
            self.tell(views[-1], ("propose", self.disk["accepted"], self.reign["round"], False))

    def tell(self, view: Any, message: Any) -> None:
        self.sent += [(pid, message) for pid in view[1] if pid != self.me]

    def advance(self, alive: dict[Pid, int]) -> None:
        assert self.reign
        last = (self.disk["accepted"][1] or (None,))[-1]
        if self.reign["opening"]:
            if self.reign["answers"].keys() >= alive.keys() and self.is_quorum(self.reign["answers"]):
                best = max((missing for missing, _ in self.reign["answers"].values()), key=weight)
                self.reign["base"] = best[0]
                eligible = self.eligible(alive, best[1][-1] if best[1] else None)
                if self.me in eligible:
                    self.reign["opening"] = False
                    self.propose(self.with_next(best[1], eligible))
        elif last and last != self.view and all(self.reign["acks"].get(pid, -1) >= last[0] for pid in last[1]):
            self.install(last[0])
            self.tell(last, ("commit", self.reign["round"], last[0]))

    def update(self, alive: dict[Pid, int]) -> None:
        assert self.reign
        last = (self.disk["accepted"][1] or (None,))[-1]
        if not self.reign["opening"] and not (last and last != self.view and {*last[1]} <= alive.keys()):
            eligible = self.eligible(alive, last)
            if self.is_wanted(eligible):
                self.propose(self.with_next(self.disk["accepted"][1], eligible))

    # ---- step 2, and the answers ----

    def receive(self, sender: Pid, message: Any, alive: dict[Pid, int]) -> None:
        kinds: dict[str, Callable[..., None]] = {"propose": self.on_propose, "commit": self.on_commit}
        if self.reign:
            kinds |= {"ack": self.on_ack, "nack": self.on_nack}
        if message[0] in kinds:
            kinds[message[0]](sender, *message[1:])
        if self.reign:
            self.advance({**alive, self.me: self.number})

    def on_propose(self, sender: Pid, extension: Any, round_: Any, opening: bool) -> None:
        if round_ < self.disk["promised"]:
            answer = ("nack", round_, self.disk["promised"], self.disk["accepted"], self.standing)
        else:
            self.reign = None if round_ > self.disk["promised"] else self.reign
            self.promise(round_)
            if opening and weight(self.disk["accepted"]) > weight(extension):
                answer = ("nack", round_, round_, self.disk["accepted"], self.standing)
            else:
                self.disk["accepted"] = self.disk["accepted"] if opening else extension
                answer = ("ack", round_, weight(extension)[1], opening, self.standing)
        self.sent.append((sender, answer))

    def on_ack(self, sender: Pid, round_: Any, upto: int, opening: bool, standing: Any) -> None:
        assert self.reign
        if round_ == self.reign["round"] and opening:
            self.reign["answers"][sender] = (NOTHING, standing)
        elif round_ == self.reign["round"]:
            self.reign["acks"][sender] = upto

    def on_nack(self, sender: Pid, round_: Any, promised: Any, missing: Any, standing: Any) -> None:
        assert self.reign
        if round_ == self.reign["round"] and promised > round_:
            self.reign = None
            self.promise(max(self.disk["promised"], promised))
        elif round_ == self.reign["round"]:
            self.reign["answers"][sender] = (missing, standing)

    def on_commit(self, sender: Pid, round_: Any, upto: int) -> None:
        if self.disk["accepted"][0] == round_ and upto <= weight(self.disk["accepted"])[1]:
            self.install(upto)
