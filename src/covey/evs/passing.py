"""The token on its way: passed on, sent again until there is a sign of it, and missed when it stays away.

Source: Totem. What has passed the token on sends it again until it sees the token, or a frame that a later holder has
sent, or is told by the next one that it has it. A token that nobody has seen for `LOSS_S` is lost.
"""

from covey.evs.messages import RingId
from covey.kernel.effects import Send
from covey.kernel.ids import ProcessId

AGAIN_S = 0.03
"""After that time it is sent again, and then after twice as much each time, ..."""
AGAIN_MAX_S = 0.25
"""... up to that."""
LOSS_S = 0.8
SUSPECT_S = 0.3
"""Whom I passed the token to, and who has given no sign of it for so long, is the one to suspect when it is lost."""


class Passing:
    """What a member knows of the token while another has it."""

    def __init__(self, now: float) -> None:
        self.seen_at = now
        """When there was a sign of the token, from whomever."""
        self.to: ProcessId | None = None
        """To whom I passed it, until there is a sign."""
        self.ring: RingId | None = None
        self.hop = self.seq = 0
        self._again: Send | None = None
        self._passed_at = self._again_at = now
        self._wait = AGAIN_S

    def pass_on(self, now: float, to: ProcessId, ring: RingId, hop: int, seq: int, send: Send) -> None:
        """The token has gone to that process."""
        self.seen_at = self._passed_at = now
        self.to, self.ring, self.hop, self.seq = to, ring, hop, seq
        self._again, self._wait = send, AGAIN_S
        self._again_at = now + AGAIN_S

    def sign(self, now: float) -> None:
        """Somebody has the token, or had it after me."""
        self.seen_at = now
        self.to = self._again = None

    def excuse(self, now: float) -> None:
        """I was not there to see it: nobody can be blamed for the time until now."""
        self.seen_at = self._passed_at = now

    def is_lost(self, now: float) -> bool:
        return now >= self.seen_at + LOSS_S

    def suspect(self, now: float) -> ProcessId | None:
        """The one who has had the token from me, and no sign of it."""
        return self.to if now >= self._passed_at + SUSPECT_S else None

    def again(self, now: float) -> Send | None:
        """The token, where it is time to send it again."""
        if self._again is None or now < self._again_at:
            return None
        self._wait = min(2 * self._wait, AGAIN_MAX_S)
        self._again_at = now + self._wait
        return self._again

    @property
    def deadline(self) -> float:
        lost_at = self.seen_at + LOSS_S
        return lost_at if self._again is None else min(lost_at, self._again_at)
