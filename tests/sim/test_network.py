"""Each fault of the network happens as often as it was asked for, and every packet is accounted for."""

from random import Random
from typing import Any

import pytest

from covey.kernel.errors import MisuseError
from covey.sim.network import HELD_BACK, QUANTILES_MS, QUEUE_S, Network, NetworkOptions, delay_table

PACKETS = 20_000
INSTANT = 0.00001


def network(**weather: Any) -> Network:
    made = Network(Random(5))
    made.set_weather(NetworkOptions(**{"delay": "instant", **weather}))
    return made


def delays(network: Network, packets: int = PACKETS) -> list[tuple[float, ...]]:
    return [network.transit(0.0, "a", "b") for _ in range(packets)]


# ---- delays ----


@pytest.mark.parametrize("name", QUANTILES_MS)
def test_a_table_holds_256_delays_between_its_quantiles(name: str) -> None:
    table, quantiles = delay_table(name), QUANTILES_MS[name]
    assert len(table) == 256
    assert table == sorted(table)
    assert table[0] == pytest.approx(quantiles[0] / 1000)
    assert table[-1] <= quantiles[-1] / 1000


@pytest.mark.parametrize("name", ["lan", "wan", "rough"])
def test_delays_are_distributed_as_the_table_says(name: str) -> None:
    drawn = sorted(delay for (delay,) in delays(network(delay=name)))
    quantiles = QUANTILES_MS[name]
    for place, quantile in enumerate(quantiles[1:-1], 1):
        measured = drawn[len(drawn) * place // (len(quantiles) - 1)]
        assert measured * 1000 == pytest.approx(quantile, rel=0.1)


def test_an_unknown_table_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(MisuseError, match=r"no delays named 'moon'; there are instant, lan, wan, rough"):
        network(delay="moon")


def test_packets_overtake_each_other_where_delays_differ() -> None:
    arrivals = [network_.transit(at * 0.0001, "a", "b")[0] for network_ in [network(delay="lan")] for at in range(1000)]
    assert arrivals != sorted(arrivals)


# ---- shares ----


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
def test_that_share_of_packets_is_lost_and_counted(share: float) -> None:
    lossy = network(loss=share)
    lost = sum(not copies for copies in delays(lossy))
    assert lost == lossy.lost["loss"]
    assert lost / PACKETS == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_that_share_of_packets_arrives_twice(share: float) -> None:
    copies = [len(copies) for copies in delays(network(duplicate=share))]
    assert set(copies) <= {1, 2}
    assert copies.count(2) / PACKETS == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
def test_that_share_of_packets_is_held_back(share: float) -> None:
    drawn = [delay for (delay,) in delays(network(reorder=share, duplicate=1e-12))]
    held = sum(delay == pytest.approx(HELD_BACK * INSTANT) for delay in drawn)
    assert held + sum(delay == pytest.approx(INSTANT) for delay in drawn) == PACKETS
    assert held / PACKETS == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_that_share_of_packets_to_a_dead_process_is_refused(share: float) -> None:
    refusing = network(refuse=share)
    refusals = [refusing.refusal(2.0, "a", "b") for _ in range(PACKETS)]
    assert refusals.count(None) / PACKETS == pytest.approx(1 - share, abs=0.01)
    assert {*refusals} <= {None, 2.0 + INSTANT}


def test_a_refusal_does_not_come_back_through_a_cut() -> None:
    refusing = network(refuse=1.0)
    refusing.cut([("b", "a")])
    assert refusing.refusal(0.0, "a", "b") is None
    assert refusing.refusal(0.0, "c", "b") is not None


def test_faults_come_together_each_with_its_share() -> None:
    stormy = network(loss=0.2, duplicate=0.2, reorder=0.2)
    arrived = [copies for copies in delays(stormy) if copies]
    assert len(arrived) == PACKETS - stormy.lost["loss"]
    assert len(arrived) / PACKETS == pytest.approx(0.8, abs=0.01)
    assert sum(len(copies) == 2 for copies in arrived) / len(arrived) == pytest.approx(0.2, abs=0.01)
    assert sum(copies[0] > 2 * INSTANT for copies in arrived) / len(arrived) == pytest.approx(0.2, abs=0.01)


# ---- cuts ----


def passes(network: Network, source: str, to: str) -> bool:
    return bool(network.transit(0.0, source, to))


def test_a_cut_holds_in_its_direction_only_and_counts_what_it_stops() -> None:
    cut = network()
    cut.cut([("a", "b")])
    assert not passes(cut, "a", "b")
    assert passes(cut, "b", "a")
    assert passes(cut, "a", "c")
    assert cut.lost == {"cut": 1}


def test_where_cuts_overlap_all_of_them_must_be_mended() -> None:
    cut = network()
    one = cut.cut([("a", "b"), ("a", "c")])
    other = cut.cut([("a", "b")])
    cut.mend(one)
    assert not passes(cut, "a", "b")
    assert passes(cut, "a", "c")
    cut.mend(other)
    assert passes(cut, "a", "b")


def test_a_cut_is_mended_once() -> None:
    cut = network()
    one = cut.cut([("a", "b")])
    cut.cut([("a", "b")])
    cut.mend(one)
    cut.mend(one)
    assert not passes(cut, "a", "b")


def test_when_all_is_mended_a_later_mend_takes_nothing_back() -> None:
    cut = network()
    one = cut.cut([("a", "b")])
    cut.mend_all()
    assert passes(cut, "a", "b")
    cut.cut([("a", "b")])
    cut.mend(one)
    assert not passes(cut, "a", "b")


# ---- bandwidth ----


def test_packets_leave_one_after_another_as_fast_as_the_bandwidth_allows() -> None:
    slow = network(bandwidth=1000.0)
    assert [slow.leave(0.0, "a", 100) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    assert slow.leave(0.0, "b", 100) == pytest.approx(0.1), "each sender has a queue of its own"
    assert slow.leave(5.0, "a", 100) == pytest.approx(5.1), "a queue empties with time"


def test_a_queue_holds_half_a_second_and_counts_what_it_has_no_room_for() -> None:
    slow = network(bandwidth=1024.0)
    left = [slow.leave(0.0, "a", 32) for _ in range(100)]
    waiting = int(QUEUE_S * 32)
    assert left == [*((place + 1) / 32 for place in range(waiting + 1)), *[None] * (99 - waiting)]
    assert slow.lost == {"queue": 99 - waiting}


def test_without_a_limit_a_packet_leaves_at_once() -> None:
    assert network().leave(3.0, "a", 10**9) == 3.0
