"""Seals: packets that only members can read or make, and that are accepted once.

    head: magic "cs" | wire version | kind | key id     then, for data
    boot id | number | packet, encrypted and authenticated with all before it

Each start of a process draws a random boot id. The key that it seals with is derived from the group's
key, its name, its incarnation and that boot id, and the nonce is the number of the packet. So a nonce
repeats only where a boot id does: it does not matter what a disk remembers. (AES-256-GCM: with 1,200
bytes 0.6 us a packet, with 60,000 bytes 3.6 us; ChaCha20-Poly1305 took 1.2 and 16.8 on the same CPU.)

A receiver accepts nothing of a sender before that has answered a challenge (`covey.net.proof`), then
each number once. It keeps a table of the senders that answered. A process that it knows under another
boot id is refused: that is a disk image that was started twice.

Whatever arrives, nothing is raised: the outcome is a packet, or `Refused` with one of these reasons.
"""

import struct
import zlib
from collections import Counter

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from covey.kernel.errors import MisuseError, WorldError
from covey.kernel.ids import ProcessId, check_name
from covey.kernel.wire import MAGIC as PLAIN_MAGIC
from covey.kernel.wire import VERSION, header
from covey.net.keys import Key, Keys
from covey.net.proof import BOOT_BYTES, Cookies, answer, challenge, read_answer, read_challenge

MAGIC = b"cs"
DATA, CHALLENGE, ANSWER, NOTICE = range(4)

REASONS = {
    "short": "too few bytes for what it says it is",
    "magic": "not of covey",
    "unsealed": "of a member that has no key",
    "version": "of another wire version",
    "key": "sealed with a key that is not in the key file",
    "kind": "a kind of packet that there is not",
    "notice": "a notice about a version or key that fit by now",
    "own": "sent by this process itself",
    "unproven": "of a sender that has not answered a challenge yet",
    "forged": "not made by a member, or changed or cut on its way",
    "early": "sent before its sender was proven to live",
    "late": "so far behind that it cannot be told from a replayed one",
    "replayed": "accepted before",
    "sender": "in the name of another process than that which sealed it",
    "boot": "of a process that is known under another boot id: its disk image was started twice",
    "stale": "an answer to a challenge of another time, or of an earlier life",
    "challenged": "a challenge (no loss: it was for the seals)",
    "proven": "an answer that proves a sender (no loss: it was for the seals)",
}

PACKETS_MAX = 2**48
WINDOW = 4096
"""How many numbers a packet may be behind its sender's newest: 20 ms at 200,000 packets a second."""
SENDERS_MAX = 4096
REPLIES_MAX = 256
SLOTS = 4096
REPLY_EVERY_S = 0.1
ANSWERED_MAX = 1024

_HEAD = struct.Struct("!2sBB4s")
_PREFIX_BYTES = _HEAD.size + BOOT_BYTES
_START = _PREFIX_BYTES + 8
_NONCE = slice(_START - 12, _START)
"""The last bytes of the boot id, and the number."""
DATA_BYTES_MIN = _START + 10 + 16
"""An empty packet of a process with a name of one byte, and the tag. A challenge is shorter than this."""
_SEEN_ALL = (1 << WINDOW) - 1
_IDENTITY_AT = 4


class Refused(msgspec.Struct, frozen=True, gc=False):
    """A datagram that holds nothing for the engine: one of `REASONS`, and who or what it was about."""

    reason: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({REASONS[self.reason]}){': ' if self.detail else ''}{self.detail}"


class _Sender:
    """A process that has proven to live, and which of its packets were accepted."""

    __slots__ = ("boot", "heard", "identity", "process", "seen", "since", "top")

    def __init__(self, process: ProcessId, boot: bytes, since: int, now: float) -> None:
        self.process = process
        self.boot = boot
        self.identity = _identity(process)
        self.heard = now
        self.since = since
        self.top = since - 1
        self.seen = _SEEN_ALL

    def accept(self, number: int) -> None:
        ahead = number - self.top
        if ahead <= 0:
            self.seen |= 1 << -ahead
            return
        self.seen = ((self.seen << ahead) | 1) & _SEEN_ALL if ahead < WINDOW else 1
        self.top = number

    def refusal(self, number: int) -> str | None:
        """Why a number that is not above all others is not accepted."""
        if number < self.since:
            return "early"
        behind = self.top - number
        if behind >= WINDOW:
            return "late"
        return "replayed" if self.seen >> behind & 1 else None


def _identity(process: ProcessId) -> bytes:
    """What every packet of that process has behind magic, version and kind."""
    return header(0, process)[_IDENTITY_AT:]


class Seals:
    """Seals what one start of a process sends, and opens what it is sent."""

    def __init__(self, keys: Keys, me: ProcessId, boot: bytes) -> None:
        check_name(me.name)
        if len(boot) != BOOT_BYTES:
            raise MisuseError(f"a boot id has {BOOT_BYTES} random bytes, not {len(boot)}")
        self.me = me
        self.boot = boot
        self.replies: list[tuple[str, bytes]] = []
        """Addresses and datagrams that the host sends, as they are."""
        self.refused: Counter[str] = Counter()
        """How many datagrams were refused for each reason."""
        self._sent = 0
        self._senders: dict[bytes, _Sender] = {}
        self._boots: dict[ProcessId, bytes] = {}
        self._cookies = Cookies(keys[0], boot)
        self._answered: dict[bytes, None] = {}
        self._next_reply = [float("-inf")] * SLOTS
        self.rekey(keys)

    def rekey(self, keys: Keys) -> None:
        """Seal with the first of these keys from now on, and open with any; nothing else changes."""
        self._keys = {key.id: key for key in keys}
        self._prefix = _prefix(keys[0], self.boot)
        self._encrypt = _aead(keys[0], self.me, self.boot).encrypt
        self._doors: dict[bytes, tuple[_Sender, AESGCM]] = {}
        for sender in self._senders.values():
            self._open_doors(sender)

    # --- the way of every packet

    def seal(self, packet: bytes) -> bytes:
        """Return the packet as it goes over the network."""
        self._sent = number = self._sent + 1
        if number > PACKETS_MAX:
            raise WorldError(f"{self.me} has sealed all {PACKETS_MAX} packets of one start; start it again")
        prefix = self._prefix
        start = prefix + number.to_bytes(8)
        return start + self._encrypt(start[_NONCE], packet, prefix)

    def open(self, datagram: bytes, source: str, now: float) -> bytes | Refused:
        """Return the packet that `source` sealed, or why there is none; see also `replies`."""
        prefix = datagram[:_PREFIX_BYTES]
        door = self._doors.get(prefix)
        if door is None or len(datagram) < DATA_BYTES_MIN:
            return self._open_other(datagram, source, now)
        sender, aead = door
        number = int.from_bytes(datagram[_PREFIX_BYTES:_START])
        # A number is only believed, and remembered, once the tag has shown that it is the sender's.
        if number <= sender.top and (reason := sender.refusal(number)):
            return self._refuse(reason, f"{sender.process} at {source}")
        try:
            packet = aead.decrypt(datagram[_NONCE], memoryview(datagram)[_START:], prefix)
        except InvalidTag:
            return self._refuse("forged", f"{sender.process} at {source}")
        sender.accept(number)
        sender.heard = now
        if not packet.startswith(sender.identity, _IDENTITY_AT):
            return self._refuse("sender", f"{sender.process} at {source}")
        return packet

    # --- all else

    def _open_other(self, datagram: bytes, source: str, now: float) -> Refused:
        if len(datagram) < _HEAD.size:
            return self._refuse("short", source)
        magic, version, kind, key_id = _HEAD.unpack_from(datagram)
        if magic != MAGIC:
            return self._refuse("unsealed" if magic == PLAIN_MAGIC else "magic", source)
        if version != VERSION:
            self._notify(kind, source, now)
            return self._refuse("version", f"{source} speaks wire version {version}, {self.me} speaks {VERSION}")
        if (key := self._keys.get(key_id)) is None:
            self._notify(kind, source, now)
            mine = " ".join(each.hex() for each in self._keys)
            return self._refuse("key", f"{source} seals with key {key_id.hex()}, {self.me} has {mine}")
        match kind:
            case _ if kind == DATA:
                return self._challenge(key, datagram, source, now)
            case _ if kind == CHALLENGE:
                return self._answer(key, datagram, source, now)
            case _ if kind == ANSWER:
                return self._prove(key, datagram, source, now)
        return self._refuse("notice" if kind == NOTICE else "kind", source)

    def _notify(self, kind: int, source: str, now: float) -> None:
        """Show the other side a head of ours, so that it can name the difference too; it answers none with one."""
        if kind != NOTICE and self._may_reply(NOTICE, source, now):
            first = next(iter(self._keys.values()))
            self.replies.append((source, _head(NOTICE, first)))

    def _challenge(self, key: Key, datagram: bytes, source: str, now: float) -> Refused:
        if len(datagram) < DATA_BYTES_MIN:
            return self._refuse("short", source)
        boot = datagram[_HEAD.size : _PREFIX_BYTES]
        if boot == self.boot:
            return self._refuse("own", source)
        if self._may_reply(CHALLENGE, source, now):
            cookie = self._cookies.bake(boot, source, now)
            self.replies.append((source, challenge(key, _head(CHALLENGE, key), boot, cookie)))
        return self._refuse("unproven", source)

    def _answer(self, key: Key, datagram: bytes, source: str, now: float) -> Refused:
        """Each challenge is answered once: a recorded one cannot be used to make us talk."""
        if (asked := read_challenge(key, datagram)) is None:
            return self._refuse("forged", source)
        boot, cookie = asked
        if boot != self.boot:
            return self._refuse("stale", f"{source} asks for another life of {self.me}")
        if cookie in self._answered:
            return self._refuse("replayed", source)
        if self._may_reply(ANSWER, source, now):
            self._answered[cookie] = None
            if len(self._answered) > ANSWERED_MAX:
                del self._answered[next(iter(self._answered))]
            self.replies.append((source, answer(key, _head(ANSWER, key), boot, cookie, self._sent + 1, self.me)))
        return self._refuse("challenged", source)

    def _prove(self, key: Key, datagram: bytes, source: str, now: float) -> Refused:
        if (said := read_answer(key, datagram)) is None:
            return self._refuse("forged", source)
        boot, cookie, since, process = said
        if not self._cookies.is_fresh(cookie, boot, source, now):
            return self._refuse("stale", f"{process} at {source}")
        if boot in self._senders:
            return self._refuse("replayed", f"{process} at {source}")
        if process == self.me or process in self._boots:
            return self._refuse("boot", f"{process} at {source}; give it a data folder of its own")
        self._admit(_Sender(process, boot, since, now))
        return self._refuse("proven", f"{process} at {source}")

    def _admit(self, sender: _Sender) -> None:
        """Where the table is full, the one that was silent for longest has to prove itself anew."""
        if len(self._senders) >= SENDERS_MAX:
            self._forget(min(self._senders.values(), key=lambda each: each.heard))
        self._senders[sender.boot] = sender
        self._boots[sender.process] = sender.boot
        self._open_doors(sender)

    def _forget(self, sender: _Sender) -> None:
        del self._senders[sender.boot], self._boots[sender.process]
        for key in self._keys.values():
            del self._doors[_prefix(key, sender.boot)]

    def _open_doors(self, sender: _Sender) -> None:
        """One for each key: a sender that changes to another one goes on with its numbers, and need prove nothing."""
        for key in self._keys.values():
            self._doors[_prefix(key, sender.boot)] = (sender, _aead(key, sender.process, sender.boot))

    def _may_reply(self, kind: int, source: str, now: float) -> bool:
        """One of a kind at a time for each address; a few addresses share a slot, so that memory is bounded."""
        slot = zlib.crc32(source.encode(), kind) % SLOTS
        if now < self._next_reply[slot] or len(self.replies) >= REPLIES_MAX:
            return False
        self._next_reply[slot] = now + REPLY_EVERY_S
        return True

    def _refuse(self, reason: str, detail: str) -> Refused:
        self.refused[reason] += 1
        return Refused(reason, detail)


def _head(kind: int, key: Key) -> bytes:
    return _HEAD.pack(MAGIC, VERSION, kind, key.id)


def _prefix(key: Key, boot: bytes) -> bytes:
    return _head(DATA, key) + boot


def _aead(key: Key, process: ProcessId, boot: bytes) -> AESGCM:
    return AESGCM(key.derive(b"packets" + boot + _identity(process)))
