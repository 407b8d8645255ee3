"""No nonce repeats, whenever a host is killed and whatever older copy of its data folder it is started from."""

import asyncio
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random

from covey.net.host import Host
from tests.host.talker import KEYS, NOTE_BYTES, read, read_notes
from tests.host.things import free_addresses, make, probe, running, until

ROOT = Path(__file__).parents[2]
LIVES = 14


class Disk:
    """A data folder, its older copies, and the notes that no restart takes back."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.data = folder / "data"
        self.notes = folder / "notes"
        self.chance = Random(seed)
        self.data.mkdir()
        self.notes.touch()
        self.copies = [folder / "copy-0"]
        shutil.copytree(self.data, self.copies[0])

    def is_written(self) -> bool:
        return any(self.data.iterdir())

    def noted(self) -> int:
        return self.notes.stat().st_size // NOTE_BYTES

    def copy(self) -> None:
        self.copies.append(self.data.with_name(f"copy-{len(self.copies)}"))
        shutil.copytree(self.data, self.copies[-1])

    def put_back(self, copy: Path) -> None:
        shutil.rmtree(self.data)
        shutil.copytree(copy, self.data)


async def live(disk: Disk, address: str, peer: Host, is_enough: Callable[[], bool]) -> None:
    """Start the talker, and kill it as soon as that is so, wherever that finds it."""
    words = "-m", "tests.host.talker", disk.data, disk.notes, address, peer.address
    process = await asyncio.create_subprocess_exec(sys.executable, *words, cwd=ROOT)
    try:
        await until(is_enough, "it has lived long enough")
    finally:
        process.kill()
        await process.wait()
        disk.copy()


def moment(disk: Disk) -> Callable[[], bool]:
    """Some moment of the next life: while it opens its storage, or after some packets."""
    packets = disk.chance.choice((None, 0, 1, 2, 30, 300, 1000))
    if packets is None:
        return disk.is_written
    enough = disk.noted() + packets
    return lambda: disk.noted() >= enough


def introductions(peer: Host) -> float:
    """How many lives have proven to live, whether they were let in or not."""
    return sum(peer.stats().get(f"dropped: refused: {reason}", 0) for reason in ("proven", "boot"))


def test_no_nonce_repeats_across_kills_and_restarts_from_older_data_folders(tmp_path: Path) -> None:
    disk = Disk(tmp_path, seed=4)
    (address,) = free_addresses(1)

    async def main() -> tuple[list[bytes], dict[str, float]]:
        peer = make(keys=KEYS)
        async with running(peer):
            for _ in range(LIVES):
                await live(disk, address, peer, moment(disk))
                if disk.chance.random() < 0.6:
                    disk.put_back(disk.chance.choice(disk.copies))
            for _ in range(2):
                disk.put_back(disk.copies[0])
                met = introductions(peer)
                await live(disk, address, peer, lambda met=met: introductions(peer) > met)
            return probe(peer).packets, peer.stats()

    packets, stats = asyncio.run(main())
    notes = read_notes(disk.notes)
    assert len({(note.key, note.nonce) for note in notes}) == len(notes)

    heads = defaultdict(set)
    for note in notes:
        heads[note.process].add(note.head)
    assert max(map(len, heads.values())) > 1, "no incarnation was lived twice, so this shows nothing"
    numbers = Counter(note.nonce[4:] for note in notes)
    assert max(numbers.values()) > 1, "numbers start anew with each life: it is the boot id that tells apart"

    lives = defaultdict(set)
    for packet in packets:
        said = read(packet)
        lives[said.process].add(said.life)
    assert lives, "nothing has arrived, so this shows nothing"
    assert max(map(len, lives.values())) == 1, "of two lives of one incarnation both were accepted"
    assert stats["dropped: refused: boot"] > 0
