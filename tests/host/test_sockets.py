"""What is left of Linux: trains, a kernel that has no room or no offload, and what is lost is counted."""

import asyncio
import errno
import socket
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.net.addresses import parse_address
from covey.net.sockets import DATAGRAM_MAX, SEGMENTS_MAX, WAITING_MAX, Port, trains
from tests.host.things import until

HERE = ("127.0.0.1", 0)


@given(st.lists(st.sampled_from([b"", b"x", bytes(100), bytes(1400), bytes(DATAGRAM_MAX)]), max_size=300))
def test_trains_keep_every_datagram_in_order_and_are_what_the_kernel_takes(datagrams: list[bytes]) -> None:
    cut = list(trains(datagrams, DATAGRAM_MAX))
    assert [datagram for train in cut for datagram in train] == datagrams
    for train in cut:
        assert 1 <= len(train) <= SEGMENTS_MAX
        assert sum(map(len, train)) <= DATAGRAM_MAX
        if len(train) > 1:
            assert all(len(one) == len(other) for one, other in pairwise(train[:-1]))
            assert 0 < len(train[-1]) <= len(train[0])


@given(st.lists(st.integers(1, 20).map(bytes), max_size=50), st.integers(0, 20))
def test_datagrams_longer_than_the_limit_travel_alone(datagrams: list[bytes], limit: int) -> None:
    for train in trains(datagrams, limit):
        assert len(train) == 1 or len(train[0]) <= limit


@pytest.mark.parametrize("text", ["", ":", "127.0.0.1", "1.2.3.4:", "::1:80", "a:1", "1.2.3.4:x", "1.2.3.4:٣", "\0:1"])
def test_what_is_no_address_is_none(text: str) -> None:
    assert parse_address(text) is None


# ---- a kernel that does not take everything ----


class Kernel(socket.socket):
    """A socket whose kernel refuses by this rule: the number of the error for a train, or 0."""

    rule: Callable[[list[bytes]], int] = staticmethod(lambda train: 0)

    def sendmsg(self, buffers: Any, *rest: Any) -> int:
        if number := Kernel.rule(buffers):
            raise OSError(number, "refused")
        return super().sendmsg(buffers, *rest)


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> type[Kernel]:
    monkeypatch.setattr(socket, "socket", Kernel)
    monkeypatch.setattr(Kernel, "rule", staticmethod(lambda train: 0))
    return Kernel


def received(port: Port) -> list[bytes]:
    return [datagram for _, datagram in port.receive()]


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOBUFS])
def test_what_the_kernel_has_no_room_for_waits_in_order_and_then_leaves(
    number: int, kernel: type[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        a, b = Port(HERE), Port(HERE)
        a.listen(asyncio.get_running_loop(), lambda: None)
        monkeypatch.setattr(kernel, "rule", staticmethod(lambda train: number))
        packets = [b"%d" % n for n in range(300)]
        for packet in packets[:200]:
            a.put(b.at, packet)
        a.flush()
        monkeypatch.setattr(kernel, "rule", staticmethod(lambda train: 0))
        for packet in packets[200:]:  # these do not overtake
            a.put(b.at, packet)
        a.flush()
        got: list[bytes] = []
        await until(lambda: got.extend(received(b)) or len(got) == 300, "all have arrived")
        assert got == packets
        assert not a.drops
        a.close()
        b.close()

    asyncio.run(main())


def test_what_waits_is_bounded_and_the_rest_is_lost_by_name(
    kernel: type[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        a = Port(HERE)
        a.listen(asyncio.get_running_loop(), lambda: None)
        monkeypatch.setattr(kernel, "rule", staticmethod(lambda train: errno.EAGAIN))
        for _ in range(WAITING_MAX + 1000):
            a.put(a.at, b"x")
        a.flush()
        assert a.drops["send: queue full"] >= 1000
        assert a.drops.total() <= 1000 + SEGMENTS_MAX
        a.close()

    asyncio.run(main())


@pytest.mark.parametrize("number", [errno.EIO, errno.EINVAL, errno.EMSGSIZE])
def test_where_no_train_goes_datagrams_go_one_by_one(
    number: int, kernel: type[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = Port(HERE), Port(HERE)
    monkeypatch.setattr(kernel, "rule", staticmethod(lambda train: number if len(train) > 1 else 0))
    packets = [bytes([n]) * 10 for n in range(20)]
    for _ in range(2):
        for packet in packets:
            a.put(b.at, packet)
        a.flush()
    assert received(b) == packets * 2
    assert a.train_limit == 9, "it does not try again"
    assert not a.drops
    a.close()
    b.close()


def test_what_the_kernel_refuses_for_another_reason_is_lost_by_name(
    kernel: type[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    a = Port(HERE)
    monkeypatch.setattr(kernel, "rule", staticmethod(lambda train: errno.EPERM))
    a.put(a.at, b"x")
    a.flush()
    assert a.drops == {"send: EPERM": 1}
    a.close()


@pytest.mark.parametrize("number", [errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.EMSGSIZE])
def test_what_became_of_an_earlier_datagram_does_not_cost_the_next_one(
    number: int, kernel: type[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel says it once, to whoever calls next."""
    a, b = Port(HERE), Port(HERE)
    reports = [number]
    monkeypatch.setattr(kernel, "rule", staticmethod(lambda train: reports.pop() if reports else 0))
    for packet in (b"1", b"2"):
        a.put(b.at, packet)
    a.flush()
    assert received(b) == [b"1", b"2"]
    assert a.sent["calls"] == 1, "they are still one train"
    assert not a.drops
    a.close()
    b.close()


# ---- what arrives ----


def test_what_the_receive_buffer_had_no_room_for_is_counted() -> None:
    """The kernel says so with the next datagram that it takes."""
    a, b = Port(HERE), Port(HERE)
    b._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    for _ in range(200):
        a.put(b.at, bytes(1000))
    a.flush()
    got = len(received(b))
    a.put(b.at, b"x")
    a.flush()
    got += len(received(b))
    assert 0 < got < 201
    assert b.drops["socket: receive buffer full"] > 0
    a.close()
    b.close()


def test_buffers_are_what_the_kernel_says() -> None:
    port = Port(HERE)
    assert port.buffers.receive == port._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert min(port.buffers) > 100_000
    port.close()
