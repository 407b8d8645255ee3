"""What no correct process sends is a named drop and breaks nothing: process b among others that may say anything."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from covey.cli.models import EVS
from covey.evs.engine import ADDRESSES_MAX, TAKES, Evs
from covey.evs.membership import State
from covey.evs.messages import (
    AGREED,
    CHANGE,
    CODEC,
    COUNT_MAX,
    FRAME,
    MEMBERS_MAX,
    RECOVERED,
    RING_MAX,
    SAFE,
    Ack,
    Commit,
    Frame,
    Join,
    Leave,
    Probe,
    RingId,
    RingMessage,
    Token,
    Want,
    pack_frame,
    tell,
)
from covey.evs.outbox import QUEUED_MAX
from covey.evs.primary import Component, Standing
from covey.evs.ring import UNSAFE_MAX
from covey.kernel.effects import Cast, Deliver, Install, Send
from covey.kernel.engine import Surroundings
from covey.kernel.errors import MisuseError
from covey.kernel.ids import ProcessId
from covey.kernel.wire import header, pack_messages
from covey.sim.world import World
from tests.fuzz.ring import NAMES, SENDERS, Bench, agree, go_round, propose
from tests.kernel.contract import ME, check_contract

A, C, D = SENDERS[0], SENDERS[1], SENDERS[3]
B = ProcessId("b", 1)


def bench_in(state: State) -> Bench:
    """Process b in a state; a and b form a ring where there is one."""
    bench = Bench()
    if state is not State.OPERATIONAL:
        agree(bench, 0, b"")
    if state in (State.COMMIT, State.RECOVER):
        bench.wake(0.1)
        agree(bench, 0, b"")
        propose(bench, 0, b"")
    if state is State.RECOVER:
        go_round(bench, 0, b"")
    assert bench.engine.membership.state is state
    return bench


def on_a_ring() -> Bench:
    """Process b operational on a ring with a."""
    bench = bench_in(State.RECOVER)
    while bench.engine.membership.state is State.RECOVER:
        token_comes(bench)
    for _ in range(2):
        token_comes(bench)
    return bench


def token_comes(bench: Bench, **changes: Any) -> None:
    """The token that b has passed on comes again; the first one of a ring, if b has passed on none."""
    passed = bench.passed
    ring = bench.engine.turning
    if not isinstance(passed, Token) or passed.ring != ring.id:
        passed = Token(ring.id, ring.hop, 0, 0, "", (), 0, False)
    bench.hear(A, replace(passed, **{"hop": ring.hop + len(ring.members), **changes}))


def drops(bench: Bench) -> dict[str, int]:
    return dict(bench.engine.drops)


# --- the duties of an engine


def build(around: Surroundings) -> Evs:
    return Evs(around, ["a:1", "b:1"], ["a", "b"])


PACKETS = [
    CODEC.control(B, message)
    for message in (
        Join(6, (ME, B), ()),
        Probe(RingId(2, "b")),
        Token(RingId(2, "a"), 1, 0, 0, "", (), 0, False),
        Want(RingId(2, "a")),
        Leave(RingId(2, "b")),
    )
] + [header(FRAME, B) + pack_frame(b"", 1, 0, AGREED, 1, pack_messages([b"x"])).body]


def test_it_does_the_duties_of_an_engine() -> None:
    check_contract(build, PACKETS)


# --- which state takes what

EXAMPLES: dict[type, Callable[[Evs], RingMessage]] = {
    Token: lambda engine: Token(engine.turning.id, engine.turning.hop + 1, 0, 0, "", (), 0, False),
    Ack: lambda engine: Ack(engine.turning.id, 1),
    Want: lambda engine: Want(engine.turning.id),
    Join: lambda engine: Join(0, (A,), ()),
    Probe: lambda engine: Probe(RingId(2, "a")),
    Leave: lambda engine: Leave(engine.turning.id),
    Commit: lambda engine: Commit(RingId(100, "a"), 0, (), (), ()),
}


@pytest.mark.parametrize("state", State)
def test_a_state_takes_what_its_table_says_and_drops_the_rest_by_name(state: State) -> None:
    bench = bench_in(state)
    seat = bench.engine.membership.forming or bench_in(State.COMMIT).engine.membership.forming
    assert seat is not None
    for kind in (Frame, *EXAMPLES):
        bench = bench_in(state)
        if kind is Frame:
            body = pack_frame(bench.engine.turning.bytes, 1, 0, AGREED, 1, pack_messages([b"x"])).body
            bench.receive(A, header(FRAME, A) + body)
        elif kind is Commit:
            bench.hear(A, Commit(RingId(100, "a"), 0, seat.seats, (), ()))
        else:
            bench.hear(A, EXAMPLES[kind](bench.engine))
        refused = f"{kind.__name__.lower()} while {state.value}"
        assert (refused in drops(bench)) == (kind not in TAKES[state]), kind


def test_what_a_process_has_sent_itself_is_not_heard() -> None:
    bench = Bench()
    bench.hear(bench.engine.me, Probe(RingId(90, "d")))
    assert drops(bench) == {"packet: my own": 1}


# --- anything, in every state


def overheard() -> list[bytes]:
    """Packets of a real run, of all kinds."""
    world = World(7, NAMES, EVS)
    packets: dict[bytes, None] = {}
    carry, cast = world.carry, world.cast

    def carried(source: str, to: str, packet: bytes) -> None:
        packets[packet] = None
        carry(source, to, packet)

    def everywhere(source: str, packet: bytes, to: Any = ()) -> None:
        packets[packet] = None
        cast(source, packet, to)

    world.carry, world.cast = carried, everywhere  # type: ignore[method-assign]
    world.start()
    for name in NAMES * 2:
        world.run_for(0.4)
        world.send(name, 4, "safe")
    world.machines["c"].leave()
    world.run_for(0.5)
    found: dict[int, list[bytes]] = {}
    for packet in packets:
        kind = packet[3]
        mine = header(kind, B)  # what b has said it does not hear; d may have said it
        said = header(kind, D) + packet[len(mine) :] if packet.startswith(mine) else packet
        found.setdefault(kind, []).append(said)
    assert sorted(found) == [32, 33, 34, 35, 36, 37, 38, 39]
    return [packet for several in found.values() for packet in several[:: 1 + len(several) // 20]]


@pytest.mark.parametrize("state", State)
def test_whatever_comes_in_whatever_state_nothing_is_raised(state: State) -> None:
    """The bench checks the invariants, and that others understand what is said to it."""
    chance = Random(state.value)
    for packet in overheard():
        bench = bench_in(state)
        bench.receive(C, packet)
        for _ in range(12):
            changed = bytearray(packet)
            for _ in range(chance.choice((1, 1, 2, 5))):
                changed[chance.randrange(len(changed))] = chance.getrandbits(8)
            bench.receive(C, bytes(changed[: chance.choice((len(changed), chance.randrange(len(changed) + 1)))]))
        bench.wake(1.0)


@pytest.mark.parametrize("state", State)
def test_garbage_is_counted_in_every_state(state: State) -> None:
    bench = bench_in(state)
    before = bench.engine.drops.total()
    for packet in (b"", b"cv", bytes(100), b"\xff" * 100, header(33, A), header(99, A) + b"\x90"):
        bench.receive(A, packet)
    assert bench.engine.drops.total() == before + 6


# --- tokens


WRONG_TOKENS: dict[str, dict[str, Any]] = {
    "more frames than can be": {"seq": COUNT_MAX, "aru": COUNT_MAX},
    "more frames than can be, which are missing": {"seq": UNSAFE_MAX + 100, "aru": 0},
    "more than one round further": {"hop": 1000},
    "more sent than a round can have": {"flow": COUNT_MAX},
}


@pytest.mark.parametrize("wrong", WRONG_TOKENS)
def test_a_token_that_cannot_come_is_dropped(wrong: str) -> None:
    """Otherwise it would be counted up to what it says."""
    bench = on_a_ring()
    passed = bench.passed
    token_comes(bench, **WRONG_TOKENS[wrong])
    assert drops(bench) == {"token: cannot be": 1}
    assert bench.passed is passed


def test_a_token_that_goes_back_is_dropped() -> None:
    bench = on_a_ring()
    bench.engine.submit(bench.now, [b"x" * 12] * 3)
    bench.drain()
    for _ in range(4):
        token_comes(bench)
    assert bench.engine.ring.aru == 3
    token_comes(bench, seq=0, aru=0, missing=())
    assert drops(bench) == {"token: cannot be": 1}


def test_a_process_that_is_alone_takes_no_token() -> None:
    bench = Bench()
    bench.hear(A, Token(bench.engine.ring.id, 1, 0, 0, "", (), 0, False))
    assert drops(bench) == {"token: cannot be": 1}


def test_nobody_ends_a_recovery_that_is_not_done_by_saying_that_it_is() -> None:
    bench = bench_in(State.RECOVER)
    forming = bench.engine.membership.forming
    assert forming is not None
    assert forming.recovery is not None
    forming.recovery.total, forming.ring.recovered, forming.is_acknowledged = 5, 5, False
    token_comes(bench, is_installed=True)
    assert bench.engine.membership.state is State.RECOVER


# --- the commit token


def commit_for(bench: Bench) -> Commit:
    """The commit token as it comes to b the second time."""
    assert isinstance(bench.passed, Commit)
    seats = bench.passed.seats
    return replace(bench.passed, hop=len(seats) + bench.engine.turning.place)


def test_what_b_has_told_nobody_tells_otherwise() -> None:
    for change in ({"aru": 7}, {"obligations": ("a",)}, {"old": RingId(2, "x")}):
        bench = bench_in(State.COMMIT)
        told = commit_for(bench)
        place = bench.engine.turning.place
        wrong = replace(told.infos[place], **change)
        bench.hear(A, replace(told, infos=(*told.infos[:place], wrong, *told.infos[place + 1 :])))
        assert drops(bench) == {"commit: not what I told": 1}
        assert bench.engine.membership.state is State.COMMIT


def test_nor_what_the_seats_are() -> None:
    bench = bench_in(State.COMMIT)
    told = commit_for(bench)
    seats = tuple(seat._replace(address="elsewhere") for seat in told.seats)
    bench.hear(A, replace(told, seats=seats))
    assert drops(bench) == {"commit: not what I told": 1}


def test_what_cannot_be_of_an_old_configuration_ends_the_attempt() -> None:
    """a says that it lacks what b knows that all have: b has it no more."""
    bench = on_a_ring()
    bench.engine.submit(bench.now, [b"x"] * 3)
    bench.drain()
    for _ in range(8):
        token_comes(bench)
    assert bench.engine.ring.discarded > 0
    agree(bench, 0, b"")
    bench.hear(A, Join(bench.engine.ring_seq, (A, B), ()))
    bench.wake(0.1)
    living = bench.engine.membership.gathering.living
    assert living == (A, B)
    mine, table = bench.engine.info(())
    seats = bench_in(State.COMMIT).engine.membership.forming.seats  # type: ignore[union-attr]
    ring = RingId(bench.engine.ring_seq + 2, "a")
    bench.hear(A, Commit(ring, 1, seats[:2], (replace(mine, aru=0, safe=0, have=()),), table))
    assert bench.engine.membership.state is State.COMMIT
    bench.hear(A, commit_for(bench))
    assert drops(bench)["commit: what is told cannot be"] == 1
    assert bench.engine.membership.state is State.GATHER


def test_a_component_of_the_future_is_refused() -> None:
    bench = bench_in(State.COMMIT)
    told = commit_for(bench)
    future = Component(told.ring.seq, "9.a", ("a", "b"), ("a", "b", "c"), "a")
    mine, table = tell(Standing(future), told.components)
    with pytest.raises(ValueError, match="a ring comes after all that its members know of"):
        replace(told, infos=(replace(told.infos[0], told=mine), *told.infos[1:]), components=table)


# --- who is heard


def test_where_somebody_was_heard_it_is_looked_for_from_then_on_and_room_for_addresses_has_an_end() -> None:
    bench = Bench()
    assert "d" not in bench.engine.addresses
    bench.hear(D, Probe(RingId(2, "d")))
    assert "d" in bench.engine.addresses
    for number in range(ADDRESSES_MAX + 10):
        stranger = ProcessId(f"s{number}", 1)
        bench.engine.receive(bench.now, stranger.name, CODEC.control(stranger, Probe(RingId(2, stranger.name))))
    assert (len(bench.engine.addresses), len(bench.engine.met)) == (ADDRESSES_MAX, ADDRESSES_MAX)


def test_who_was_given_up_stays_so_when_an_attempt_is_interrupted_until_a_configuration_is_installed() -> None:
    bench = Bench()
    bench.hear(C, Join(2, (A, B, C), ()))
    bench.hear(C, Join(2, (A, B, C), (A,)))
    bench.wake(0.1)
    assert bench.engine.membership.state is State.COMMIT
    bench.hear(C, Join(bench.engine.ring_seq, (B, C), ()))
    assert bench.engine.membership.state is State.GATHER
    assert A in bench.engine.membership.gathering.failed
    bench.hear(A, Join(2, (A, B, C), ()))
    assert drops(bench) == {"join: of one that is given up": 1}


def test_an_earlier_incarnation_of_a_member_is_dead() -> None:
    bench = on_a_ring()
    bench.engine.ring.members = (ProcessId("a", 5), B)
    bench.hear(A, Join(90, (A, B), ()))
    bench.hear(A, Probe(RingId(90, "a")))
    assert drops(bench) == {"join: of an earlier incarnation": 1, "packet: of a ring that is over": 1}


def test_who_is_left_out_of_a_join_does_not_follow_it() -> None:
    bench = on_a_ring()
    bench.hear(D, Join(90, (A, B, D), (B,)))
    assert drops(bench) == {"join: leaves me out": 1}


def test_strangers_are_kept_in_mind_until_a_ring_is_formed_but_not_more_than_fit_into_one() -> None:
    bench = bench_in(State.RECOVER)
    for number in range(MEMBERS_MAX + 10):
        stranger = ProcessId(f"s{number}", 1)
        bench.hear(stranger, Probe(RingId(2, stranger.name)))
    assert len(bench.engine.membership.strangers) == MEMBERS_MAX
    assert bench.engine.membership.state is State.RECOVER


# --- frames


def frame(bench: Bench, seq: int, service: int = AGREED, content: bytes | None = None, number: int = 1) -> None:
    content = pack_messages([b"x"]) if content is None else content
    body = pack_frame(bench.engine.turning.bytes, seq, 0, service, number, content).body
    bench.receive(A, header(FRAME, A) + body)


def test_a_frame_with_nothing_in_it_or_something_else_is_delivered_as_nothing() -> None:
    for content in (b"", b"\xff", pack_messages([])):
        bench = on_a_ring()
        if bench.engine.circulation.rests is not None:
            bench.engine.circulation.stop(bench.now)
        seen: list[Any] = []
        act = bench.act
        bench.act = lambda effect, act=act, seen=seen: (seen.append(effect), act(effect))[1]  # type: ignore[method-assign]
        frame(bench, bench.engine.ring.aru + 1, content=content)
        assert drops(bench) == {"frame: messages malformed": 1}
        assert not [effect for effect in seen if isinstance(effect, Deliver)]


def test_a_change_that_is_none_changes_nothing() -> None:
    bench = on_a_ring()
    bench.engine.circulation.stop(bench.now)
    before = bench.engine.primary.configured
    frame(bench, bench.engine.ring.aru + 1, CHANGE, b"\x91\xa1a")
    while bench.engine.ring.delivered < bench.engine.ring.aru:
        token_comes(bench, seq=bench.engine.ring.aru, aru=bench.engine.ring.aru)
    assert drops(bench)["change: malformed"] == 1
    assert bench.engine.primary.configured == before


def test_the_first_frames_of_a_ring_are_those_of_old_ones_and_no_others() -> None:
    bench = bench_in(State.RECOVER)
    bench.engine.turning.recovered = 2
    frame(bench, 1, SAFE)
    frame(bench, 3, RECOVERED, b"")
    assert drops(bench) == {"frame: malformed": 2}
    frame(bench, 1, RECOVERED, b"")
    frame(bench, 3, SAFE)
    assert drops(bench) == {"frame: malformed": 2}
    assert sorted(bench.engine.turning.frames) == [1, 3]


# --- numbers that come to an end


def test_a_process_that_knows_of_the_last_ring_goes_on_alone_and_can_be_started_again() -> None:
    bench = Bench()
    bench.hear(A, Join(RING_MAX, (A,), ()))
    for _ in range(4):
        if bench.engine.membership.state is State.GATHER:
            bench.hear(A, replace(bench.engine.membership.gathering.join(RING_MAX)))
        bench.wake(0.3)
    for _ in range(40):
        bench.wake(0.25)
    assert bench.engine.membership.state is State.OPERATIONAL
    bench.start()
    assert bench.engine.ring.is_alone


# --- what the application may ask for


def test_messages_are_taken_as_long_as_there_is_room() -> None:
    engine = on_a_ring().engine
    engine.circulation.stop(0.0)
    assert engine.room == QUEUED_MAX
    assert engine.submit(2.0, [b"x"] * (QUEUED_MAX + 5)) == QUEUED_MAX
    assert (engine.room, engine.submit(2.0, [b"x"], "safe")) == (0, 0)


def test_a_message_that_is_too_large_or_of_no_service_is_refused_and_it_is_said_what_to_do() -> None:
    engine = Bench().engine
    with pytest.raises(MisuseError, match="at most 12 bytes; send it in parts"):
        engine.submit(2.0, [bytes(13)])
    with pytest.raises(MisuseError, match="no service 'total'; messages are sent causal, agreed, safe"):
        engine.submit(2.0, [b"x"], "total")
    assert not engine.outbox


def test_messages_are_agreed_unless_it_is_said_otherwise() -> None:
    bench = on_a_ring()
    bench.engine.submit(bench.now, [b"x"])
    bench.engine.submit(bench.now, [b"y"], "safe")
    assert [fresh.service for fresh in bench.engine.outbox.cut(5)] in ([AGREED, SAFE], [SAFE], [])


def test_a_process_alone_delivers_at_once_what_it_sends() -> None:
    bench = Bench()
    bench.engine.submit(bench.now, [b"x", b"y"], "safe")
    effects = bench.engine.take()
    delivered = [effect.messages for effect in effects if isinstance(effect, Deliver)]
    assert delivered == [[b"x", b"y"]]
    assert not [effect for effect in effects if isinstance(effect, Send | Cast | Install)]
