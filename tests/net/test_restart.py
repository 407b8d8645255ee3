"""No nonce repeats, whenever a process is killed and whatever older copy of its data it is started from."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from covey.kernel.ids import ProcessId
from covey.kernel.storage_sqlite import SqliteStorage
from covey.net.keys import Key, Keys
from covey.net.seal import Seals

LIVES = 12

MEMBER = """
import os, sys
from pathlib import Path
from covey.kernel.storage import next_incarnation
from covey.kernel.storage_sqlite import SqliteStorage
from covey.kernel.wire import header
from covey.net.keys import Key, Keys
from covey.net.seal import Seals

folder = Path(sys.argv[1])
me = next_incarnation(SqliteStorage(folder / "storage"), lambda: "p", "here")
seals = Seals(Keys((Key(bytes(32)),)), me, os.urandom(16))
packet = header(1, me) + bytes(100)
os.write(1, me.incarnation.to_bytes(4))
while True:
    os.write(1, seals.seal(packet))
"""
HEAD_BYTES, TAG_BYTES = 32, 16
DATAGRAM_BYTES = HEAD_BYTES + 10 + 100 + TAG_BYTES


def live(folder: Path, datagrams: int) -> tuple[int, list[bytes]]:
    """Run a member and kill it after so many datagrams, wherever that finds it; return its incarnation and them."""
    with subprocess.Popen([sys.executable, "-c", MEMBER, folder], stdout=subprocess.PIPE) as member:
        assert member.stdout is not None
        incarnation = int.from_bytes(member.stdout.read(4))
        sent = member.stdout.read(datagrams * DATAGRAM_BYTES)
        member.kill()
        sent += member.stdout.read()
    whole = len(sent) // DATAGRAM_BYTES
    return incarnation, [sent[at * DATAGRAM_BYTES : (at + 1) * DATAGRAM_BYTES] for at in range(whole)]


def hidden(datagram: bytes) -> bytes:
    """What is encrypted, without the tag: that differs with the boot id, whatever the key."""
    return datagram[HEAD_BYTES:-TAG_BYTES]


def test_no_nonce_repeats_across_kills_and_restarts_from_older_disk_images(tmp_path: Path) -> None:
    chance = random.Random(4)
    folder = tmp_path / "data"
    folder.mkdir()
    SqliteStorage(folder / "storage").close()
    images = [shutil.copytree(folder, tmp_path / "image-0")]
    incarnations = []
    sent: list[bytes] = []
    for number in range(1, LIVES + 1):
        incarnation, datagrams = live(folder, chance.choice((0, 1, 2, 50, 1000)))
        incarnations.append(incarnation)
        sent += datagrams
        images.append(shutil.copytree(folder, tmp_path / f"image-{number}"))
        shutil.rmtree(folder)
        shutil.copytree(chance.choice(images), folder)

    assert len(set(incarnations)) < LIVES, "no life was led twice, so this shows nothing"
    assert len({datagram[:HEAD_BYTES] for datagram in sent}) == len(sent)
    # All hold one packet an incarnation: under one key and nonce they would look the same.
    assert len({hidden(datagram) for datagram in sent}) == len(sent)
    numbers = [datagram[HEAD_BYTES - 8 : HEAD_BYTES] for datagram in sent]
    assert len(set(numbers)) < len(numbers), "the numbers start anew with each life: it is the boot id that tells apart"


def test_two_starts_of_one_disk_image_share_no_key() -> None:
    """Also where chance has the numbers, and so the nonces, agree."""
    keys = Keys((Key(bytes(32)),))
    starts = [
        Seals(keys, process, boot)
        for process in (ProcessId("p", 1), ProcessId("p", 2), ProcessId("q", 1))
        for boot in (bytes(16), bytes([*range(1, 13), 0, 0, 0, 0]), os.urandom(16))
    ]
    assert len({hidden(start.seal(b"the same")) for start in starts}) == len(starts)
