"""Members find each other through announcements on a multicast group, and garbage among them does nothing."""

import asyncio
import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.kernel.errors import MisuseError
from covey.kernel.wire import Dropped
from covey.net.discovery.discovery import Discovery
from covey.net.discovery.multicast import ANNOUNCEMENTS_PER_LOOK_MAX, MulticastSource, announcement, read_announcement
from covey.net.discovery.source import Around, DiscoveryOptions
from covey.net.discovery.where import Multicast, read_address
from tests.discovery.crowd import Crowd

OPTIONS = DiscoveryOptions(silent_looks_max=3, addresses_max=5)


@pytest.fixture
def group() -> Multicast:
    """A group and port that no other test uses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return Multicast(f"239.77.{os.getpid() // 256 % 256}.{os.getpid() % 256}", free.getsockname()[1])


class Sources:
    """Sources that announce and listen on the loopback interface."""

    def __init__(self, group: Multicast) -> None:
        self._group = group
        self._opened: list[MulticastSource] = []

    def open(self, port: int) -> MulticastSource:
        around = Around(f"m{port}", f"127.0.0.1:{port}", OPTIONS, Counter())
        self._opened.append(MulticastSource(self._group, around))
        return self._opened[-1]

    def close(self) -> None:
        for source in self._opened:
            asyncio.run(source.leave())


@pytest.fixture
def sources(group: Multicast) -> Iterator[Sources]:
    sources = Sources(group)
    yield sources
    sources.close()


class Stranger:
    """Sends what it likes to the group."""

    def __init__(self, group: Multicast, host: str = "127.0.0.1") -> None:
        self._group = group
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        self._socket.bind((host, 0))

    def __enter__(self) -> "Stranger":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, packet: bytes) -> None:
        self._socket.sendto(packet, self._group)


def look(source: MulticastSource) -> list[str]:
    return sorted(asyncio.run(source.look()))


def look_until(source: MulticastSource, *known: str) -> None:
    """Look until just these are known; the time limit of the test is the bound."""
    while look(source) != sorted(known):
        pass


def test_members_hear_each_other_and_not_themselves(sources: Sources) -> None:
    a, b = sources.open(1), sources.open(2)
    look(a)
    look(b)
    look_until(a, "127.0.0.1:2")
    look_until(b, "127.0.0.1:1")
    assert not a._around.drops


def test_announcements_leave_by_the_interface_that_has_this_process_s_address(sources: Sources) -> None:
    a = sources.open(1)
    look(a)
    assert a._sockets
    speaker, _ = a._sockets
    assert speaker.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, 4) == socket.inet_aton("127.0.0.1")


def test_who_falls_silent_is_forgotten(sources: Sources) -> None:
    a, b = sources.open(1), sources.open(2)
    look(a)
    look(b)
    look_until(a, "127.0.0.1:2")
    assert [look(a) for _ in range(4)] == [["127.0.0.1:2"]] * 3 + [[]]


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (b"", "not of covey"),
        (b"covey here", "not of covey"),
        (bytes(range(40)), "not of covey"),
        (b"\0" * 60_000, "too long"),
        (announcement("127.0.0.1:9") + b" " * 100, "too long"),
        (b"covey here 2 127.0.0.1:9", "of another version"),
        (b"covey here 1", "of another version"),
        (b"covey here 1 ", "not an address"),
        (b"covey here 1 127.0.0.1:0", "not an address"),
        (b"covey here 1 127.0.0.1:9\n", "not an address"),
        (b"covey here 1 localhost:9", "not an address"),
        (b"covey here 1 \xff\xff", "not an address"),
        (b"covey here 1 0.0.0.0:9", "not an address"),
        (b"covey here 1 239.1.2.3:9", "not an address"),
        (announcement("10.0.0.1:9"), "of another host"),
        (announcement("127.0.0.2:9"), "of another host"),
        (announcement("[::1]:9"), "of another host"),
    ],
    ids=lambda value: repr(value[:24]),
)
def test_a_bad_announcement_is_counted_under_its_name(
    packet: bytes, reason: str, sources: Sources, group: Multicast
) -> None:
    a = sources.open(1)
    look(a)
    with Stranger(group) as stranger:
        stranger.send(packet)
        stranger.send(announcement("127.0.0.1:8"))
        look_until(a, "127.0.0.1:8")
    assert a._around.drops == {f"announcement: {reason}": 1}


def test_a_host_cannot_announce_another_one(sources: Sources, group: Multicast) -> None:
    a = sources.open(1)
    look(a)
    with Stranger(group, "127.0.0.2") as stranger:
        stranger.send(announcement("127.0.0.1:9"))
        stranger.send(announcement("127.0.0.2:9"))
        look_until(a, "127.0.0.2:9")
    assert a._around.drops == {"announcement: of another host": 1}


def test_a_crowd_of_strangers_fills_no_more_than_its_bound_and_displaces_nobody(
    sources: Sources, group: Multicast
) -> None:
    a, b = sources.open(1), sources.open(60_000)
    look(a)
    look(b)
    look_until(a, "127.0.0.1:60000")
    with Stranger(group) as stranger:
        for port in range(100, 150):
            stranger.send(announcement(f"127.0.0.1:{port}"))
        look(b)
        while not a._around.drops:
            known = look(a)
    assert "127.0.0.1:60000" in known
    assert len(known) == OPTIONS.addresses_max
    assert set(a._around.drops) == {"announcement: too many addresses"}


def test_a_look_takes_so_many_packets_and_no_more(
    sources: Sources, group: Multicast, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = [0]

    def packet(*_: object) -> tuple[bytes, tuple[str, int]]:
        endless[0] += 1
        return b"garbage", ("127.0.0.1", 9)

    a = sources.open(1)
    look(a)
    monkeypatch.setattr(socket.socket, "recvfrom", packet)
    assert look(a) == []
    assert endless == [ANNOUNCEMENTS_PER_LOOK_MAX]


@given(st.binary(max_size=80) | st.binary(max_size=60).map(lambda rest: b"covey here 1 " + rest))
def test_any_bytes_are_an_address_or_a_drop(packet: bytes) -> None:
    understood = read_announcement(packet)
    assert isinstance(understood, Dropped) or read_address(understood) == understood


@given(st.ip_addresses(v=4).map(str), st.integers(1, 65535))
def test_every_address_can_be_announced(host: str, port: int) -> None:
    try:
        address = read_address(f"{host}:{port}")
    except MisuseError:
        return
    assert read_announcement(announcement(address)) == address


def test_a_process_with_an_ipv6_address_is_told_that_it_cannot() -> None:
    with pytest.raises(MisuseError, match="IPv4 address, and this one has"):
        Discovery(["multicast:239.1.2.3:7400"], "a", "[::1]:7400")


def test_an_interface_that_fails_is_a_failure_that_leaves_no_socket_open(group: Multicast) -> None:
    here = str(group)
    discovery = Discovery([here], "a", "192.0.2.1:7400", DiscoveryOptions(retry_first_s=0.01, retry_max_s=0.01))

    async def main() -> None:
        opened = len(os.listdir("/proc/self/fd"))
        task = asyncio.ensure_future(discovery.run(lambda _: None))
        while discovery.failures[here] < 5:  # noqa: ASYNC110 - a failure has no event
            await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.wait([task])
        assert len(os.listdir("/proc/self/fd")) == opened

    asyncio.run(main())


def test_a_look_that_fails_begins_afresh_and_forgets_nobody(
    sources: Sources, group: Multicast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the interface is gone")

    opened = len(os.listdir("/proc/self/fd"))
    a = sources.open(1)
    look(a)
    with Stranger(group) as stranger:
        stranger.send(announcement("127.0.0.1:9"))
        look_until(a, "127.0.0.1:9")
    with monkeypatch.context() as broken:
        broken.setattr(socket.socket, "sendto", fail)
        for _ in range(10):
            with pytest.raises(OSError, match="the interface is gone"):
                look(a)
            assert len(os.listdir("/proc/self/fd")) == opened
    assert look(a) == ["127.0.0.1:9"]


def test_cancellation_leaves_no_task_or_socket_behind(group: Multicast) -> None:
    async def main() -> None:
        opened = len(os.listdir("/proc/self/fd"))
        fast = DiscoveryOptions(look_every_s=0.01)
        heard = asyncio.Event()
        discovery = Discovery([str(group), "10.0.0.9:1"], "a", "127.0.0.1:1", fast)
        task = asyncio.ensure_future(discovery.run(lambda found: len(found) == 2 and heard.set()))
        with Stranger(group) as stranger:
            while not heard.is_set():
                stranger.send(announcement("127.0.0.1:9"))
                await asyncio.sleep(0.005)
        assert len(os.listdir("/proc/self/fd")) == opened + 2
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert len(os.listdir("/proc/self/fd")) == opened

    asyncio.run(main())


def test_processes_find_each_other_and_forget_who_was_killed_or_stopped(group: Multicast) -> None:
    with Crowd(str(group)) as crowd:
        crowd.start("abcd")
        for name in "abcd":
            crowd.until(name, "abcd".replace(name, ""))
        crowd.send("d", signal.SIGKILL)
        crowd.send("c", signal.SIGSTOP)
        crowd.until("a", "b")
        crowd.until("b", "a")
        crowd.send("c", signal.SIGCONT)
        crowd.start("d")
        crowd.until("a", "bcd")
        crowd.until("d", "abc")
        crowd.send("a", signal.SIGTERM)
        assert crowd.wait("a") == 0
        crowd.until("b", "cd")
