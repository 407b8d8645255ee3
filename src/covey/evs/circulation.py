"""The ring going round: the token held, passed on, at rest, asked for and missed.

A quiet token rests with the member that sent last: it makes one round every `HOLD_S`, so that all see that all are
there. Who has something to send asks for it.
"""

from typing import TYPE_CHECKING

from covey.evs.membership import State
from covey.evs.messages import CODEC, Ack, Commit, Frame, Token, Want
from covey.evs.passing import AGAIN_S, Passing
from covey.evs.ring import LATE, VISIT_MAX, Ring
from covey.kernel.effects import Send
from covey.kernel.ids import ProcessId

if TYPE_CHECKING:
    from covey.evs.engine import Evs

HOLD_S = 0.25
"""A quiet token rests so long, and then goes round once."""
NEVER = float("inf")


class Circulation:
    """What one process has to do with the token of its ring, or of the one that is being formed."""

    def __init__(self, engine: "Evs", now: float) -> None:
        self.engine = engine
        self.passing = Passing(now)
        self.rests: Token | None = None
        """The token, while it rests here, ..."""
        self.rests_until = NEVER
        self.want_at = NEVER
        """... and when to ask again whoever lets it rest."""

    @property
    def _is_expecting(self) -> bool:
        """Whether another one should have the token."""
        engine = self.engine
        return engine.membership.state is not State.GATHER and not engine.turning.is_alone and self.rests is None

    @property
    def deadline(self) -> float:
        deadline = min(self.rests_until, self.want_at)
        return min(deadline, self.passing.deadline) if self._is_expecting else deadline

    def wake(self, now: float) -> None:
        if self._is_expecting:
            if self.passing.is_lost(now):
                self.engine.membership.gather(now)
            elif send := self.passing.again(now):
                self.engine.out.append(send)
        if self.rests is not None and now >= self.rests_until:
            self._let_go(now)
        if now >= self.want_at:
            self._want(now)

    def stop(self, now: float) -> None:
        """The ring does not go round any more."""
        self.passing.sign(now)
        self.rests, self.rests_until, self.want_at = None, NEVER, NEVER

    # ---- what comes ----

    def on_token(self, now: float, sender: ProcessId, source: str, token: Token) -> None:
        ring = self.engine.turning
        if token.ring != ring.id:
            self.engine.membership.on_foreign(now, sender, token.ring)
        elif token.hop <= ring.hop:
            self.engine.acknowledge(source, ring.id, ring.hop)
        elif not ring.is_possible(token):
            self.engine.drop("token: cannot be")
        else:
            self.hold(now, token)
            if self.rests is not None:
                self.engine.acknowledge(source, ring.id, token.hop)

    def hold(self, now: float, token: Token) -> None:
        """Hold the token: send, and pass it on or let it rest."""
        self.stop(now)
        engine = self.engine
        if engine.membership.forming is not None:
            engine.hold_while_recovering(now, engine.membership.forming, token)
            return
        ring = engine.ring
        passed, frames = ring.visit(token, engine.fresh)
        if ring.is_resting_place:
            self.rests, self.rests_until = token, now + HOLD_S
        else:
            self.pass_token(now, ring, passed, frames)
        engine.deliver(now)

    def on_ack(self, now: float, ack: Ack) -> None:
        if ack.ring == self.passing.ring and ack.hop >= self.passing.hop:
            self.passing.sign(now)

    def on_want(self, now: float, want: Want) -> None:
        if self.rests is not None and want.ring == self.engine.ring.id:
            self._let_go(now)

    # ---- what goes ----

    def pass_on(self, now: float, to: ProcessId, address: str, message: Commit | Token, seq: int) -> None:
        """Pass on a token; `seq` is the highest frame that it tells of."""
        send = Send(address, CODEC.control(self.engine.me, message))
        self.engine.out.append(send)
        self.passing.pass_on(now, to, message.ring, message.hop, seq, send)

    def pass_token(self, now: float, ring: Ring, token: Token, frames: list[Frame]) -> None:
        """The accelerated ring: the last frames leave after the token."""
        early = max(0, len(frames) - LATE)
        self.engine.cast_frames(ring, frames[:early])
        self.pass_on(now, ring.next, self.engine.address_of(ring.next), token, token.seq)
        self.engine.cast_frames(ring, frames[early:])

    def _let_go(self, now: float) -> None:
        """Pass on the token that rests here, after another look at what there is to send."""
        token, ring = self.rests, self.engine.ring
        assert token is not None
        self.stop(now)
        passed, frames = ring.visit(token, self.engine.fresh)
        self.pass_token(now, ring, passed, frames)
        self.engine.deliver(now)

    def _want(self, now: float) -> None:
        self.want_at = now + AGAIN_S
        ring = self.engine.ring
        self.engine.cast(Want(ring.id), self.engine.reach(ring.members))

    def see_to_the_outbox(self, now: float) -> None:
        """Something was handed over, or may be sent again: see to it that it is."""
        engine = self.engine
        if engine.membership.state is not State.OPERATIONAL or not engine.outbox or not engine.may_send:
            return
        if engine.ring.is_alone:
            self._send_alone(now)
        elif self.rests is not None:
            self._let_go(now)
        elif engine.ring.is_quiet and self.want_at == NEVER:
            self._want(now)

    def _send_alone(self, now: float) -> None:
        """A ring of one needs no token: what is sent is received by all."""
        engine, ring = self.engine, self.engine.ring
        while engine.ring is ring and engine.membership.state is State.OPERATIONAL and (new := engine.fresh(VISIT_MAX)):
            for each in new:
                ring.add(ring.aru + 1, each)
            ring.safe = ring.aru
            engine.deliver(now)
