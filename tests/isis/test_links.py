"""The inter-site layer, isis-1985 section 4.1: who is heard, who is dead, and what becomes of each packet."""

from random import Random

import pytest

from covey.isis.links import (
    APPLICATION,
    FORGET_S,
    GRAVES_MAX,
    PEERS_MAX,
    VIEWS,
    LinkOptions,
    Links,
    Peer,
    Received,
    Ticket,
)
from covey.isis.messages import CODEC, Hello, Receipt, YouAreDead
from covey.kernel.effects import Effect, Halt, Send
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.ids import ProcessId
from covey.kernel.wire import Packet
from covey.sim.disk import Disk

HELLO_S, MISSES = 0.25, 5
OPTIONS = LinkOptions(HELLO_S, MISSES)


class End(Engine):
    """One end: an engine that is nothing but its links."""

    def __init__(self, name: str, incarnation: int = 1, others: str = "ab") -> None:
        me = ProcessId(name, incarnation)
        super().__init__(Surroundings(me, f"at-{name}", Disk(), Random(0)))
        self.members: set[ProcessId] = set()
        addresses = [f"at-{other}" for other in others if other != name]
        self.links = Links(self, addresses, OPTIONS, self.members.__contains__)
        self.got: list[Received] = []

    def start(self, now: float) -> None: ...

    def receive(self, now: float, source: str, packet: bytes) -> None:
        self.got += self.links.receive(now, source, packet)
        self.links.flush(now)

    def wake(self, now: float) -> None:
        self.links.wake(now)
        self.links.flush(now)

    def bodies(self, port: int = VIEWS) -> list[bytes]:
        return [message for run in self.got if run.port == port for message in run.messages]


def sent(end: End) -> list[tuple[str, object]]:
    """What an end wants sent, understood; segments as None."""
    packets = [(effect.to, CODEC.decode(effect.packet)) for effect in end.out if isinstance(effect, Send)]
    assert all(isinstance(packet, Packet) for _, packet in packets)
    return [(to, None if isinstance(packet.body, bytes) else packet.body) for to, packet in packets]


def exchange(now: float, *ends: End) -> list[Effect]:
    """Carry packets to and fro until there are none; return what else was wanted."""
    rest: list[Effect] = []
    by_address = {f"at-{end.me.name}": end for end in ends}
    while any(end.out for end in ends):
        for end in ends:
            for effect in end.take():
                if not isinstance(effect, Send):
                    rest.append(effect)
                elif effect.to in by_address:
                    by_address[effect.to].receive(now, f"at-{end.me.name}", effect.packet)
    return rest


def acquainted(*ends: End, now: float = 0.0) -> None:
    for end in ends:
        end.wake(now)
    exchange(now, *ends)


def hello(sender: ProcessId, *, stamp: float = 1.0, to: ProcessId | None = None, echo: float = -1.0) -> bytes:
    return CODEC.control(sender, Hello(stamp, echo, 0.0, to, -1))


# ---- hellos ----


def test_hellos_make_sites_known_to_each_other_and_measure_the_round_trip() -> None:
    a, b = End("a"), End("b")
    acquainted(a, b)
    assert [peer.pid for peer in a.links.alive(0.0)] == [b.me]
    assert [peer.pid for peer in b.links.alive(0.0)] == [a.me]
    assert a.links.peers["b"].trips.mean == 0.0


def test_a_site_is_silent_when_its_hellos_stay_away_long_enough() -> None:
    a, b = End("a"), End("b")
    acquainted(a, b)
    timeout = a.links.peers["b"].trips.timeout
    last = MISSES * HELLO_S + timeout
    assert a.links.alive(last - 0.001)
    assert not a.links.alive(last)


def test_a_site_that_hears_but_is_not_heard_is_silent_to_both() -> None:
    """Deviation 1: a hello counts only as an echo, so a cut in one direction is noticed at both ends."""
    a, b = End("a"), End("b")
    acquainted(a, b)
    for step in range(1, 40):
        now = step * HELLO_S
        a.wake(now), b.wake(now)
        a.take()  # nothing of a's arrives
        for effect in b.take():
            if isinstance(effect, Send):
                a.receive(now, "at-b", effect.packet)
        a.take()
    assert a.links.alive(now) == []
    assert b.links.alive(now) == []


def test_an_old_hello_that_was_overtaken_changes_nothing() -> None:
    a, b = End("a"), ProcessId("b", 1)
    a.receive(5.0, "new", hello(b, stamp=2.0, to=a.me))
    a.receive(5.1, "old", hello(b, stamp=1.0, to=a.me))
    assert a.links.peers["b"].address == "new"
    assert a.links.peers["b"].stamp == 2.0


def test_a_hello_to_another_site_does_not_say_where_its_sender_is() -> None:
    a, b = End("a"), ProcessId("b", 1)
    a.receive(5.0, "at-b", hello(b, stamp=1.0, to=a.me))
    a.receive(5.1, "elsewhere", hello(b, stamp=2.0, to=ProcessId("c", 1)))
    assert a.links.peers["b"].address == "at-b"


@pytest.mark.parametrize(("echo", "held"), [(99.0, 0.0), (0.5, -1.0)])
def test_an_echo_from_the_future_is_no_proof_of_life(echo: float, held: float) -> None:
    a, b = End("a"), ProcessId("b", 1)
    a.receive(1.0, "at-b", CODEC.control(b, Hello(1.0, echo, held, a.me, -1)))
    assert a.links.alive(1.0) == []


def test_a_hint_makes_a_site_silent_sooner_unless_it_answers() -> None:
    a, b = End("a"), End("b")
    acquainted(a, b)
    a.links.hint(0.01, "at-b")
    soon = 0.01 + 2 * HELLO_S + a.links.peers["b"].trips.timeout
    assert soon < MISSES * HELLO_S
    assert a.links.alive(soon - 0.001)
    assert not a.links.alive(soon)
    exchange(0.02, a, b)
    b.wake(2 * HELLO_S)
    exchange(2 * HELLO_S, a, b)
    assert a.links.alive(soon)


def test_after_a_pause_of_its_own_a_site_suspects_itself_first() -> None:
    a, b = End("a"), End("b")
    acquainted(a, b)
    a.links.paused(2 * FORGET_S)
    assert a.links.alive(2 * FORGET_S)
    a.wake(2 * FORGET_S)
    assert a.links.peers


def test_a_leaving_site_is_dead_at_once() -> None:
    a, b = End("a"), End("b")
    acquainted(a, b)
    b.links.farewell(0.5)
    exchange(0.5, a, b)
    assert a.links.alive(0.5) == []
    assert a.links.is_dead(b.me)


# ---- incarnations ----

A, OLD_A = ProcessId("a", 2), ProcessId("a", 1)
B, OLD_B = ProcessId("b", 3), ProcessId("b", 2)


def packet_of(kind: str, sender: ProcessId, to: ProcessId) -> bytes:
    match kind:
        case "hello":
            return hello(sender, to=to)
        case "receipt":
            return CODEC.control(sender, Receipt(to, VIEWS, 0, 0))
        case "you-are-dead":
            return CODEC.control(sender, YouAreDead(to))
        case _:
            return segment(sender, to)


def segment(sender: ProcessId, to: ProcessId) -> bytes:
    end = End(sender.name, sender.incarnation)
    end.links.peers[to.name] = Peer(to, f"at-{to.name}", 0.0)
    end.links.send(to, VIEWS, b"message")
    end.links.flush(0.0)
    (effect,) = end.out
    assert isinstance(effect, Send)
    return effect.packet


TOLD, HEARD, HALTS = "told that it is dead", "heard", "halts"
TABLE = {
    # kind: from a dead or older incarnation, to another incarnation of me, otherwise
    "hello": (TOLD, "answered with a hello", HEARD),
    "segment": (TOLD, "for another incarnation", "delivered and acknowledged"),
    "receipt": (TOLD, "for another incarnation", HEARD),
    "you-are-dead": (HALTS, "for another incarnation", HALTS),
}


def outcome(a: End, packet: bytes) -> str:
    a.take()
    before = dict(a.drops)
    a.receive(1.0, "at-b", packet)
    wanted = sent(a)
    if any(isinstance(effect, Halt) for effect in a.out):
        return HALTS
    if any(isinstance(body, YouAreDead) for _, body in wanted):
        return TOLD
    if a.got:
        assert any(isinstance(body, Receipt) for _, body in wanted)
        return "delivered and acknowledged"
    if any(isinstance(body, Hello) for _, body in wanted):
        return "answered with a hello"
    dropped = [why for why, count in a.drops.items() if count != before.get(why)]
    return dropped[0] if dropped else HEARD


@pytest.mark.parametrize("kind", TABLE)
def test_what_comes_from_the_dead_or_to_the_dead_is_told_apart(kind: str) -> None:
    """The table at the head of covey.isis.links."""
    from_dead, to_other, otherwise = TABLE[kind]

    def fresh() -> End:
        a = End("a", 2)
        a.receive(0.5, "at-b", hello(B, to=A))
        return a

    assert outcome(fresh(), packet_of(kind, B, A)) == otherwise
    assert outcome(fresh(), packet_of(kind, B, OLD_A)) == to_other
    assert outcome(fresh(), packet_of(kind, OLD_B, A)) == from_dead
    buried = fresh()
    buried.links.bury(B)
    assert outcome(buried, packet_of(kind, B, A)) == from_dead


def test_a_new_incarnation_ends_the_channel_of_the_old_one() -> None:
    a, b = End("a"), End("b")
    acquainted(a, b)
    ticket = a.links.send(b.me, VIEWS, b"lost with b/1")
    assert ticket is not None
    assert not a.links.status(ticket)
    again = End("b", 2)
    acquainted(a, again, now=1.0)
    assert a.links.status(ticket)
    assert a.links.send(ProcessId("b", 1), VIEWS, b"x") is None
    a.links.send(again.me, VIEWS, b"hello again")
    a.links.flush(1.0)
    exchange(1.0, a, again)
    assert again.bodies() == [b"hello again"]


def test_a_later_incarnation_stays_dead_when_an_earlier_one_is_given_up() -> None:
    a = End("a")
    a.links.bury(B)
    a.links.bury(OLD_B)
    a.receive(0.0, "at-b", hello(B))
    assert a.drops == {"sender is dead": 1}


def test_my_own_name_from_elsewhere_is_refused() -> None:
    a = End("a")
    a.receive(0.0, "at-b", hello(ProcessId("a", 7)))
    assert a.drops == {"sender has my name": 1}


# ---- messages ----


def test_status_is_sent_once_acknowledged_or_once_the_site_is_given_up() -> None:
    a, b = End("a"), End("b")
    acquainted(a, b)
    first = a.links.send(b.me, VIEWS, b"one")
    a.links.flush(0.0)
    assert first is not None
    assert not a.links.status(first)
    exchange(0.0, a, b)
    assert a.links.status(first)
    second = a.links.send(b.me, VIEWS, b"two")
    a.links.bury(b.me)
    assert second is not None
    assert a.links.status(second)
    assert a.links.status(Ticket(ProcessId("nobody", 1), VIEWS, 1))


def test_ports_do_not_wait_for_one_another() -> None:
    a, b = End("a"), End("b")
    acquainted(a, b)
    a.links.send(b.me, APPLICATION, b"for the application")
    a.links.send(b.me, VIEWS, b"for view management")
    a.links.flush(0.0)
    exchange(0.0, a, b)
    assert b.bodies(VIEWS) == [b"for view management"]
    assert b.bodies(APPLICATION) == []
    assert b.drops == {"sender is not in the view": 1}


def test_what_was_refused_comes_again_once_the_sender_is_a_member() -> None:
    a, b = End("a"), End("b")
    acquainted(a, b)
    a.links.send(b.me, APPLICATION, b"patience")
    a.links.flush(0.0)
    exchange(0.0, a, b)
    b.members.add(a.me)
    a.wake(1.0)
    exchange(1.0, a, b)
    assert b.bodies(APPLICATION) == [b"patience"]
    assert [run.number for run in b.got] == [1]


# ---- bounds ----


def test_no_more_sites_are_known_than_the_bound_and_the_rest_is_counted() -> None:
    a = End("a")
    for number in range(PEERS_MAX + 5):
        a.receive(0.0, f"at-{number}", hello(ProcessId(f"p{number}", 1)))
    assert len(a.links.peers) == PEERS_MAX
    assert a.drops == {"too many sites": 5}
    a.links.check()


def test_a_site_in_no_view_that_stays_away_is_forgotten_and_a_member_is_not() -> None:
    a = End("a")
    for name in "bc":
        a.receive(0.0, f"at-{name}", hello(ProcessId(name, 1)))
    a.members.add(ProcessId("b", 1))
    a.wake(FORGET_S + 1)
    assert sorted(a.links.peers) == ["b"]


def test_graves_are_bounded() -> None:
    a = End("a")
    for number in range(GRAVES_MAX + 10):
        a.links.bury(ProcessId(f"p{number}", 1))
    assert len(a.links.graves) == GRAVES_MAX
    a.links.check()


def test_a_packet_that_cannot_be_understood_is_dropped_by_name() -> None:
    a = End("a")
    a.receive(0.0, "at-b", b"nonsense, and enough of it")
    a.receive(0.0, "at-b", CODEC.control(B, Receipt(a.me, 99, 0, 0)))
    fine = segment(B, a.me)
    port = fine.rindex(bytes([VIEWS, 0, 0, 0, a.me.incarnation]))
    a.receive(0.0, "at-b", fine[:port] + b"\x63" + fine[port + 1 :])
    assert a.drops == {"packet: magic": 1, "packet: body": 2}


def test_a_receipt_for_what_was_not_sent_is_dropped_by_name() -> None:
    a = End("a")
    a.receive(0.0, "at-b", CODEC.control(B, Receipt(a.me, VIEWS, 5, 0)))
    assert a.drops == {"receipt for what was not sent": 1}
