"""Sealed sites on addresses of their own, each in its own network namespace: loss, cuts and cuts in one direction.

Every wait is for what the sites print or trace, and every trace is judged.
"""

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from covey.net.keys import new_key_file
from tests.host.cluster import WAIT_S, Sites
from tests.net.lab import Lab

pytestmark = pytest.mark.net

PORT = 7700


class Town(Sites):
    """Sites in a laboratory: one on each host, which is at fault as the laboratory says."""

    def __init__(self, folder: Path, lab: Lab) -> None:
        self.lab = lab
        self.host_at = {f"{lab.address(host)}:{PORT}": host for host in lab.hosts}
        super().__init__(folder, list(self.host_at), self._enter)

    def _enter(self, address: str) -> list[str]:
        return ["ip", "netns", "exec", self.lab.namespace(self.host_at[address])]

    def cut(self, sources: list[str], targets: list[str]) -> None:
        for source in sources:
            for target in targets:
                self.lab.cut(self.host_at[source], self.host_at[target])


@pytest.fixture
def sites(lab: Lab, tmp_path: Path) -> Iterator[Town]:
    sites = Town(tmp_path, lab)
    try:
        yield sites
    finally:
        sites.freeze()


@pytest.fixture
def sealed(sites: Town) -> Town:
    new_key_file(sites.folder / "group.key")
    return sites


@pytest.mark.parametrize("lab", ["abcde"], indirect=True)
def test_sites_agree_although_packets_are_lost_and_take_in_again_who_was_killed(sealed: Town) -> None:
    for source, target in permutations(sealed.lab.hosts, 2):
        sealed.lab.lose(source, target, 5)
    sealed.start()
    seen = sealed.agree(*sealed.addresses)
    for killed in sealed.addresses[:2]:
        sealed.kill(killed)
        seen = sealed.agree(*(address for address in sealed.addresses if address != killed), after=seen)
        sealed.start(killed)
        seen = sealed.agree(*sealed.addresses, after=seen)
    assert sealed.lab.lost() > 0
    assert sealed.judge() == []


@pytest.mark.parametrize("is_unplugged", [False, True], ids=["cut", "unplugged"])
def test_the_majority_goes_on_without_who_is_cut_off_and_that_one_is_told_and_comes_again(
    sealed: Town, is_unplugged: bool
) -> None:
    alone, *others = sealed.addresses
    host = sealed.host_at[alone]
    sealed.start()
    first = sealed.agree(*sealed.addresses)
    if is_unplugged:
        sealed.lab.unplug(host)
    else:
        sealed.cut([alone], others)
        sealed.cut(others, [alone])
    second = sealed.agree(*others, after=first)
    assert sealed.view(alone).split()[0] == str(first)
    assert sealed.incarnation(alone) == 1
    sealed.lab.plug(host)
    sealed.lab.heal()
    sealed.agree(*sealed.addresses, after=second)
    assert f"{alone}/2" in sealed.view(alone).split()
    assert sealed.judge() == []


@pytest.mark.parametrize("place", [0, -1], ids=["oldest", "youngest"])
@pytest.mark.parametrize("is_deaf", [True, False], ids=["deaf", "mute"])
def test_the_others_go_on_without_who_does_not_hear_them_and_without_whom_they_do_not_hear(
    sealed: Town, is_deaf: bool, place: int
) -> None:
    """A cut in one direction is noticed at both ends: by those who still hear, as well."""
    sealed.start()
    first = sealed.agree(*sealed.addresses)
    faulty = sealed.view(sealed.addresses[0]).split()[1:][place].rpartition("/")[0]
    others = [address for address in sealed.addresses if address != faulty]
    sealed.cut(*([others, [faulty]] if is_deaf else [[faulty], others]))
    second = sealed.agree(*others, after=first)
    if not is_deaf:
        sealed.wait(lambda: sealed.incarnation(faulty) == 2 or None)  # it hears that it is dead
    sealed.lab.heal()
    sealed.agree(*sealed.addresses, after=second)
    assert f"{faulty}/2" in sealed.view(faulty).split()
    assert sealed.judge() == []


def test_a_site_that_others_can_reach_does_not_start_without_a_key_and_says_what_to_do(sites: Town) -> None:
    address = sites.addresses[0]
    sites.start(address)
    assert sites.running[address].wait(WAIT_S) != 0
    assert f"{address} can be reached from other machines" in sites.view(address)
    assert "make a key with `covey key new` and give it to every member" in sites.view(address)
