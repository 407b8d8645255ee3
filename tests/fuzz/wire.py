"""The codec of packets, with control messages of all shapes that msgspec decodes, and packed frames."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from covey.kernel.ids import INCARNATION_MAX, ProcessId
from covey.kernel.wire import Codec, Dropped, header, pack_messages, unpack_messages
from tests.fuzz import fuzz

REASONS = {"short", "magic", "version", "kind", "sender", "body"}


class Plain(Struct, frozen=True, array_like=True):
    number: int
    share: float
    text: str
    data: bytes
    flag: bool = False
    to: ProcessId | None = None


class Named(Struct, frozen=True):
    state: Literal["gather", "commit"]
    small: Annotated[int, Meta(ge=1, le=9)] = 1


class First(Struct, frozen=True, array_like=True, tag="first"):
    members: tuple[ProcessId, ...]


class Second(Struct, frozen=True, array_like=True, tag="second"):
    acks: dict[str, list[int]]


class Nested(Struct, frozen=True, array_like=True):
    part: First | Second
    rest: list[Plain]


PLAIN, NAMED, NESTED, FRAME = 1, 2, 3, 4
FRAME_BYTES = 3
CODEC = Codec({PLAIN: Plain, NAMED: Named, NESTED: Nested}, {FRAME: FRAME_BYTES})

ME = ProcessId("a/ü", 3)


def seeds() -> list[bytes]:
    plain = Plain(1, 0.5, "x", b"y", True, ME)
    bodies = [plain, Named("gather"), Nested(First((ME, ME)), [plain]), Nested(Second({"a": [1, 2]}), [])]
    frame = header(FRAME, ME) + bytes(FRAME_BYTES) + pack_messages([b"one", b"", b"three"])
    return [*(CODEC.control(ME, body) for body in bodies), frame]


def one_input(data: bytes) -> None:
    found = CODEC.decode(data)
    if isinstance(found, Dropped):
        assert found.reason in REASONS
        return
    assert found.sender.name
    assert 1 <= found.sender.incarnation <= INCARNATION_MAX
    if found.kind == FRAME:
        messages = unpack_messages(found.body, FRAME_BYTES)
        assert messages is None or data.endswith(pack_messages(messages))
    else:
        again = CODEC.decode(CODEC.control(found.sender, found.body))
        assert repr(again) == repr(found)  # NaN is not equal to itself


if __name__ == "__main__":
    fuzz(seeds, one_input)
