"""Members of a ring around a table, without an engine: a token goes round; frames are lost, repeated, overtaken."""

from collections import deque
from collections.abc import Sequence
from random import Random

from covey.evs.messages import AGREED, CAUSAL, SAFE, Frame, RingId, Token
from covey.evs.ring import AHEAD_MAX, VISIT_MAX, WINDOW, Fresh, Ring
from covey.kernel.ids import ProcessId

RING = RingId(4, "a")
SERVICES = (CAUSAL, AGREED, SAFE)


def pids(count: int) -> list[ProcessId]:
    return [ProcessId("abcdefghij"[place], 1) for place in range(count)]


class Table:
    """Knows the truth: after every visit it compares with it what the members believe."""

    def __init__(self, count: int, seed: int = 0, loss: float = 0.0, kind: type[Ring] = Ring) -> None:
        self.random = Random(seed)
        self.loss = loss
        members = pids(count)
        self.rings = [kind(RING, members, pid, hop=2 * count - 1) for pid in members]
        self.token = Token(RING, 2 * count, 0, 0, "", (), 0, False)
        self.at = 0
        self.wait: list[deque[Fresh]] = [deque() for _ in members]
        self.under_way: list[list[bytes]] = [[] for _ in members]
        self.orders: list[list[tuple[int, int]]] = [[] for _ in members]
        """Who sent, and under which number: in the order of delivery at each member."""
        self.sent: list[list[tuple[int, int]]] = [[] for _ in members]
        self.rotation: deque[int] = deque([0] * (count - 1), maxlen=count - 1)
        """How many frames the others sent in their last visits."""
        self.lost: set[int] = set()
        """The numbers of frames that the next visit's copies are lost of; for tests that place a loss."""

    def hand_over(self, place: int, count: int, service: int | None = None) -> None:
        """Give a member something to send."""
        for _ in range(count):
            number = len(self.sent[place]) + len(self.wait[place]) + 1
            kind = self.random.choice(SERVICES) if service is None else service
            self.wait[place].append(Fresh(kind, number, 1, b"%d" % number))

    def visit(self) -> list[Frame]:
        """Let the next member hold the token; return what it sent."""
        place, ring, came = self.at, self.rings[self.at], self.token

        def fresh(limit: int) -> list[Fresh]:
            return [self.wait[place].popleft() for _ in range(min(max(limit, 0), len(self.wait[place])))]

        self.token, frames = ring.visit(came, fresh)
        new = [frame for frame in frames if frame.seq > came.seq]
        self.sent[place] += [(place, frame.number) for frame in new]
        self.check_flow(came, frames, new)
        for other, _ in enumerate(self.rings):
            if other != place:
                self.spread(other, frames)
        self.lost.clear()
        self.deliver(place)
        self.at = (place + 1) % len(self.rings)
        self.check_truth()
        return frames

    def visit_and_rest(self) -> None:
        """Let the next member hold the token, and where the token rests with it, look at it again."""
        token, ring = self.token, self.rings[self.at]
        if not self.visit() and ring.is_resting_place:
            self.token, self.at = token, ring.place
            self.visit()

    def spread(self, place: int, frames: Sequence[Frame]) -> None:
        for frame in frames:
            if frame.seq not in self.lost and self.random.random() >= self.loss:
                self.under_way[place].append(frame.body)
                if self.random.random() < self.loss:
                    self.under_way[place].append(frame.body)

    def arrive(self, share: float = 1.0) -> None:
        """Let some of what is under way come, in any order."""
        for place, ring in enumerate(self.rings):
            come = [body for body in self.under_way[place] if self.random.random() < share]
            self.under_way[place] = [body for body in self.under_way[place] if body not in come]
            self.random.shuffle(come)
            for body in come:
                frame = ring.read(body)
                assert frame is not None
                ring.take(frame)
                self.deliver(place)

    def deliver(self, place: int) -> None:
        ring = self.rings[place]
        self.orders[place] += [(frame.origin, frame.number) for frame in ring.ready()]
        ring.discard()
        ring.check()

    def rotate(self, times: int = 1) -> None:
        for _ in range(times * len(self.rings)):
            self.arrive()
            self.visit()

    # ---- what must be true ----

    def check_flow(self, came: Token, frames: Sequence[Frame], new: Sequence[Frame]) -> None:
        assert len(frames) <= VISIT_MAX
        assert not new or sum(self.rotation) + len(frames) <= WINDOW
        assert came.flow <= sum(self.rotation) + self.rings[self.at].sent + WINDOW
        self.rotation.append(len(frames))
        assert not new or self.token.seq - came.aru <= AHEAD_MAX

    def check_truth(self) -> None:
        everybody_has = min(ring.aru for ring in self.rings)
        longest = max(self.orders, key=len)
        for ring, order in zip(self.rings, self.orders, strict=True):
            assert ring.safe <= everybody_has, f"{ring.names[ring.place]} takes {ring.safe} for safe"
            assert order == longest[: len(order)], "two orders"
            assert len(ring.frames) <= AHEAD_MAX + WINDOW
            assert self.token.seq - ring.aru <= AHEAD_MAX + WINDOW
            assert set(ring.frames).isdisjoint(range(1, min(ring.safe, ring.delivered) + 1))

    @property
    def is_done(self) -> bool:
        """Whether everybody has delivered all that there was."""
        return not any(self.wait) and len({ring.delivered for ring in self.rings} | {self.token.seq}) == 1

    @property
    def is_quiet(self) -> bool:
        return all(ring.is_quiet for ring in self.rings)
