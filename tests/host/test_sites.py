"""Real processes, killed, stopped and told to go, live through one sequence of views; their traces are judged."""

import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from covey.net.keys import new_key_file
from covey.trace import read_checked
from tests.host.cluster import WAIT_S, Sites
from tests.host.things import free_addresses


@pytest.fixture
def sites(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sites]:
    count, is_sealed = request.param
    if is_sealed:
        new_key_file(tmp_path / "group.key")
    sites = Sites(tmp_path, free_addresses(count))
    try:
        yield sites
    finally:
        sites.freeze()


@pytest.mark.parametrize("sites", [(5, False), (5, True)], indirect=True, ids=["plain", "sealed"])
def test_a_killed_and_a_stopped_site_come_back_into_one_view(sites: Sites) -> None:
    killed, stopped, *others = sites.addresses
    sites.start()
    first = sites.agree(*sites.addresses)
    sites.kill(killed)
    second = sites.agree(stopped, *others, after=first)
    sites.signal(stopped, signal.SIGSTOP)
    sites.start(killed)
    third = sites.agree(killed, *others, after=second)
    sites.signal(stopped, signal.SIGCONT)
    sites.agree(*sites.addresses, after=third)
    assert sites.judge() == []


@pytest.mark.parametrize("sites", [(3, False), (3, True)], indirect=True, ids=["plain", "sealed"])
def test_a_site_that_is_stopped_for_seconds_is_told_and_comes_again(sites: Sites) -> None:
    """It wakes up to find that the others went on without it: the same process, the next incarnation."""
    stopped, *others = sites.addresses
    sites.start()
    first = sites.agree(*sites.addresses)
    sites.signal(stopped, signal.SIGSTOP)
    second = sites.agree(*others, after=first)
    sites.signal(stopped, signal.SIGCONT)
    sites.agree(*sites.addresses, after=second)
    assert f"{stopped}/2" in sites.view(stopped).split()
    assert sites.judge() == []


@pytest.mark.parametrize("sites", [(3, True)], indirect=True)
def test_a_site_told_to_go_leaves_at_once_and_finishes_its_trace(sites: Sites) -> None:
    leaving, *others = sites.addresses
    sites.start()
    first = sites.agree(*sites.addresses)
    sites.signal(leaving, signal.SIGTERM)
    assert sites.running.pop(leaving).wait(WAIT_S) == 0
    sites.agree(*others, after=first)
    assert sites.judge() == []
    rows = [row for row in read_checked(sites.folder / "trace") if row.process == leaving]
    assert max(rows, key=lambda row: row.index).event == "stop"


@pytest.mark.parametrize("sites", [(5, True)], indirect=True)
def test_all_killed_at_once_go_on_where_their_storage_ends(sites: Sites) -> None:
    sites.start()
    first = sites.agree(*sites.addresses)
    for address in sites.addresses:
        sites.signal(address, signal.SIGSTOP)
    for address in sites.addresses:
        sites.kill(address)
    sites.start()
    sites.agree(*sites.addresses, after=first)
    assert sites.judge() == []


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("sites", [(5, True)], indirect=True)
def test_sites_killed_and_stopped_at_any_moment_end_up_in_one_view(sites: Sites, seed: int) -> None:
    """Also while they start, and while the others are about to take them in or to leave them out."""
    random = Random(seed)
    sites.start()
    last = sites.agree(*sites.addresses)
    for _ in range(8):
        one, other = random.sample(sites.addresses, 2)
        sites.signal(other, signal.SIGSTOP)
        sites.kill(one)
        sites.start(one)
        sites.has_written(one, random.choice([0, 1, 1, 250]))
        sites.signal(other, signal.SIGCONT)
    sites.agree(*sites.addresses, after=last)
    assert sites.judge() == []
