"""Seals that know one other member, given anything: what they open is what that one sealed."""

from covey.kernel.ids import ProcessId
from covey.kernel.wire import header
from covey.net.keys import Key, Keys
from covey.net.seal import REASONS, Refused, Seals
from tests.fuzz import fuzz

KEYS = Keys((Key(bytes(32)), Key(bytes([1]) * 32)))
A, B = ProcessId("a", 1), ProcessId("b", 1)
PACKETS = [header(1, A) + b"text" * size for size in (0, 10)]


def opener() -> tuple[Seals, list[bytes]]:
    """A receiver that knows a, and what they have said to each other."""
    a, b = Seals(KEYS, A, bytes(16)), Seals(KEYS, B, bytes([1]) * 16)
    said = [a.seal(PACKETS[0])]
    b.open(said[0], "a", 0.0)
    said.append(b.replies.pop()[1])
    a.open(said[1], "b", 0.0)
    said.append(a.replies.pop()[1])
    b.open(said[2], "a", 0.0)
    return b, [*said, *map(a.seal, PACKETS), b.seal(header(1, B))]


def seeds() -> list[bytes]:
    foreign = Seals(Keys((Key(bytes([2]) * 32),)), A, bytes(16)).seal(PACKETS[1])
    return [*opener()[1], foreign, PACKETS[1]]


def one_input(data: bytes) -> None:
    b, said = opener()
    found = b.open(data, "a", 1.0)
    if isinstance(found, Refused):
        assert found.reason in REASONS
        assert b.refused[found.reason]
    else:
        assert data in said
        assert found in PACKETS
    assert all(len(reply) <= len(data) for _, reply in b.replies)


if __name__ == "__main__":
    fuzz(seeds, one_input)
