"""A sealed host as a process of its own, for tests: it talks without end, and notes how each packet was sealed.

python -m tests.host.talker FOLDER NOTES ADDRESS PEER

Storage is in the folder. A note is in the file before the packet can leave: the key and the nonce of its seal, the
head that goes with it in the clear, and the beginning of the packet.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from covey.kernel.effects import Cast, Store
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.storage import NAME_KEY, provision
from covey.kernel.storage_sqlite import SqliteStorage
from covey.kernel.wire import header
from covey.net import seal
from covey.net.host import Host, serve
from covey.net.keys import Key, Keys

KEYS = Keys((Key(b"k" * 32),))
NAME = "p"
KEY_BYTES, NONCE_BYTES, HEAD_BYTES, ID_BYTES = 32, 12, 24, 10


class Said(NamedTuple):
    """A packet: which incarnation sent it, and in which life, which is another one after each start."""

    process: bytes
    life: bytes


class Note(NamedTuple):
    """How a packet was sealed."""

    key: bytes
    nonce: bytes
    head: bytes
    process: bytes


def read(packet: bytes) -> Said:
    return Said(packet[:ID_BYTES], packet[ID_BYTES:])


def read_notes(file: Path) -> list[Note]:
    content, notes, at = file.read_bytes(), [], 0
    while at + NOTE_BYTES <= len(content):
        cuts = [at := at + size for size in SIZES]
        notes.append(Note(*(content[end - size : end] for end, size in zip(cuts, SIZES, strict=True))))
    return notes


SIZES = KEY_BYTES, NONCE_BYTES, HEAD_BYTES, ID_BYTES
NOTE_BYTES = sum(SIZES)


class Talker(Engine):
    """Casts all the time, and writes to its disk all the time."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.packet = header(1, self.me) + around.random.getrandbits(64).to_bytes(8)
        self.casts = 0

    def start(self, now: float) -> None:
        self.wake(now)

    def receive(self, now: float, source: str, packet: bytes) -> None: ...

    def wake(self, now: float) -> None:
        self.casts += 1
        self.out += [Cast(self.packet), Store("casts", self.casts.to_bytes(8)), Cast(self.packet)]
        self.deadline = now + 0.001


class Noting:
    """AESGCM, with a note of each seal."""

    file = -1

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.decrypt = AESGCM(key).decrypt

    def encrypt(self, nonce: bytes, packet: bytes, head: bytes) -> bytes:
        os.write(self.file, self.key + nonce + head + packet[:ID_BYTES])
        return AESGCM(self.key).encrypt(nonce, packet, head)


def build(around: Surroundings, addresses: Sequence[str]) -> Talker:
    return Talker(around)


def main(folder: Path, notes: Path, address: str, peer: str) -> None:
    Noting.file = os.open(notes, os.O_WRONLY | os.O_APPEND)
    seal.AESGCM = Noting  # type: ignore[misc, assignment]
    storage = SqliteStorage(folder / "storage")
    if storage.get(NAME_KEY) is None:
        provision(storage, NAME, "the storage")
    serve(Host(build, address, [peer], storage, keys=KEYS))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
