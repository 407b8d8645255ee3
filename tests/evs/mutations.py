"""Extended virtual synchrony broken on purpose: what the scenarios and the judge must find.

Each mutation takes a process that was just built and makes it forget one rule.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from covey.cli.models import EVS
from covey.evs import scenarios
from covey.evs.engine import Evs
from covey.evs.membership import Forming
from covey.evs.messages import Frame, Token
from covey.evs.primary import Standing, Verdict
from covey.evs.recovery import Deliveries, Recovery
from covey.evs.ring import Fresh, Ring
from covey.kernel.effects import Install, Store
from covey.kernel.engine import Surroundings
from covey.sim.model import Model

Mutation = Callable[[Evs], None]


def break_recovery(process: Evs, breaks: Callable[[Recovery], None]) -> None:
    """Break each recovery as it begins."""
    begin = process.begin_recovery

    def begin_broken(forming: Forming, standings: dict[str, Standing]) -> None:
        assert forming.recovery is not None
        breaks(forming.recovery)
        begin(forming, standings)

    process.begin_recovery = begin_broken  # type: ignore[method-assign]


def break_deliveries(process: Evs, breaks: Callable[[Recovery, frozenset[str]], Deliveries]) -> None:
    """Break step 6."""

    def broken(recovery: Recovery) -> None:
        recovery.deliveries = lambda obligations: breaks(recovery, obligations)  # type: ignore[method-assign]

    break_recovery(process, broken)


def break_rings(process: Evs, breaks: Callable[[Ring], None]) -> None:
    """Break each ring before the first token of it comes."""
    begin = process.begin_recovery

    def begin_broken(forming: Forming, standings: dict[str, Standing]) -> None:
        breaks(forming.ring)
        begin(forming, standings)

    process.begin_recovery = begin_broken  # type: ignore[method-assign]


def no_obligations(process: Evs) -> None:
    """Step 6.a: the transitional configuration is all that counts; obligations from earlier attempts do not."""

    def breaks(recovery: Recovery, obligations: frozenset[str]) -> Deliveries:
        return Recovery.deliveries(recovery, frozenset(pid.name for pid in recovery.members))

    break_deliveries(process, breaks)


def safe_after_one_rotation(process: Evs) -> None:
    """A message is delivered as safe when the token's aru has been past it once; the ring knows better."""

    def breaks(ring: Ring) -> None:
        ready = ring.ready

        def hasty() -> Iterator[Frame]:
            known, ring.safe = ring.safe, max(ring.safe, min(ring.token_aru, ring.aru))
            yield from ready()
            ring.safe = known

        ring.ready = hasty  # type: ignore[method-assign]
        ring.check = lambda: None  # type: ignore[method-assign]

    break_rings(process, breaks)


def deliver_past_a_hole(process: Evs) -> None:
    """Step 6.a: what follows the first unavailable message is not discarded."""

    def breaks(recovery: Recovery, obligations: frozenset[str]) -> Deliveries:
        return Recovery.deliveries(recovery, obligations | {*recovery.old.names})

    break_deliveries(process, breaks)


def no_rebroadcast(process: Evs) -> None:
    """Step 5.a: everybody keeps what it has to itself."""

    def breaks(recovery: Recovery) -> None:
        recovery.mine, recovery.total = [], 0

    break_recovery(process, breaks)


def skip_the_transitional_configuration(process: Evs) -> None:
    """Step 6.c: all that is left is delivered in the old configuration, and then the new one is installed."""

    def breaks(recovery: Recovery, obligations: frozenset[str]) -> Deliveries:
        left = Recovery.deliveries(recovery, obligations)
        return left._replace(regular=left.regular + left.transitional, transitional=[])

    break_deliveries(process, breaks)
    install = process._install

    def install_broken(now: float, forming: Forming) -> None:
        install(now, forming)
        process.out = [each for each in process.out if not (isinstance(each, Install) and each.kind != "regular")]

    process._install = install_broken  # type: ignore[method-assign]


def do_not_store_the_ring(process: Evs) -> None:
    """The number of a ring is used before it is in stable storage."""
    remember = process.remember

    def forget(ring_seq: int) -> None:
        remember(ring_seq)
        assert isinstance(process.out.pop(), Store)

    process.remember = forget  # type: ignore[method-assign]


def drop_requests(process: Evs) -> None:
    """What a member misses it does not ask for."""

    def breaks(ring: Ring) -> None:
        visit = ring.visit

        def mute(token: Token, fresh: Callable[[int], Sequence[Fresh]]) -> tuple[Token, list[Frame]]:
            passed, frames = visit(token, fresh)
            return replace(passed, missing=()), frames

        ring.visit = mute  # type: ignore[method-assign]

    break_rings(process, breaks)


def discard_my_own(process: Evs) -> None:
    """Step 6.a: a member's own messages are discarded, too, when they follow a hole."""

    def breaks(recovery: Recovery, obligations: frozenset[str]) -> Deliveries:
        return Recovery.deliveries(recovery, obligations - {process.me.name})

    break_deliveries(process, breaks)


def count_the_wrong_set(process: Evs) -> None:
    """After a change of the configured set, a majority of the new set alone makes a primary component."""
    verdict = process.primary.verdict

    def judged(seq: int, config: str, standings: Any) -> Any:
        told = {
            name: replace(each, last=replace(each.last, configured=each.change.configured)) if each.change else each
            for name, each in standings.items()
        }
        return verdict(seq, config, told)

    process.primary.verdict = judged  # type: ignore[method-assign]


def install_unacknowledged(process: Evs) -> None:
    """Step 5.b: a process that has all that was rebroadcast does not wait for the others to acknowledge it."""

    def breaks(recovery: Recovery, ring: Ring) -> None:
        visit = ring.visit

        def hasty(token: Token, fresh: Callable[[int], Sequence[Fresh]]) -> tuple[Token, list[Frame]]:
            passed, frames = visit(token, fresh)
            if ring.aru >= recovery.total:
                ring.safe = max(ring.safe, recovery.total)
            return passed, frames

        ring.visit = hasty  # type: ignore[method-assign]

    begin = process.begin_recovery

    def begin_broken(forming: Forming, standings: dict[str, Standing]) -> None:
        assert forming.recovery is not None
        breaks(forming.recovery, forming.ring)
        begin(forming, standings)

    process.begin_recovery = begin_broken  # type: ignore[method-assign]


def anybody_first(process: Evs) -> None:
    """A primary component is installed by whoever first knows that all have acknowledged it."""
    process._may_be_first = lambda verdict: True  # type: ignore[method-assign]


def do_not_store_the_attempt(process: Evs) -> None:
    """That somebody may install a primary component is not in stable storage when it is acknowledged."""
    acknowledge = process.primary.acknowledge

    def forget(verdict: Verdict) -> None:
        acknowledge(verdict)
        if verdict.is_primary:
            assert isinstance(process.out.pop(), Store)

    process.primary.acknowledge = forget  # type: ignore[method-assign]


def raise_the_aru(process: Evs) -> None:
    """The token's aru is raised by whoever has more, not only by the one that lowered it."""

    def breaks(ring: Ring) -> None:
        visit = ring.visit

        def generous(token: Token, fresh: Callable[[int], Sequence[Fresh]]) -> tuple[Token, list[Frame]]:
            return visit(replace(token, lowered_by="") if ring.aru > token.aru else token, fresh)

        ring.visit = generous  # type: ignore[method-assign]

    break_rings(process, breaks)


MUTATIONS: dict[str, Mutation] = {
    "no-obligations": no_obligations,
    "safe-after-one-rotation": safe_after_one_rotation,
    "deliver-past-a-hole": deliver_past_a_hole,
    "no-rebroadcast": no_rebroadcast,
    "skip-the-transitional-configuration": skip_the_transitional_configuration,
    "do-not-store-the-ring": do_not_store_the_ring,
    "drop-requests": drop_requests,
    "discard-my-own": discard_my_own,
    "count-the-wrong-set": count_the_wrong_set,
    "install-unacknowledged": install_unacknowledged,
    "anybody-first": anybody_first,
    "do-not-store-the-attempt": do_not_store_the_attempt,
    "raise-the-aru": raise_the_aru,
}


KEPT = {
    "no-obligations": ("evs/recovery-obligations", "EVS-7.1"),
    "safe-after-one-rotation": ("evs/3-self-delivery", "EVS-7.1"),
    "deliver-past-a-hole": ("evs/5-causality", "EVS-5"),
    "no-rebroadcast": ("evs/4-atomicity", "EVS-4"),
    "skip-the-transitional-configuration": ("evs/figure-6", "EVS-7.1"),
    "do-not-store-the-ring": ("evs/2.2-one-configuration-at-a-time", "EVS-2.6"),
    "drop-requests": ("evs/ring-lost-frame", "rest"),
    "discard-my-own": ("evs/figure-6", "EVS-3"),
    "count-the-wrong-set": ("evs/primary-majority-of-both-sets", "PC-1"),
}
"""A scenario that finds a mutation, and the property that is violated there; the others random scenarios find soon."""

SELDOM = ("no-obligations", "discard-my-own", "count-the-wrong-set", "install-unacknowledged")
"""What random scenarios find too seldom for a test."""


def mutant(name: str) -> Model:
    """Extended virtual synchrony with that mutation."""
    mutation = MUTATIONS[name]

    def build_broken(around: Surroundings, addresses: Sequence[str], options: Sequence[str]) -> Evs:
        process = scenarios.build(around, addresses, options)
        mutation(process)
        return process

    return EVS._replace(build=build_broken)
