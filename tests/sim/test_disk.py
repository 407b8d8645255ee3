"""What a crash leaves of a disk: all that was flushed, and of the rest whole records from the first on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.kernel.storage import next_incarnation, provision
from covey.sim.disk import Disk

Found = tuple[dict[str, bytes], list[bytes]]

KEYS = ("x", "y", "a longer key")
WRITES = st.tuples(st.sampled_from([*KEYS, None]), st.binary(max_size=40))


def write(disk: Disk, key: str | None, value: bytes) -> None:
    if key is None:
        disk.append(value)
    else:
        disk.put(key, value)


def found(disk: Disk) -> Found:
    pairs = {key: disk.get(key) for key in KEYS}
    return {key: value for key, value in pairs.items() if value is not None}, disk.log()


def after(writes: list[tuple[str | None, bytes]]) -> Found:
    """What these writes amount to, the obvious way."""
    pairs = {key: value for key, value in writes if key is not None}
    return pairs, [value for key, value in writes if key is None]


def filled(durable: list[tuple[str | None, bytes]], written: list[tuple[str | None, bytes]]) -> Disk:
    disk = Disk()
    for key, value in durable:
        write(disk, key, value)
    disk.flush()
    for key, value in written:
        write(disk, key, value)
    return disk


@given(st.lists(WRITES, max_size=8), st.lists(WRITES, max_size=8))
def test_what_is_written_is_read_at_once(
    durable: list[tuple[str | None, bytes]], written: list[tuple[str | None, bytes]]
) -> None:
    assert found(filled(durable, written)) == after(durable + written)


@given(st.lists(WRITES, max_size=8), st.lists(WRITES, max_size=8), st.floats(0, 1))
def test_a_crash_keeps_what_was_flushed_and_a_whole_beginning_of_the_rest(
    durable: list[tuple[str | None, bytes]], written: list[tuple[str | None, bytes]], kept: float
) -> None:
    disk = filled(durable, written)
    disk.crash(kept)
    assert found(disk) in [after(durable + written[:upto]) for upto in range(len(written) + 1)]


@pytest.mark.parametrize(("kept", "records"), [(0.0, 0), (0.49, 1), (0.5, 2), (0.99, 3), (1.0, 4)])
def test_the_share_that_is_kept_is_of_bytes_and_a_torn_record_is_none(kept: float, records: int) -> None:
    disk = Disk()
    for number in range(4):
        disk.append(b"record %d" % number)
    disk.crash(kept)
    assert disk.log() == [b"record %d" % number for number in range(records)]


@given(st.lists(WRITES, min_size=1, max_size=4), st.floats(0, 1))
def test_what_is_flushed_after_a_torn_write_survives_the_next_crash(
    torn: list[tuple[str | None, bytes]], kept: float
) -> None:
    disk = filled([], torn)
    disk.crash(kept)
    disk.put("x", b"later")
    disk.append(b"later")
    disk.flush()
    disk.crash(0.0)
    assert (disk.get("x"), disk.log()[-1]) == (b"later", b"later")


def test_a_robbed_disk_has_nothing_not_even_after_a_crash() -> None:
    disk = filled([("x", b"1"), (None, b"2")], [("y", b"3")])
    disk.rob()
    assert found(disk) == ({}, [])
    disk.crash(1.0)
    assert found(disk) == ({}, [])


def test_a_disk_holds_a_name_and_counts_its_incarnations_through_crashes() -> None:
    disk = Disk()
    provision(disk, "p", "the disk")
    lives = []
    for _ in range(3):
        lives.append(str(next_incarnation(disk, lambda: "fresh", "the disk")))
        disk.crash(0.0)
    disk.rob()
    lives.append(str(next_incarnation(disk, lambda: "fresh", "the disk")))
    assert lives == ["p/1", "p/2", "p/3", "fresh/1"]
