"""The recovery algorithm does what the paper says, and the paper's promises hold of what it does.

Old configurations with random losses form new ones, on rings of their own; a recovery may be interrupted after any
visit of the token, and the next one begins with what it has left: frames and obligations. Whoever knows that all have
acknowledged installs the new configuration, as the engine does.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from covey.evs.messages import AGREED, RECOVERED, SAFE, Info, Range, RingId, Token, pack_frame, tell
from covey.evs.primary import Standing
from covey.evs.recovery import Deliveries, Recovery, is_possible
from covey.evs.ring import UNSAFE_MAX, Fresh, Ring, to_ranges
from covey.kernel.ids import ProcessId
from tests.evs.twin import Message, Outcome, Told, recover

NOTHING, _ = tell(Standing(), ())
"""Of primary components, nothing is told."""


class Old(NamedTuple):
    """An old configuration, as it is drawn."""

    members: Sequence[str]
    messages: Sequence[tuple[int, bool]]
    """Who sent each, and whether safe delivery was requested."""
    lost: Sequence[tuple[int, int]]
    """Who has not received which."""
    known: Sequence[int]
    """What each member knows to be safe, at most."""


class Attempt(NamedTuple):
    """A new configuration that is tried."""

    members: Sequence[str]
    visits: int
    """After so many it is interrupted."""
    seed: int
    """Of what is lost on its ring."""


class Installed(NamedTuple):
    """What one process did in step 6."""

    name: str
    attempt: int
    old: str
    before: list[int]
    regular: list[int]
    transitional: list[int]
    members: Sequence[str]


class Process:
    """One process, with what it has of its old configuration."""

    def __init__(self, name: str, old: Old, ring: RingId, order: dict[int, Message]) -> None:
        self.name = name
        self.order = order
        members = sorted(ProcessId(member, 1) for member in old.members)
        place = old.members.index(name)
        self.ring = Ring(ring, members, ProcessId(name, 1))
        mine = {number for number, message in order.items() if message.sender == name}
        lost = {number for at, number in old.lost if old.members[at % len(old.members)] == name} - mine
        for number in sorted(order.keys() - lost, reverse=True):
            origin = self.ring.names.index(order[number].sender)
            service = SAFE if order[number].is_safe else AGREED
            self.ring.take(pack_frame(self.ring.bytes, number, origin, service, number, b"%d" % number))
        self.known = old.known[place % len(old.known)] if old.known else 0
        self.obligations: frozenset[str] = frozenset()
        self.recovery: Recovery | None = None

    def live(self, everybody_has: int) -> None:
        """Deliver what could be delivered before the end of the old configuration."""
        self.ring.safe = min(self.known, everybody_has)
        self.before = [frame.seq for frame in self.ring.ready()]
        self.ring.discard()
        self.ring.check()

    @property
    def info(self) -> Info:
        ring = self.ring
        return Info(ring.id, ring.aru, to_ranges(ring.beyond), ring.safe, tuple(sorted(self.obligations)), NOTHING)

    @property
    def told(self) -> Told:
        received = {*range(1, self.ring.aru + 1), *self.ring.beyond}
        return Told(self.ring.config, received, self.ring.delivered, self.ring.safe, self.obligations)

    def again(self, limit: int) -> list[Fresh]:
        """Step 5.a, as the engine does it."""
        assert self.recovery is not None
        seqs, self.recovery.mine[:limit] = self.recovery.mine[:limit], []
        return [Fresh(RECOVERED, 0, 0, self.ring.frames[seq].body) for seq in seqs]

    def take(self, body: bytes) -> None:
        if body.startswith(self.ring.bytes):
            frame = self.ring.read(body)
            assert frame is not None
            self.ring.take(frame)


class Play:
    """Some old configurations, and what becomes of them."""

    def __init__(self, olds: Sequence[Old]) -> None:
        self.processes: dict[str, Process] = {}
        self.orders: dict[str, dict[int, Message]] = {}
        self.installed: list[Installed] = []
        self.reached: Counter[str] = Counter()
        """What there was to decide."""
        for number, old in enumerate(olds):
            ring = RingId(4 + 2 * number, min(old.members))
            order = {
                at: Message(old.members[sender % len(old.members)], is_safe)
                for at, (sender, is_safe) in enumerate(old.messages, 1)
            }
            self.orders[str(ring)] = order
            group = [Process(name, old, ring, order) for name in old.members]
            for process in group:
                process.live(min(each.ring.aru for each in group))
                self.processes[process.name] = process

    def attempt(self, number: int, attempt: Attempt) -> None:
        """Form a new ring, and let its token go round for so many visits."""
        names = sorted(name for name in attempt.members if name in self.processes)
        if not names:
            return
        group = {name: self.processes[name] for name in names}
        members = [ProcessId(name, 1) for name in names]
        infos = {ProcessId(name, 1): group[name].info for name in names}
        assert is_possible(infos)
        told = {name: group[name].told for name in names}
        expected = {name: recover(self.orders, told, name) for name in names}
        rings = {}
        for name, process in group.items():
            process.recovery = Recovery(process.ring, infos)
            self.compare_plan(process.recovery, name, expected[name])
            rings[name] = Ring(RingId(100 + 2 * number, names[0]), members, ProcessId(name, 1))
        chance = Random(attempt.seed)
        token = Token(next(iter(rings.values())).id, 1, 0, 0, "", (), 0, False)
        acknowledged: set[str] = set()
        for visit in range(attempt.visits):
            name = names[visit % len(names)]
            process, ring = group[name], rings[name]
            if process.recovery is None:  # it has installed the new configuration
                token, frames = ring.visit(token, lambda limit: [])
            else:
                token, frames = ring.visit(token, process.again)
            for each, other in rings.items():
                for frame in frames:
                    if each == name or chance.random() < 0.7:
                        other.take(frame)
                        group[each].take(frame.body[frame.at :])
            if process.recovery is None:
                continue
            if ring.aru >= process.recovery.total and name not in acknowledged:
                acknowledged.add(name)
                process.obligations = process.recovery.obligations()
                assert process.obligations == expected[name].obligations, "5.c"
            if len(names) == 1:
                ring.safe = ring.aru
            if ring.safe >= process.recovery.total:
                assert acknowledged == set(names), "5.b"
                self.install(number, process, expected[name])
        self.reached["interrupted"] += bool(acknowledged & self.processes.keys())

    def compare_plan(self, recovery: Recovery, name: str, expected: Outcome) -> None:
        assert [pid.name for pid in recovery.members] == expected.members, "4.a"
        old = recovery.old.config
        assert recovery.mine == [number for config, number in expected.again[name] if config == old], "4.b"
        assert {config for config, _ in expected.again[name]} <= {old}
        assert recovery.total == sum(map(len, expected.again.values()))

    def install(self, number: int, process: Process, expected: Outcome) -> None:
        """Step 6."""
        assert process.recovery is not None
        left: Deliveries = process.recovery.deliveries(process.obligations)
        regular, transitional = ([frame.seq for frame in part] for part in (left.regular, left.transitional))
        assert regular == expected.regular, "6.b"
        assert transitional == expected.transitional, "6.d"
        obliged = [each for each in transitional if expected.holes and each > expected.holes[0]]
        assert left.counters == {
            "rebroadcast": sum(map(len, expected.again.values())),
            "holes": len(expected.holes),
            "discarded": len(expected.discarded),
            "obliged": sum(process.order[each].sender not in expected.members for each in obliged),
        }
        self.installed.append(
            Installed(
                process.name,
                number,
                process.ring.config,
                process.before,
                regular,
                transitional,
                expected.members,
            )
        )
        self.reached.update(left.counters)
        process.recovery = None
        del self.processes[process.name]


# --- what is drawn

NAMES = "abcdefg"
masks = st.integers(0, 2**12 - 1)


@st.composite
def olds(draw: st.DrawFn) -> list[Old]:
    names = draw(st.permutations(NAMES))
    found = []
    while names:
        size = draw(st.sampled_from((5, 7, 3, 2, 1)))
        members, names = names[:size], names[size:]
        messages = draw(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=5, max_size=12))
        lost = []
        for place in range(size):
            misses = draw(masks) | draw(masks)
            lost += [(place, number) for number in range(1, 13) if misses >> number & 1]
        known = draw(st.lists(st.integers(0, 12), max_size=4))
        found.append(Old(tuple(members), messages, lost, known))
    return found


@st.composite
def attempts(draw: st.DrawFn) -> list[Attempt]:
    """The last one is not interrupted; who is in none of the later ones has failed."""
    found = []
    names = set(NAMES)
    for _ in range(draw(st.integers(0, 3))):
        names &= draw(st.sets(st.sampled_from(NAMES), min_size=2))
        if names:
            visits = draw(st.sampled_from((3, 5, 8, 10, 12, 15, 20, 100)))
            found.append(Attempt("".join(sorted(names)), visits, draw(st.integers(0, 1000))))
            names.remove(draw(st.sampled_from(sorted(names))))
    return [*found, Attempt("".join(sorted(names or NAMES)), LAST, 0)]


LAST = 400
"""Visits: enough for an attempt that is not interrupted."""


def played(olds: Sequence[Old], attempts: Sequence[Attempt]) -> Play:
    play = Play(olds)
    for number, attempt in enumerate(attempts):
        play.attempt(number, attempt)
    assert play.processes.keys().isdisjoint(attempts[-1].members), "all that are left have installed something"
    return play


def test_it_does_what_the_paper_says_and_keeps_what_it_promises() -> None:
    reached: Counter[str] = Counter()

    @given(olds(), attempts())
    @settings(max_examples=250)
    def check(olds: Sequence[Old], attempts: Sequence[Attempt]) -> None:
        play = played(olds, attempts)
        for promise in (own_messages, all_the_same, nothing_between, safe_means_all):
            promise(play)
        reached.update(play.reached)

    check()
    assert all(reached[case] for case in ("rebroadcast", "holes", "discarded", "obliged", "interrupted"))


def own_messages(play: Play) -> None:
    """Specification 3: a process that goes on delivers its own messages."""
    for each in play.installed:
        own = {number for number, message in play.orders[each.old].items() if message.sender == each.name}
        assert own <= {*each.before, *each.regular, *each.transitional}


def all_the_same(play: Play) -> None:
    """Specification 4: who goes on together has delivered the same in both configurations."""
    for each in play.installed:
        for other in play.installed:
            if (each.old, each.attempt) == (other.old, other.attempt):
                assert each.before + each.regular == other.before + other.regular
                assert (each.transitional, each.members) == (other.transitional, other.members)


def nothing_between(play: Play) -> None:
    """Up to the first unavailable message all is delivered in order; later ones follow in order."""
    for each in play.installed:
        upto = each.before + each.regular
        assert upto == [*range(1, len(upto) + 1)]
        assert each.transitional == sorted(each.transitional)
        assert min(each.transitional, default=len(upto) + 1) > len(upto)


def safe_means_all(play: Play) -> None:
    """Specification 7.1: what one has delivered as safe, all of that configuration deliver, in whichever attempt."""

    def delivered(each: Installed) -> set[int]:
        return {*each.before, *each.regular, *each.transitional}

    for each in play.installed:
        order = play.orders[each.old]
        for other in play.installed:
            if other.old != each.old:
                continue
            in_regular = {number for number in each.before + each.regular if order[number].is_safe}
            assert in_regular <= delivered(other)
            if other.name in each.members:
                assert {number for number in each.transitional if order[number].is_safe} <= delivered(other)


# --- the cases of the paper, one by one


EVERYBODY = Attempt(NAMES, LAST, 0)


def done(olds: Sequence[Old], *attempts: Attempt) -> dict[str, Installed]:
    return {each.name: each for each in played(olds, attempts or (EVERYBODY,)).installed}


def test_after_whichever_visit_it_is_interrupted_what_one_has_delivered_as_safe_the_others_deliver() -> None:
    """What obligations are for: message 2, of c, lies behind one that nobody has, and c fails when b has told of it."""
    old = Old("abcd", [(3, False), (2, True)], [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (3, 2)], [])
    seen = set()
    for visits in range(30):
        play = played([old], [Attempt("abc", visits, 0), Attempt("b", LAST, 0)])
        safe_means_all(play)
        seen.add(tuple((each.name, each.attempt, *each.transitional) for each in play.installed))
    assert (("b", 1),) in seen, "b had not acknowledged it"
    assert (("b", 1, 2),) in seen, "it had"
    assert (("a", 0, 2), ("b", 1, 2)) in seen, "and a has relied upon that"


def test_what_some_member_knows_to_be_safe_all_deliver_in_the_regular_configuration() -> None:
    """Step 6.b: c knows that all have message 1, so for a, too, it belongs to the old configuration."""
    old = Old("abc", [(0, True), (1, True)], [], [0, 0, 1])
    installed = done([old])
    assert {name: (each.before, each.regular, each.transitional) for name, each in installed.items()} == {
        "a": ([], [1], [2]),
        "b": ([], [1], [2]),
        "c": ([1], [], [2]),
    }


def test_those_of_other_configurations_decide_nothing() -> None:
    olds = [Old("ad", [(0, False)] * 3, [(1, 2)], []), Old("bc", [(0, True)] * 2, [], [])]
    together, apart = done(olds), done(olds, Attempt("ad", LAST, 0), Attempt("bc", LAST, 0))
    for name in "abcd":
        assert together[name]._replace(attempt=0) == apart[name]._replace(attempt=0)


def info(aru: int, *have: tuple[int, int], name: str = "a") -> Info:
    return Info(RingId(4, name), aru, tuple(Range(*each) for each in have), 0, (), NOTHING)


def test_processes_that_cannot_have_been_on_one_ring_are_not_believed() -> None:
    """Otherwise what one of them says would make the others count to as far as it likes."""
    a, b = ProcessId("a", 1), ProcessId("b", 1)
    assert is_possible({a: info(0), b: info(UNSAFE_MAX)})
    assert not is_possible({a: info(0), b: info(UNSAFE_MAX + 1)})
    assert not is_possible({a: info(0), b: info(0, (2, 3), (5, UNSAFE_MAX + 1))})
    assert is_possible({a: info(0), b: info(UNSAFE_MAX + 1, name="b")})
    assert is_possible({a: info(2**46)})
