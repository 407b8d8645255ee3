"""Seals: what is sealed arrives once, at members only, from those that live; all else is refused under its name."""

import itertools
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.kernel.errors import MisuseError, WorldError
from covey.kernel.ids import NAME_BYTES_MAX, ProcessId
from covey.kernel.wire import VERSION, header
from covey.net import proof, seal
from covey.net.keys import Key, Keys
from covey.net.proof import ANSWER_WITHIN_MS, CHALLENGE_BYTES
from covey.net.seal import DATA_BYTES_MIN, PACKETS_MAX, REASONS, REPLIES_MAX, REPLY_EVERY_S, WINDOW, Refused, Seals
from tests.bytes import damaged

OLD, NEW, FOREIGN = (Key(bytes([n]) * 32) for n in range(3))
A, B, C = (ProcessId(name, 1) for name in "abc")


def boot(number: int) -> bytes:
    return number.to_bytes(16)


def seals(me: ProcessId = A, number: int = 1, *keys: Key) -> Seals:
    return Seals(Keys(keys or (OLD,)), me, boot(number))


def packet(sender: ProcessId, text: str = "") -> bytes:
    return header(7, sender) + text.encode()


def meet(sender: Seals, receiver: Seals, now: float = 0.0) -> str:
    """Have the receiver learn that the sender lives; return how it ended."""
    first = receiver.open(sender.seal(packet(sender.me)), str(sender.me), now)
    assert isinstance(first, Refused)
    assert first.reason == "unproven"
    return exchange(sender, receiver, now)


def exchange(sender: Seals, receiver: Seals, now: float = 0.0) -> str:
    """Carry a challenge and its answer."""
    ((to, asked),) = take(receiver)
    assert to == str(sender.me)
    assert reason(sender.open(asked, str(receiver.me), now)) == "challenged"
    ((to, said),) = take(sender)
    assert to == str(receiver.me)
    return reason(receiver.open(said, str(sender.me), now))


def take(some: Seals) -> list[tuple[str, bytes]]:
    replies, some.replies = some.replies, []
    return replies


def reason(found: bytes | Refused) -> str:
    return found.reason if isinstance(found, Refused) else "opened"


@pytest.fixture
def pair() -> tuple[Seals, Seals]:
    a, b = seals(A, 1), seals(B, 2)
    assert meet(a, b) == "proven"
    return a, b


# --- what is sealed arrives, once


def test_what_is_sealed_is_opened_as_it_was_and_cannot_be_read_on_the_way(pair: tuple[Seals, Seals]) -> None:
    a, b = pair
    sent = packet(A, "hello" * 10_000)
    datagram = a.seal(sent)
    assert b.open(datagram, "x", 0.0) == sent
    assert b"hello" not in datagram
    assert not b.replies


def test_one_datagram_opens_at_many_receivers() -> None:
    a = seals(A, 1)
    receivers = [seals(ProcessId(f"r{n}", 1), 10 + n) for n in range(5)]
    assert [meet(a, each) for each in receivers] == ["proven"] * 5
    datagram = a.seal(packet(A))
    assert [each.open(datagram, "x", 0.0) for each in receivers] == [packet(A)] * 5


@given(st.permutations(range(12)))
@settings(max_examples=50)
def test_packets_open_in_any_order_each_once(order: list[int]) -> None:
    a, b = seals(A, 1), seals(B, 2)
    meet(a, b)
    datagrams = [a.seal(packet(A, str(n))) for n in range(12)]
    assert [b.open(datagrams[n], "x", 0.0) for n in order] == [packet(A, str(n)) for n in order]
    assert {reason(b.open(each, "x", 0.0)) for each in datagrams} == {"replayed"}


@given(st.lists(st.integers(0, 3 * WINDOW) | st.just(PACKETS_MAX), max_size=60))
@settings(max_examples=100)
def test_the_replay_window_does_what_a_set_of_all_numbers_would(numbers: list[int]) -> None:
    seen: set[int] = set()
    sender = seal._Sender(A, boot(1), since=10, now=0.0)
    newest = 9
    for number in numbers:
        expected = None
        if number < 10:
            expected = "early"
        elif newest - number >= WINDOW:
            expected = "late"
        elif number in seen:
            expected = "replayed"
        assert (sender.refusal(number) if number <= sender.top else None) == expected
        if expected is None:
            sender.accept(number)
            seen.add(number)
            newest = max(newest, number)


def test_a_packet_behind_the_window_is_late(pair: tuple[Seals, Seals]) -> None:
    a, b = pair
    first, second = a.seal(packet(A)), a.seal(packet(A))
    for _ in range(WINDOW - 1):
        last = a.seal(packet(A))
    assert reason(b.open(last, "x", 0.0)) == "opened"
    assert reason(b.open(first, "x", 0.0)) == "late"
    assert reason(b.open(second, "x", 0.0)) == "opened"
    assert reason(b.open(second, "x", 0.0)) == "replayed"


# --- nothing from before


def test_nothing_from_before_a_receivers_restart_is_accepted(pair: tuple[Seals, Seals]) -> None:
    a, b = pair
    recorded = [a.seal(packet(A, str(n))) for n in range(20)]
    assert all(reason(b.open(each, str(A), 0.0)) == "opened" for each in recorded[:10])
    b = seals(B._replace(incarnation=2), 3)
    assert {reason(b.open(each, str(A), 0.0)) for each in recorded} == {"unproven"}
    assert exchange(a, b) == "proven"
    assert {reason(b.open(each, str(A), 0.0)) for each in recorded} == {"early"}
    assert reason(b.open(a.seal(packet(A)), str(A), 0.0)) == "opened"


def test_a_recorded_answer_proves_nothing_later_elsewhere_or_to_another_life() -> None:
    a, b = seals(A, 1), seals(B, 2)
    b.open(a.seal(packet(A)), "a", 0.0)
    ((_, asked),) = take(b)
    a.open(asked, "b", 0.0)
    ((_, said),) = take(a)
    late = ANSWER_WITHIN_MS / 1000 + 0.002
    assert reason(b.open(said, "a", late)) == "stale"
    assert reason(b.open(said, "elsewhere", 0.0)) == "stale"
    assert reason(seals(B, 3).open(said, "a", 0.0)) == "stale"
    assert reason(b.open(said, "a", 0.0)) == "proven"
    assert reason(b.open(said, "a", 0.0)) == "replayed"


def test_a_challenge_is_answered_once_and_not_by_another_life(pair: tuple[Seals, Seals]) -> None:
    a, _ = pair
    c = seals(C, 3)
    c.open(a.seal(packet(A)), "a", 0.0)
    ((_, asked),) = take(c)
    later = itertools.count(1.0)
    assert reason(a.open(asked, "c", next(later))) == "challenged"
    assert reason(a.open(asked, "c", next(later))) == "replayed"
    assert reason(seals(A, 4).open(asked, "c", next(later))) == "stale"
    assert len(take(a)) == 1


def test_a_process_that_was_forgotten_because_the_table_was_full_proves_itself_anew(
    pair: tuple[Seals, Seals], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    monkeypatch.setattr(seal, "SENDERS_MAX", 2)
    c, d = seals(C, 3), seals(ProcessId("d", 1), 4)
    assert meet(c, b, 1.0) == "proven"
    recorded = c.seal(packet(C))
    b.open(a.seal(packet(A)), "a", 2.0)
    assert meet(d, b, 3.0) == "proven"
    assert reason(b.open(a.seal(packet(A)), "a", 4.0)) == "opened"
    assert meet(c, b, 5.0) == "proven"
    assert reason(b.open(recorded, "c", 5.0)) == "early"
    assert reason(b.open(a.seal(packet(A)), "a", 6.0)) == "opened"
    assert reason(b.open(d.seal(packet(d.me)), "d", 6.0)) == "unproven"


# --- who it is


def test_a_process_that_is_known_under_another_boot_id_is_refused_by_name(pair: tuple[Seals, Seals]) -> None:
    a, b = pair
    twin = seals(A, 3)
    assert meet(twin, b, 1.0) == "boot"
    assert reason(b.open(a.seal(packet(A)), "a", 1.0)) == "opened"
    assert meet(seals(A._replace(incarnation=2), 4), b, 2.0) == "proven"
    assert meet(twin, a, 1.0) == "boot"


def test_the_name_and_incarnation_that_sealed_are_those_inside(pair: tuple[Seals, Seals]) -> None:
    a, b = pair
    for other in (B, A._replace(incarnation=2), ProcessId("aa", 1)):
        assert reason(b.open(a.seal(packet(other)), "a", 0.0)) == "sender"
    assert reason(b.open(a.seal(b""), "a", 0.0)) == "short"
    assert reason(b.open(a.seal(b"0123456789"), "a", 0.0)) == "sender"


def test_two_starts_of_one_disk_image_share_no_key() -> None:
    """Also where chance has the numbers, and so the nonces, agree: what is hidden looks different."""
    boots = bytes(16), bytes([*range(1, 13), 0, 0, 0, 0]), bytes([*range(2, 14), 0, 0, 0, 0])
    starts = [Seals(Keys((OLD,)), process, each) for process in (A, ProcessId("a", 2), B) for each in boots]
    assert len({start.seal(b"the same")[32:-16] for start in starts}) == len(starts)


def test_what_comes_back_from_the_network_is_ones_own(pair: tuple[Seals, Seals]) -> None:
    a, _ = pair
    assert reason(a.open(a.seal(packet(A)), "a", 0.0)) == "own"
    assert not a.replies


# --- keys


def test_a_group_changes_its_key_without_losing_a_packet() -> None:
    """Each in turn: both accept the new key, both seal with it, both drop the old one."""
    a, b = seals(A, 1), seals(B, 2)
    assert (meet(a, b), meet(b, a)) == ("proven", "proven")
    for keys in [(OLD, NEW), (NEW, OLD), (NEW,)]:
        for each in (a, b):
            flying = [(b, a.seal(packet(A)), packet(A)), (a, b.seal(packet(B)), packet(B))]
            each.rekey(Keys(keys))
            flying += [(b, a.seal(packet(A)), packet(A)), (a, b.seal(packet(B)), packet(B))]
            assert all(receiver.open(datagram, "x", 0.0) == sent for receiver, datagram, sent in flying)
    assert a.seal(b"")[4:8] == NEW.id
    assert set(a.refused) == set(b.refused) == {"unproven", "challenged", "proven"}


def test_a_packet_is_accepted_once_across_a_change_of_key() -> None:
    a, b = seals(A, 1), seals(B, 2)
    meet(a, b)
    datagram = a.seal(packet(A))
    b.open(datagram, "a", 0.0)
    b.rekey(Keys((NEW, OLD)))
    assert reason(b.open(datagram, "a", 0.0)) == "replayed"


def test_a_newcomer_with_the_new_key_meets_one_that_still_seals_with_the_old() -> None:
    a, b = seals(A, 1, OLD, NEW), seals(B, 2, NEW, OLD)
    assert (meet(a, b), meet(b, a)) == ("proven", "proven")


def test_a_foreign_key_and_a_foreign_version_are_named_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = seals(A, 1), seals(B, 2, FOREIGN)
    found = b.open(a.seal(packet(A)), "a:1", 0.0)
    assert str(found).endswith(f"a:1 seals with key {OLD.id.hex()}, b/1 has {FOREIGN.id.hex()}")
    ((_, notice),) = take(b)
    back = a.open(notice, "b:1", 0.0)
    assert str(back).endswith(f"b:1 seals with key {FOREIGN.id.hex()}, a/1 has {OLD.id.hex()}")

    datagram = a.seal(packet(A))
    monkeypatch.setattr(seal, "VERSION", VERSION + 1)
    newer = seals(C, 3)
    assert str(newer.open(datagram, "a:1", 0.0)).endswith(
        f"a:1 speaks wire version {VERSION}, c/1 speaks {VERSION + 1}"
    )
    ((_, notice),) = take(newer)
    monkeypatch.undo()
    assert str(a.open(notice, "c:1", 1.0)).endswith(f"c:1 speaks wire version {VERSION + 1}, a/1 speaks {VERSION}")
    assert not a.replies


# --- hostile bytes


def test_every_bit_counts(pair: tuple[Seals, Seals]) -> None:
    a, b = pair
    datagram = a.seal(packet(A, "some text"))
    for at in range(len(datagram) * 8):
        flipped = bytearray(datagram)
        flipped[at // 8] ^= 1 << at % 8
        assert reason(b.open(bytes(flipped), "a", float(at))) != "opened"
        b.replies.clear()
    expected = {"magic", "version", "kind", "key", "notice", "unproven", "forged", "early"}
    assert set(b.refused) - {"proven"} <= expected
    assert reason(b.open(datagram, "a", 0.0)) == "opened"


def test_every_bit_of_a_challenge_and_of_an_answer_counts() -> None:
    first, asked, said, *_ = conversation()
    for opener, source, datagram, wanted in (
        (seals(A, 1), "b", asked, "challenged"),
        (seals(B, 2), "a", said, "proven"),
    ):
        opener.open(first, "a", 0.0)
        for at in range(len(datagram) * 8):
            flipped = bytearray(datagram)
            flipped[at // 8] ^= 1 << at % 8
            assert reason(opener.open(bytes(flipped), source, 0.0)) not in ("opened", "challenged", "proven")
        assert reason(opener.open(datagram, source, 0.0)) == wanted


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (1, b""),
        (1, bytes(31)),
        (1, bytes(33)),
        (2, b""),
        (2, bytes(43)),
        (2, bytes(40) + struct.pack("!I", 1)),
        (2, bytes(40) + struct.pack("!I", 0) + b"a"),
        (2, bytes(40) + struct.pack("!I", 2**31) + b"a"),
        (2, bytes(40) + struct.pack("!I", 1) + b"\xff"),
        (2, bytes(40) + struct.pack("!I", 1) + b"n" * (NAME_BYTES_MAX + 1)),
    ],
)
def test_not_even_one_that_has_the_key_makes_a_member_fall(kind: int, content: bytes) -> None:
    b = seals(B, 2)
    head = b"cs" + bytes([VERSION, kind]) + OLD.id
    assert reason(b.open(proof._tagged(OLD, head + content), "x", 0.0)) == "forged"


def test_what_is_cut_is_refused(pair: tuple[Seals, Seals]) -> None:
    a, b = pair
    datagram = a.seal(packet(A, "some text"))
    found = [reason(b.open(datagram[:size], "a", 0.0)) for size in range(len(datagram))]
    assert found == ["short"] * DATA_BYTES_MIN + ["forged"] * (len(datagram) - DATA_BYTES_MIN)
    assert reason(b.open(datagram + b"x", "a", 0.0)) == "forged"
    assert not b.replies


@pytest.mark.parametrize(
    ("datagram", "expected"),
    [
        (b"", "short"),
        (packet(A), "unsealed"),
        (b"GET / HTTP/1.1\r\n", "magic"),
        (b"cs" + bytes([VERSION, 9]) + OLD.id, "kind"),
        (b"cs" + bytes([VERSION, 3]) + OLD.id, "notice"),
        (b"cs" + bytes([VERSION, 1]) + OLD.id + bytes(CHALLENGE_BYTES - 8), "forged"),
        (b"cs" + bytes([VERSION, 1]) + OLD.id, "forged"),
        (b"cs" + bytes([VERSION, 2]) + OLD.id + bytes(80), "forged"),
        (b"cs" + bytes([VERSION, 2]) + OLD.id + bytes(65_000), "forged"),
        (b"cs" + bytes([VERSION, 0]) + OLD.id + bytes(65_000), "unproven"),
    ],
)
def test_what_no_member_made_is_refused_under_its_name(datagram: bytes, expected: str) -> None:
    b = seals(B, 2)
    assert reason(b.open(datagram, "x", 0.0)) == expected
    assert b.refused == {expected: 1}


def conversation() -> list[bytes]:
    a, b = seals(A, 1), seals(B, 2)
    first = a.seal(packet(A))
    b.open(first, "a", 0.0)
    ((_, asked),) = take(b)
    a.open(asked, "b", 0.0)
    ((_, said),) = take(a)
    return [first, asked, said, a.seal(packet(A, "x" * 50)), b"cs" + bytes([VERSION, 3]) + OLD.id]


@given(st.lists(damaged(conversation()) | st.binary(max_size=200), max_size=20))
@settings(max_examples=300)
def test_whatever_arrives_is_counted_and_nothing_is_raised(datagrams: list[bytes]) -> None:
    a, b = seals(A, 1), seals(B, 2)
    meet(a, b)
    authentic = conversation()
    before = sum(b.refused.values())
    opened = 0
    for now, datagram in enumerate(datagrams):
        found = b.open(datagram, "a", float(now))
        if isinstance(found, bytes):
            assert datagram in authentic
            opened += 1
        for _, reply in take(b):
            assert len(reply) <= len(datagram) or datagram in authentic
    assert sum(b.refused.values()) - before == len(datagrams) - opened
    assert set(b.refused) <= set(REASONS)


# --- bounds


def test_a_stranger_gets_no_more_bytes_than_it_sent_and_one_reply_at_a_time() -> None:
    b = seals(B, 2)
    for number in range(100):
        stranger = seals(A, 10 + number).seal(packet(A))
        assert len(stranger) == DATA_BYTES_MIN
        assert reason(b.open(stranger, "a", 0.0)) == "unproven"
    ((_, asked),) = b.replies
    assert len(asked) == CHALLENGE_BYTES <= DATA_BYTES_MIN
    b.open(stranger, "a", REPLY_EVERY_S)
    assert len(b.replies) == 2


def test_a_flood_from_many_addresses_fills_no_memory() -> None:
    b = seals(B, 2)
    for number in range(2000):
        b.open(seals(A, 10).seal(packet(A)), f"address {number}", 0.0)
    assert len(b.replies) == REPLIES_MAX
    assert b.refused["unproven"] == 2000


def test_only_the_last_challenges_that_were_answered_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "ANSWERED_MAX", 2)
    a, b = seals(A, 1), seals(B, 2)
    for now in range(3):
        b.open(a.seal(packet(A)), "a", float(now))
    challenges = [asked for _, asked in take(b)]
    found = [reason(a.open(asked, "b", float(now))) for now, asked in enumerate([*challenges, *challenges[::-1]])]
    assert found == ["challenged"] * 3 + ["replayed"] * 2 + ["challenged"]


def test_a_name_may_have_any_length() -> None:
    long = ProcessId("n" * NAME_BYTES_MAX, 2**31 - 1)
    a, b = seals(long, 1), seals(B, 2)
    assert meet(a, b) == "proven"
    assert b.open(a.seal(packet(long)), "x", 0.0) == packet(long)


def test_sealing_ends_before_a_number_could_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "PACKETS_MAX", 3)
    a = seals(A, 1)
    assert len({a.seal(b"same") for _ in range(3)}) == 3
    for _ in range(2):
        with pytest.raises(WorldError, match="start it again"):
            a.seal(b"same")


def test_every_reason_is_explained() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "wire.md"
    _, _, section = page.read_text().partition("## Sealed packets")
    assert re.findall(r"^\| `(\w+)` \| (.*) \|$", section, flags=re.MULTILINE) == list(REASONS.items())


def test_a_boot_id_of_another_length_is_refused() -> None:
    with pytest.raises(MisuseError, match="16 random bytes, not 3"):
        Seals(Keys((OLD,)), A, b"abc")
