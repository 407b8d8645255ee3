"""A disk that can be told to lose and to tear what was not yet durable.

The journal is what a file would hold: records of a length and a body. A crash keeps the durable part; of
what was written after the last flush it keeps nothing, or as many bytes as the tear leaves. Opening reads
records up to the first that is not whole.
"""

import struct

import msgspec

_HEAD = struct.Struct("!I")
_PUT, _APPEND = 0, 1
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, str, bytes]).decode


class Disk:
    """A `covey.kernel.storage.Storage` of the simulator."""

    def __init__(self) -> None:
        self._durable = bytearray()
        self._written = bytearray()
        self._pairs: dict[str, bytes] = {}
        self._log: list[bytes] = []

    def get(self, key: str) -> bytes | None:
        return self._pairs.get(key)

    def log(self) -> list[bytes]:
        return list(self._log)

    def put(self, key: str, value: bytes) -> None:
        self._pairs[key] = value
        self._write((_PUT, key, value))

    def append(self, record: bytes) -> None:
        self._log.append(record)
        self._write((_APPEND, "", record))

    def flush(self) -> None:
        self._durable += self._written
        self._written.clear()

    def crash(self, kept: float) -> None:
        """Lose what was not durable but for that share of its bytes, and come up again with the rest."""
        whole = self._durable + self._written[: int(kept * len(self._written))]
        self.__init__()  # type: ignore[misc]
        at = 0
        while (end := self._record(whole, at)) is not None:
            at = end
        self._durable = whole[:at]

    def rob(self) -> None:
        """Lose everything."""
        self.__init__()  # type: ignore[misc]

    def _write(self, record: tuple[int, str, bytes]) -> None:
        body = _encode(record)
        self._written += _HEAD.pack(len(body)) + body

    def _record(self, journal: bytearray, at: int) -> int | None:
        """Redo the record at a place of the journal; return where the next begins, None if there is none."""
        start = at + _HEAD.size
        if start > len(journal):
            return None
        (length,) = _HEAD.unpack_from(journal, at)
        if start + length > len(journal):
            return None
        what, key, value = _decode(journal[start : start + length])
        if what == _PUT:
            self._pairs[key] = value
        else:
            self._log.append(value)
        return start + int(length)
