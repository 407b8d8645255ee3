"""A host that is told of others while it runs reaches them: what discovery finds becomes hellos, and a view."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from covey.isis.links import LinkOptions
from covey.isis.sites import Sites
from covey.kernel.effects import Cast
from covey.kernel.engine import Surroundings
from covey.kernel.storage import provision
from covey.net.discovery.discovery import Discovery
from covey.net.discovery.source import DiscoveryOptions
from covey.net.host import Host
from covey.sim.disk import Disk
from tests.host.things import Guest, make, probe, running, until

NAMES = ("a", "b", "c")


def build(around: Surroundings, addresses: Sequence[str]) -> Sites:
    return Sites(around, addresses, configured=NAMES, options=LinkOptions(hello_s=0.1))


def site(name: str) -> Host:
    storage = Disk()
    provision(storage, name, name)
    return make(storage=storage, build=build)


def members(host: Host) -> list[str]:
    assert host.life is not None
    assert isinstance(host.life.engine, Sites)
    view = host.life.engine.memory.view
    return [] if view is None else sorted(pid.name for pid in view.members)


def test_sites_that_find_each_other_in_a_directory_agree_on_a_view(tmp_path: Path) -> None:
    async def main() -> None:
        hosts = [site(name) for name in NAMES]
        async with running(hosts[0]), running(hosts[1]), running(hosts[2]):
            looking = [
                asyncio.create_task(
                    Discovery([f"dir:{tmp_path}"], name, host.address, DiscoveryOptions(look_every_s=0.1)).run(
                        host.meet
                    )
                )
                for name, host in zip(NAMES, hosts, strict=True)
            ]
            await until(lambda: all(members(host) == list(NAMES) for host in hosts), "all are in one view")
            for task in looking:
                task.cancel()
            await asyncio.wait(looking)

    asyncio.run(main())


def test_a_cast_goes_to_those_who_were_met_last() -> None:
    async def main() -> None:
        a, b, c = make(), make(), make()
        async with running(a), running(b), running(c):
            a.meet([b.address])
            a.submit([Cast(b"1")])
            a.meet([c.address, "[::1]:7400"])
            a.submit([Cast(b"2")])
            await until(lambda: probe(b).packets and probe(c).packets, "both have heard")
            assert (probe(b).packets, probe(c).packets) == ([b"1"], [b"2"])
            assert a.stats()["dropped: meet: no such address"] == 1

    asyncio.run(main())


class Met(Guest):
    """Writes down whom it is told of."""

    def meet(self, now: float, addresses: Sequence[str]) -> None:
        self.calls.append(("meet", now, list(addresses)))


def test_who_is_found_while_an_engine_is_made_is_told_to_it_once_it_has_started() -> None:
    async def main() -> None:
        def build(around: Surroundings, addresses: Sequence[str]) -> Met:
            host.meet(["127.0.0.1:7400"])
            return Met(around)

        host = make(build=build)
        async with running(host):
            await until(lambda: "meet" in probe(host).names, "it has been told")
            assert probe(host).names[:2] == ["start", "meet"]
            assert probe(host).calls[1][2] == [host.address, "127.0.0.1:7400"]

    asyncio.run(main())
