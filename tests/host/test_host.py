"""The asyncio host keeps the duties of a host (`covey.kernel.engine`), on real sockets."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from covey.isis.links import LinkOptions
from covey.isis.sites import Sites
from covey.kernel.effects import Append, Cast, Deliver, Effect, Halt, Install, Send, Store
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.errors import MisuseError, WorldError
from covey.kernel.ids import ProcessId
from covey.kernel.storage import provision
from covey.kernel.storage_sqlite import SqliteStorage
from covey.kernel.wire import VERSION, header
from covey.net.addresses import parse_address
from covey.net.host import Host, serve
from covey.net.keys import Key, Keys
from covey.net.life import PAUSE_S
from covey.sim.disk import Disk
from covey.trace import MemorySink, Recorder
from tests.host.things import Guest, free_addresses, make, probe, running, until
from tests.sim.probe import Probe

# ---- packets ----


async def pass_between(host: Host, other: Host, packets: list[bytes]) -> None:
    host.submit([Send(other.address, packet) for packet in packets])
    await until(lambda: len(probe(other).packets) >= len(packets), "all have arrived")
    assert probe(other).packets == packets
    assert {call[2] for call in probe(other).calls if call[0] == "receive"} == {host.address}


@pytest.mark.parametrize("offload", [True, False], ids=["offload", "plain"])
def test_packets_of_all_sizes_arrive_in_order_and_name_their_source(offload: bool) -> None:
    async def main() -> None:
        a, b = make(offload=offload), make(offload=offload)
        async with running(a), running(b):
            sizes = [*[100] * 300, 99, 100, 0, 0, 5, 65507, 1, *[1400] * 100, 1399]
            await pass_between(a, b, [bytes([number % 251]) * size for number, size in enumerate(sizes)])

    asyncio.run(main())


def test_trains_take_fewer_calls_than_they_have_packets() -> None:
    async def main() -> int:
        a, b = make(), make()
        async with running(a), running(b):
            await pass_between(a, b, [bytes(100)] * 256)
            return int(a.stats()["sent calls"])

    assert asyncio.run(main()) == 2


@pytest.mark.parametrize("group", [None, "239.77.7.7:0"], ids=["unicast", "multicast"])
def test_a_cast_reaches_everybody_but_its_sender(group: str | None) -> None:
    addresses = free_addresses(4)
    if group is not None:
        group = group.replace(":0", ":" + addresses.pop().rpartition(":")[2])

    async def main() -> None:
        hosts = [make(address, addresses[:3], group=group) for address in addresses[:3]]
        async with running(hosts[0]), running(hosts[1]), running(hosts[2]):
            hosts[0].submit([Cast(b"1"), Cast(b"2"), Send(addresses[0], b"end")])
            for host in hosts[1:]:
                await until(lambda host=host: probe(host).packets == [b"1", b"2"], "both copies have arrived")
            await until(lambda: probe(hosts[0]).packets, "its own packet has arrived")
            assert probe(hosts[0]).packets == [b"end"]

    asyncio.run(main())


@pytest.mark.parametrize("group", [None, "239.77.7.8:0"], ids=["unicast", "multicast"])
def test_a_cast_to_some_reaches_just_them_unless_it_goes_to_a_group(group: str | None) -> None:
    addresses = free_addresses(4)
    if group is not None:
        group = group.replace(":0", ":" + addresses.pop().rpartition(":")[2])

    async def main() -> None:
        a, b, c = (make(address, addresses[:3], group=group) for address in addresses[:3])
        async with running(a), running(b), running(c):
            a.submit([Cast(b"1", (a.address, b.address)), Cast(b"2")])
            await until(lambda: probe(b).packets == [b"1", b"2"], "it has both")
            await until(lambda: b"2" in probe(c).packets, "it has what is for all")
            assert probe(c).packets == ([b"2"] if group is None else [b"1", b"2"])
            assert probe(a).packets == []
            a.cut_off([b.address])
            a.submit([Cast(b"3", (b.address, c.address)), Cast(b"4", (b.address,)), Cast(b"5")])
            await until(lambda: b"5" in probe(c).packets, "the third is reached")
            assert probe(c).packets[-2:] == [b"3", b"5"]
            assert a.stats()["dropped: cut"] == 3

    asyncio.run(main())


@pytest.mark.parametrize("group", [None, "239.7.7.7:0"], ids=["unicast", "multicast"])
def test_who_is_cut_off_is_neither_heard_nor_reached_until_it_heals(group: str | None) -> None:
    addresses = free_addresses(4)
    if group is not None:
        group = group.replace(":0", ":" + addresses.pop().rpartition(":")[2])

    async def main() -> None:
        a, b, c = (make(address, addresses[:3], group=group) for address in addresses[:3])
        async with running(a), running(b), running(c):
            a.cut_off([b.address])
            a.submit([Cast(b"cast"), Send(b.address, b"sent")])
            await until(lambda: probe(c).packets == [b"cast"], "the third is reached")
            assert a.stats()["dropped: cut"] == 2
            b.submit([Send(a.address, b"back")])
            await until(lambda: a.stats()["dropped: cut"] == 3, "what the other sent has come")
            assert probe(a).packets == []
            a.cut_off([])
            a.submit([Send(b.address, b"healed")])
            await until(lambda: probe(b).packets, "the other is reached again")
            assert probe(b).packets == [b"healed"]
            b.submit([Send(a.address, b"answer")])
            await until(lambda: probe(a).packets == [b"answer"], "the other is heard again")
            assert a.stats()["dropped: cut"] == 3

    asyncio.run(main())


def test_what_is_to_be_cut_off_is_an_address() -> None:
    with pytest.raises(MisuseError, match="the address to cut off 'b' is not a numeric IPv4 address"):
        make().cut_off(["b"])


def test_a_port_that_refuses_packets_is_hinted_at() -> None:
    (nobody,) = free_addresses(1)

    async def main() -> None:
        host = make()
        async with running(host):
            host.submit([Send(nobody, b"hello")] * 3)
            await until(lambda: "hint" in probe(host).names, "the port has refused")
            assert {call[2] for call in probe(host).calls if call[0] == "hint"} == {nobody}
            assert host.stats()["dropped: sent, but came back: ECONNREFUSED"] >= 1

    asyncio.run(main())


def test_after_a_refusal_no_packet_to_others_is_lost() -> None:
    (nobody,) = free_addresses(1)

    async def main() -> None:
        a, b = make(), make()
        async with running(a), running(b):
            packets = [b"%d" % number for number in range(50)]
            for packet in packets:
                a.submit([Send(nobody, b"hello"), Send(b.address, packet)])
            await until(lambda: len(probe(b).packets) == 50, "all have arrived")
            assert probe(b).packets == packets

    asyncio.run(main())


@pytest.mark.parametrize(
    ("effect", "name"),
    [
        (Send("127.0.0.1:9", bytes(65508)), "dropped: send: too large"),
        (Send("example.org:80", b"x"), "dropped: send: no such address"),
        (Send("127.0.0.1:99999", b"x"), "dropped: send: no such address"),
        (Send("127.0.0.1:0", b"x"), "dropped: send: EINVAL"),
    ],
)
def test_what_cannot_be_sent_is_counted_by_name(effect: Effect, name: str) -> None:
    async def main() -> None:
        host = make()
        async with running(host) as task:
            host.submit([effect])
            assert host.stats()[name] == 1
            assert not task.done()

    asyncio.run(main())


def keys(*letters: bytes) -> Keys:
    return Keys(tuple(Key(letter * 32) for letter in letters))


def test_members_with_one_key_hear_each_other_once_they_have_proven_to_live() -> None:
    async def main() -> None:
        a, b = make(keys=keys(b"k")), make(keys=keys(b"k"))
        async with running(a), running(b):

            def heard() -> bool:
                a.submit([Send(b.address, packet(a, b"hello"))])
                return bool(probe(b).packets)

            await until(heard, "a packet has been opened")
            assert set(probe(b).packets) == {packet(a, b"hello")}
            assert b.stats()["dropped: refused: unproven"] >= 1

    asyncio.run(main())


@pytest.mark.parametrize(("others", "why"), [(None, "unsealed"), (keys(b"x"), "key")])
def test_who_has_no_key_or_another_one_reaches_no_engine_and_is_counted_and_named(
    others: Keys | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        host, other = make(keys=keys(b"k")), make(keys=others)
        async with running(host), running(other):
            other.submit([Send(host.address, packet(other, b"hello"))])
            await until(lambda: host.stats().get(f"dropped: refused: {why}"), "it has been refused")
            assert probe(host).packets == []
            assert [record.message for record in caplog.records if other.address in record.message]

    asyncio.run(main())


def test_a_member_of_another_wire_version_is_named_on_both_sides(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The newer one is played: its head says another version, and it sees ours as another one."""

    async def main() -> None:
        host = make(keys=keys(b"k"))
        async with running(host):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as newer:
                newer.bind(("127.0.0.1", 0))
                newer.setblocking(False)
                newer.sendto(
                    b"cs" + bytes([VERSION + 1, 0]) + keys(b"k")[0].id + bytes(64), parse_address(host.address)
                )
                await until(lambda: "speaks wire version 2" in caplog.text, "it has been named")
                told = await asyncio.get_running_loop().sock_recv(newer, 100)
                assert told[:3] == b"cs" + bytes([VERSION])
            assert host.stats()["dropped: refused: version"] == 1

    asyncio.run(main())


def test_a_key_is_changed_without_losing_a_packet() -> None:
    """First all open with both, then each seals with the new one."""

    async def main() -> None:
        a, b = make(keys=keys(b"k", b"n")), make(keys=keys(b"k", b"n"))
        async with running(a), running(b):

            def heard() -> bool:
                a.submit([Send(b.address, packet(a, b"hello"))])
                return bool(probe(b).packets)

            await until(heard, "a packet has been opened")
            packets = [packet(a, b"%d" % number) for number in range(20)]
            for number, each in enumerate(packets):
                if number == 10:
                    a.rekey(keys(b"n", b"k"))
                a.submit([Send(b.address, each)])
            await until(lambda: packets[-1] in probe(b).packets, "the last one has been opened")
            assert probe(b).packets[-20:] == packets

    asyncio.run(main())


def test_a_process_without_a_key_cannot_change_it() -> None:
    with pytest.raises(MisuseError, match="started without a key"):
        make().rekey(keys(b"k"))


def packet(host: Host, body: bytes) -> bytes:
    """A packet that is in the name of who seals it."""
    assert host.life is not None
    return header(1, host.life.pid) + body


# ---- where ----


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("10.0.0.1:7700", "covey key new"),
        ("0.0.0.0:7700", "all addresses of this machine"),
        ("localhost:7700", "not a numeric IPv4 address"),
        ("127.0.0.1", "not a numeric IPv4 address"),
    ],
)
def test_an_address_that_cannot_be_is_refused_with_what_to_do(address: str, what: str) -> None:
    with pytest.raises(MisuseError, match=what):
        make(address)


def test_a_group_that_is_none_is_refused() -> None:
    with pytest.raises(MisuseError, match="no multicast group"):
        make(group="127.0.0.1:7700")


def test_with_a_key_any_address_is_allowed() -> None:
    assert make("10.0.0.1:7700", keys=keys(b"k")).address == "10.0.0.1:7700"


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(WorldError, match="another process does already"):
            asyncio.run(make(f"127.0.0.1:{taken.getsockname()[1]}").run())


# ---- pauses ----


def test_a_pause_is_told_of_before_what_was_received_meanwhile() -> None:
    async def main() -> None:
        host = make()
        async with running(host):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                time.sleep(2 * PAUSE_S)  # noqa: ASYNC251 - the process does not run
                other.sendto(b"hello", ("127.0.0.1", int(host.address.rpartition(":")[2])))
            await until(lambda: probe(host).packets, "the packet has arrived")
            names = probe(host).names
            assert names[names.index("paused") :][:2] == ["paused", "receive"]
            (seconds,) = (call[2] for call in probe(host).calls if call[0] == "paused")
            assert seconds >= 2 * PAUSE_S

    asyncio.run(main())


def test_a_start_that_took_long_is_no_pause() -> None:
    def build(around: Surroundings, addresses: Sequence[str]) -> Engine:
        time.sleep(2 * PAUSE_S)
        return Guest(around)

    async def main() -> None:
        host = make(build=build)
        async with running(host):
            await until(lambda: probe(host).names, "it has started")
            assert probe(host).names == ["start"]

    asyncio.run(main())


def test_an_engine_is_woken_at_its_deadline_and_hears_of_no_pause_while_the_loop_runs() -> None:
    async def main() -> None:
        host = make()
        async with running(host):
            assert host.life is not None
            probe(host).deadline = wanted = host.life.now + 3 * PAUSE_S
            host.submit([])
            await until(lambda: "wake" in probe(host).names, "it was woken")
            assert next(call[1] for call in probe(host).calls if call[0] == "wake") >= wanted

    asyncio.run(main())


# ---- disk ----


class SlowDisk(Disk):
    """Takes its time, and counts what it made durable."""

    seconds = 0.0

    def flush(self) -> None:
        time.sleep(self.seconds)
        super().flush()


def test_a_slow_disk_holds_up_the_engine_and_not_the_loop() -> None:
    """What was to be written is durable before anything later happens; it counts as a pause of the process."""

    async def main() -> None:
        disk, told = SlowDisk(), []
        host, other = make(storage=disk, on_effect=told.append), make()
        async with running(host), running(other):
            disk.seconds = 3 * PAUSE_S
            deliver = Deliver(ProcessId("x", 1), 1, (b"m",))
            host.submit([Send(other.address, b"before"), Store("k", b"1"), deliver, Send(other.address, b"after")])
            other.submit([Send(host.address, b"meanwhile")])
            turns = 0
            while not told:
                assert probe(host).packets == []
                assert b"after" not in probe(other).packets
                await asyncio.sleep(0.01)
                turns += 1
            assert turns >= 10, "the loop went on"
            await until(lambda: probe(host).packets, "what waited has been received")
            assert [name for name in probe(host).names if name != "submit"] == ["start", "paused", "receive"]
            await until(lambda: probe(other).packets == [b"before", b"after"], "the last one has left")
            stats = host.stats()
            assert stats["longest delay of the loop s"] < disk.seconds <= stats["longest commit s"]

    asyncio.run(main())


def test_what_sqlite_was_given_is_found_again(tmp_path: Path) -> None:
    async def main() -> None:
        storage = SqliteStorage(tmp_path / "a.db")
        host = make(storage=storage)
        async with running(host):
            for number in range(20):
                host.submit([Store("k", b"%d" % number), Append(bytes(number)), Send(host.address, b"%d" % number)])
            await until(lambda: len(probe(host).packets) == 20, "all is durable")
        storage.close()
        again = SqliteStorage(tmp_path / "a.db")
        assert (again.get("k"), again.log()) == (b"19", [bytes(number) for number in range(20)])
        again.close()

    asyncio.run(main())


def test_an_application_whose_every_message_is_written_does_not_starve_the_engine() -> None:
    """It submits again as soon as one is durable: there is never a moment in which nothing waits for the disk."""

    async def main() -> None:
        disk = SlowDisk()
        told: list[Any] = []

        def again(effect: Deliver | Install) -> None:
            told.append(effect)
            host.submit([Append(b"x"), deliver])

        deliver = Deliver(ProcessId("x", 1), 1, (b"m",))
        host, other = make(storage=disk, on_effect=again), make()
        async with running(host), running(other):
            disk.seconds = PAUSE_S / 20
            host.submit([Append(b"x"), deliver])
            other.submit([Send(host.address, b"hello")])
            await until(lambda: probe(host).packets and len(told) > 30, "the packet has been received")
            disk.seconds = 0.0

    asyncio.run(main())


class BrokenDisk(Disk):
    def append(self, record: bytes) -> None:
        raise WorldError("the disk is full")


def test_a_disk_that_fails_ends_the_run_and_nothing_later_happens() -> None:
    async def main() -> None:
        told: list[Any] = []
        host = make(storage=BrokenDisk(), on_effect=told.append)
        async with running(host) as task:
            host.submit([Append(b"x"), Deliver(ProcessId("x", 1), 1, (b"m",))])
            with pytest.raises(WorldError, match="the disk is full"):
                await task
            assert told == []

    asyncio.run(main())


# ---- the end ----


class Faulty(Probe):
    def receive(self, now: float, source: str, packet: bytes) -> None:
        raise RuntimeError("a bug")


def test_an_error_of_the_engine_ends_the_run() -> None:
    async def main() -> None:
        host, other = make(build=lambda around, _: Faulty(around)), make()
        async with running(host) as task, running(other):
            other.submit([Send(host.address, b"hello")])
            with pytest.raises(RuntimeError, match="a bug"):
                await task

    asyncio.run(main())


def test_a_halt_ends_the_run_and_gives_the_port_back() -> None:
    async def main() -> None:
        host = make()
        async with running(host) as task:
            halt = Halt("enough", restart=False)
            host.submit([Send(host.address, b"x"), halt, Send(host.address, b"never")])
            assert await task == halt
            assert host.submit([Send(host.address, b"never")]) == 0
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
                taken.bind(("127.0.0.1", int(host.address.rpartition(":")[2])))

    asyncio.run(main())


def test_an_engine_is_not_asked_to_leave_once_its_halt_is_taken() -> None:
    async def main() -> None:
        host = make(on_effect=lambda effect: host.leave())
        async with running(host) as task:
            engine = probe(host)
            host.submit([Deliver(ProcessId("x", 1), 1, (b"m",)), Halt("enough", restart=False)])
            await task
            assert engine.names == ["start", "submit"]

    asyncio.run(main())


@pytest.mark.parametrize("restarts", [True, False])
def test_a_halt_that_asks_for_it_starts_the_next_incarnation_where_the_caller_wants_that(restarts: bool) -> None:
    async def main() -> None:
        sink = MemorySink()
        host = make(restarts=restarts, recorder=Recorder(sink))
        async with running(host) as task:
            first = host.address
            halt = Halt("you are dead", restart=True)
            host.submit([halt])
            await until(lambda: task.done() or probe(host).me.incarnation == 2, "the next incarnation has begun")
            assert task.done() != restarts
            assert host.address == first
        expected = [("start", 1), ("fail", 1), *([("start", 2), ("stop", 2)] if restarts else [])]
        assert [(row["event"], row["incarnation"]) for row in sink.rows] == expected

    asyncio.run(main())


def test_each_start_with_new_storage_has_a_name_of_its_own() -> None:
    async def main() -> None:
        a, b = make(), make()
        async with running(a), running(b):
            assert probe(a).me.name != probe(b).me.name
            assert probe(a).me.name.startswith(f"{socket.gethostname()}-{os.getpid()}-")

    asyncio.run(main())


class Lingering(Probe):
    """Takes some time to leave: until the packet `go`."""

    def receive(self, now: float, source: str, packet: bytes) -> None:
        super().receive(now, source, packet)
        if "leave" in self.names:
            self.out.append(Halt("left", restart=False))


def test_a_cancelled_host_leaves_gracefully_first() -> None:
    async def main() -> None:
        sink = MemorySink()
        host, other = make(build=lambda around, _: Lingering(around), recorder=Recorder(sink)), make()
        async with running(host) as task, running(other):
            task.cancel()
            await until(lambda: "leave" in probe(host).names, "it was told to leave")
            assert not task.done()
            host.leave()
            assert probe(host).names.count("leave") == 1, "it is told once"
            other.submit([Send(host.address, b"go")])
            with pytest.raises(asyncio.CancelledError):
                await task
        assert sink.rows[-1]["event"] == "stop"

    asyncio.run(main())


class Rude(Engine):
    """An engine that cannot leave."""

    def start(self, now: float) -> None: ...
    def receive(self, now: float, source: str, packet: bytes) -> None: ...
    def wake(self, now: float) -> None: ...


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("engine", [Rude, Lingering])
def test_a_signal_lets_the_process_leave(
    number: signal.Signals, engine: type[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.net.life.LEAVE_S", 0.05)

    class Signalled(engine):  # type: ignore[misc, valid-type]
        def start(self, now: float) -> None:
            super().start(now)
            os.kill(os.getpid(), number)

    def build(around: Surroundings, addresses: Sequence[str]) -> Engine:
        return Signalled(around)

    halt = serve(Host(build, "127.0.0.1:0", [], Disk()))
    assert halt == Halt("left" if engine is Rude else "did not leave in time", restart=False)


def test_a_host_told_to_leave_before_it_lives_leaves_as_soon_as_it_does() -> None:
    async def main() -> None:
        sink = MemorySink()
        host = make(recorder=Recorder(sink))
        host.leave()
        assert await host.run() == Halt("left", restart=False)
        assert [row["event"] for row in sink.rows] == ["start", "stop"]

    asyncio.run(main())


def test_a_host_told_to_leave_while_the_disk_writes_leaves_then() -> None:
    async def main() -> None:
        disk = SlowDisk()
        host = make(storage=disk)
        async with running(host) as task:
            disk.seconds = 0.1
            host.submit([Append(b"x")])
            host.leave()
            assert await task == Halt("left", restart=False)
            assert disk.log() == [b"x"]

    asyncio.run(main())


def test_uvloop_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[asyncio.AbstractEventLoop] = []

    def new_event_loop() -> asyncio.AbstractEventLoop:
        made.append(asyncio.new_event_loop())
        return made[-1]

    monkeypatch.setitem(sys.modules, "uvloop", SimpleNamespace(new_event_loop=new_event_loop))
    host = make()
    host.leave()
    serve(host)
    assert len(made) == 1


# ---- hostile ----


def test_garbage_at_full_load_is_counted_by_the_engine_and_raises_nothing() -> None:
    """A real engine among strangers: it keeps its view, and goes on to take part."""
    addresses = free_addresses(3)
    views: dict[str, Install] = {}

    def build(around: Surroundings, everybody: Sequence[str]) -> Engine:
        return Sites(around, everybody, configured=addresses, options=LinkOptions(hello_s=0.05))

    def site(address: str) -> Host:
        disk = Disk()
        provision(disk, address, address)
        watch = lambda effect: views.__setitem__(address, effect)  # noqa: E731
        return Host(build, address, addresses, disk, on_effect=watch)

    def agree() -> bool:
        return {tuple(sorted(name.rpartition("/")[0] for name in view.members)) for view in views.values()} == {
            tuple(sorted(addresses))
        } and len(views) == 3

    async def main() -> None:
        random = Random(1)
        hosts = [site(address) for address in addresses]
        async with AsyncExitStack() as stack:
            tasks = [await stack.enter_async_context(running(host)) for host in hosts]
            stranger = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            for _ in range(100):
                for host in hosts:
                    where = ("127.0.0.1", int(host.address.rpartition(":")[2]))
                    for size in (0, 1, 9, 100, 1400, 65507):
                        stranger.sendto(random.randbytes(size), where)
                await asyncio.sleep(0)
            await until(agree, "all are in one view")
            assert not any(task.done() for task in tasks)
            for host in hosts:
                garbage = host.stats()
                assert garbage["dropped: packet: short"] + garbage["dropped: packet: magic"] > 100

    asyncio.run(main())
