"""The laboratory does what it says, before anything is concluded from it."""

import os
import socket
from pathlib import Path

import pytest

from tests.net.lab import NAMESPACES, Lab

pytestmark = pytest.mark.net

PORT = 7700


def arrives(lab: Lab, source: str, target: str) -> bool:
    with lab.udp(target, PORT) as inbox, lab.udp(source) as outbox:
        outbox.sendto(b"hello", (lab.address(target), PORT))
        try:
            content, (address, _) = inbox.recvfrom(100)
        except TimeoutError:
            return False
        assert (content, address) == (b"hello", lab.address(source))
        return True


def test_a_packet_passes_between_hosts(lab: Lab) -> None:
    assert arrives(lab, "a", "b")
    assert arrives(lab, "b", "c")


def test_a_cut_goes_one_way_and_heals(lab: Lab) -> None:
    lab.cut("a", "b")
    assert not arrives(lab, "a", "b")
    assert arrives(lab, "b", "a")
    assert arrives(lab, "a", "c")
    assert arrives(lab, "c", "b")
    lab.heal()
    assert arrives(lab, "a", "b")


def test_a_host_without_a_network_sends_nothing_until_it_is_plugged_in_again(lab: Lab) -> None:
    lab.unplug("a")
    with pytest.raises(OSError, match="unreachable"):
        arrives(lab, "a", "b")
    lab.plug("a")
    assert arrives(lab, "a", "b")


def test_half_of_the_packets_are_lost(lab: Lab) -> None:
    lab.lose("a", "b", 50)
    with lab.udp("b", PORT) as inbox, lab.udp("a") as outbox:
        for number in range(400):
            outbox.sendto(number.to_bytes(2), (lab.address("b"), PORT))
        arrived = received(inbox)
    assert lab.lost() == 400 - arrived
    # 200 are expected; that it is fewer than 100 or more than 300 has a chance of 10**-23.
    assert 100 < arrived < 300


def received(inbox: socket.socket) -> int:
    count = 0
    while True:
        try:
            inbox.recv(100)
        except TimeoutError:
            return count
        count += 1


def namespaces() -> set[Path]:
    """Those that this process has made; others may run laboratories of their own."""
    return set(NAMESPACES.glob(f"covey-{os.getpid()}-*"))


def test_nothing_is_left_behind() -> None:
    before = namespaces()
    with Lab(["x", "y"]) as lab:
        names = {NAMESPACES / lab.namespace(host) for host in lab.hosts}
        assert names < namespaces() - before
    assert namespaces() == before


def test_a_laboratory_that_cannot_be_built_leaves_nothing() -> None:
    before = namespaces()
    with pytest.raises(RuntimeError, match="File exists"), Lab(["x", "x"]):
        pass
    assert namespaces() == before
