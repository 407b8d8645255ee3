"""Challenge and answer: how a receiver learns who a new sender is, and that it lives now.

A receiver that has just started has no memory of what it accepted before, so that anything old could
be replayed to it. It accepts nothing from a sender that it does not know, and challenges it:

    challenge   head | boot id of the challenged | cookie | tag
    answer      head | boot id of the answering | cookie | since | incarnation | name | tag

The cookie is the time and a code that only this life of the receiver can make, so it stores nothing
while it waits. The answer says who runs under that boot id, and the number of its next packet:
everything before that may be old, and is not accepted. Tags are HMAC-SHA256 under the group's key,
with the head, which tells the two apart; there is no nonce here that could repeat.
"""

import hmac
import struct

from covey.kernel.ids import INCARNATION_MAX, NAME_BYTES_MAX, ProcessId
from covey.net.keys import Key

BOOT_BYTES = 16
TAG_BYTES = 16
TIME_BYTES = 6
ANSWER_WITHIN_MS = 5_000

_CHALLENGE = struct.Struct("!8s16s16s")
_ANSWER = struct.Struct("!8s16s16sQI")

CHALLENGE_BYTES = _CHALLENGE.size + TAG_BYTES


class Cookies:
    """Makes cookies, and knows its own again for a few seconds."""

    def __init__(self, key: Key, boot: bytes) -> None:
        self._secret = key.derive(b"cookie" + boot)

    def bake(self, boot: bytes, source: str, now: float) -> bytes:
        """Return a cookie for the process of that boot id at that address."""
        return self._signed(_time_ms(now).to_bytes(TIME_BYTES), boot, source)

    def is_fresh(self, cookie: bytes, boot: bytes, source: str, now: float) -> bool:
        """Whether it is one of this life's, for that process at that address, and not too old."""
        baked = cookie[:TIME_BYTES]
        age_ms = _time_ms(now) - int.from_bytes(baked)
        return 0 <= age_ms <= ANSWER_WITHIN_MS and hmac.compare_digest(cookie, self._signed(baked, boot, source))

    def _signed(self, baked: bytes, boot: bytes, source: str) -> bytes:
        return baked + hmac.digest(self._secret, baked + boot + source.encode(), "sha256")[:10]


def _time_ms(now: float) -> int:
    return int(now * 1000) & 0xFFFF_FFFF_FFFF


def challenge(key: Key, head: bytes, boot: bytes, cookie: bytes) -> bytes:
    """Return the packet that asks who runs under that boot id."""
    return _tagged(key, _CHALLENGE.pack(head, boot, cookie))


def read_challenge(key: Key, datagram: bytes) -> tuple[bytes, bytes] | None:
    """Return the boot id that is asked for, and the cookie; None where no member made this."""
    if len(datagram) != CHALLENGE_BYTES or not _is_authentic(key, datagram):
        return None
    _, boot, cookie = _CHALLENGE.unpack_from(datagram)
    return boot, cookie


def answer(key: Key, head: bytes, boot: bytes, cookie: bytes, since: int, me: ProcessId) -> bytes:
    """Return the packet that says who `boot` is, and that its next packet has the number `since`."""
    return _tagged(key, _ANSWER.pack(head, boot, cookie, since, me.incarnation) + me.name.encode())


def read_answer(key: Key, datagram: bytes) -> tuple[bytes, bytes, int, ProcessId] | None:
    """Return boot id, cookie, number of the next packet and process; None where no member made this."""
    name_bytes = len(datagram) - _ANSWER.size - TAG_BYTES
    if not 0 < name_bytes <= NAME_BYTES_MAX or not _is_authentic(key, datagram):
        return None
    _, boot, cookie, since, incarnation = _ANSWER.unpack_from(datagram)
    try:
        name = datagram[_ANSWER.size : -TAG_BYTES].decode()
    except UnicodeDecodeError:
        return None
    return (boot, cookie, since, ProcessId(name, incarnation)) if 0 < incarnation <= INCARNATION_MAX else None


def _tagged(key: Key, content: bytes) -> bytes:
    return content + _tag(key, content)


def _is_authentic(key: Key, datagram: bytes) -> bool:
    return hmac.compare_digest(datagram[-TAG_BYTES:], _tag(key, datagram[:-TAG_BYTES]))


def _tag(key: Key, content: bytes) -> bytes:
    return hmac.digest(key.control, content, "sha256")[:TAG_BYTES]
