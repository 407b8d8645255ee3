"""What stable storage promises, of the SQLite file and of the simulator's disk alike; and names and formats on it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from covey.kernel import storage as storage_module
from covey.kernel.errors import MisuseError, WorldError
from covey.kernel.ids import INCARNATION_MAX, ProcessId
from covey.kernel.storage import FORMAT, FORMAT_KEY, INCARNATION_KEY, NAME_KEY, Storage, next_incarnation, provision
from tests.kernel.boxes import BOXES, Box, Fused, PulledPlug


@pytest.fixture(params=BOXES)
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Box]:
    made = BOXES[request.param](tmp_path)
    yield made
    made.close()


# --- the two things that it keeps


class Put(NamedTuple):
    key: str
    value: bytes


class Append(NamedTuple):
    record: bytes


Write = Put | Append
FLUSH = None

KEYS = st.sampled_from(["a", "b", "", "a\0", "ü/"]) | st.text(st.characters(codec="utf-8"), max_size=3)
VALUES = st.binary(max_size=40) | st.builds(lambda byte, size: byte * size, st.binary(min_size=1), st.just(9000))
WRITES = st.builds(Put, KEYS, VALUES) | st.builds(Append, VALUES)


class Life(NamedTuple):
    """What a process writes, with flushes, and what share of the last flush is done when it crashes."""

    steps: list[Write | None]
    kept: float


LIVES = st.lists(st.builds(Life, st.lists(WRITES | st.none(), max_size=8), st.floats(0, 1)), max_size=4)


def found(storage: Storage, keys: set[str]) -> tuple[dict[str, bytes], list[bytes]]:
    pairs = {key: value for key in sorted(keys) if (value := storage.get(key)) is not None}
    return pairs, storage.log()


def state(writes: list[Write]) -> tuple[dict[str, bytes], list[bytes]]:
    """What is there when all that was written is there."""
    pairs = {write.key: write.value for write in writes if isinstance(write, Put)}
    return pairs, [write.record for write in writes if isinstance(write, Append)]


def do(storage: Storage, write: Write) -> None:
    if isinstance(write, Put):
        storage.put(*write)
    else:
        storage.append(*write)


@pytest.mark.parametrize("kind", BOXES)
@given(lives=LIVES)
@example(
    lives=[Life([Put("a", b"1"), FLUSH, Put("a", b"2"), Append(b"x"), Put("b", b"3")], kept / 20) for kept in range(21)]
)
@settings(max_examples=25)
def test_after_a_crash_a_prefix_of_the_writes_is_found_with_all_that_was_flushed(kind: str, lives: list[Life]) -> None:
    keys = {step.key for life in lives for step in life.steps if isinstance(step, Put)}
    with TemporaryDirectory() as directory:
        box = BOXES[kind](Path(directory))
        writes: list[Write] = []
        for life in lives:
            flushed = len(writes)
            for step in life.steps:
                if step is FLUSH:
                    box.storage.flush()
                    flushed = len(writes)
                else:
                    do(box.storage, step)
                    writes.append(step)
                assert found(box.storage, keys) == state(writes)
            box.crash(life.kept)
            there = found(box.storage, keys)
            prefixes = [writes[:n] for n in range(len(writes), flushed - 1, -1) if state(writes[:n]) == there]
            assert prefixes, f"{there} is no prefix of {writes} from {flushed} on"
            writes = prefixes[0]
        box.close()


def test_what_was_not_flushed_is_lost_by_a_crash_that_keeps_nothing(box: Box) -> None:
    box.storage.put("a", b"1")
    box.storage.flush()
    box.storage.put("a", b"2")
    box.storage.append(b"x")
    box.crash(0.0)
    assert (box.storage.get("a"), box.storage.log()) == (b"1", [])


def test_the_log_that_is_returned_is_a_copy(box: Box) -> None:
    box.storage.append(b"x")
    box.storage.log().clear()
    assert box.storage.log() == [b"x"]


# --- names and incarnations


def fresh() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"fresh-{next(numbers)}"


def never() -> str:
    raise AssertionError("storage that has a name needs no fresh one")


def test_an_incarnation_is_durable_before_it_is_returned(box: Box) -> None:
    for incarnation in (1, 2, 3):
        assert next_incarnation(box.storage, fresh(), "here") == ("fresh-1", incarnation)
        box.crash(0.0)


def test_a_provisioned_name_stays_with_its_storage(box: Box) -> None:
    provision(box.storage, "a/b", "here")
    box.crash(0.0)
    assert next_incarnation(box.storage, never, "here") == ProcessId("a/b", 1)
    box.crash(0.0)
    assert next_incarnation(box.storage, never, "here") == ProcessId("a/b", 2)


def test_a_process_that_lost_its_storage_comes_back_under_a_fresh_name(tmp_path: Path) -> None:
    name = fresh()
    for life in ("first", "second"):
        (tmp_path / life).mkdir()
        box = BOXES["sqlite"](tmp_path / life)
        pid = next_incarnation(box.storage, name, "here")
        box.close()
    assert pid == ProcessId("fresh-2", 1)


@pytest.mark.parametrize("name", ["a", "b"])
def test_storage_is_named_only_once(box: Box, name: str) -> None:
    provision(box.storage, "a", "the disk")
    with pytest.raises(WorldError, match=f"the disk already belongs to 'a': start it as it is, or give '{name}' new"):
        provision(box.storage, name, "the disk")
    assert next_incarnation(box.storage, never, "the disk") == ProcessId("a", 1)


def test_a_name_that_no_packet_can_carry_does_not_reach_the_storage(box: Box) -> None:
    with pytest.raises(MisuseError, match="1 to 255 bytes"):
        provision(box.storage, "x" * 256, "here")
    assert box.storage.get(NAME_KEY) is None


@given(
    starts=st.lists(st.tuples(st.integers(0, 6), st.floats(0, 1)), min_size=1, max_size=8),
    named=st.none() | st.tuples(st.integers(0, 5), st.floats(0, 1)),
)
def test_no_identity_is_given_twice_wherever_the_plug_is_pulled(
    starts: list[tuple[int, float]], named: tuple[int, float] | None
) -> None:
    """A crash between any two writes of a first naming, or of a start, leaves nothing that cannot be started."""
    box = BOXES["disk"](Path())
    name = fresh()
    identities: list[ProcessId] = []
    if named is not None:
        with suppress(PulledPlug):
            provision(Fused(box.storage, named[0]), "named", "here")
        box.crash(named[1])
    for calls, kept in starts:
        with suppress(PulledPlug):
            identities.append(next_incarnation(Fused(box.storage, calls), name, "here"))
        box.crash(kept)
    identities.append(next_incarnation(box.storage, name, "here"))
    assert sorted(set(identities)) == identities
    assert len({pid.name for pid in identities}) == 1


@pytest.mark.parametrize("calls", range(5))
def test_storage_that_has_a_name_has_the_rest_too(calls: int) -> None:
    for share in range(41):
        box = BOXES["disk"](Path())
        with suppress(PulledPlug):
            provision(Fused(box.storage, calls), "a", "here")
        box.crash(share / 40)
        if box.storage.get(NAME_KEY) is not None:
            assert [box.storage.get(key) for key in (FORMAT_KEY, NAME_KEY, INCARNATION_KEY)] == [b"1", b"a", b"0"]


@pytest.mark.parametrize("key", [FORMAT_KEY, INCARNATION_KEY, NAME_KEY])
def test_damaged_storage_is_refused_with_what_is_wrong_in_it(box: Box, key: str) -> None:
    provision(box.storage, "a", "the disk")
    box.storage.put(key, b"\xff")
    with pytest.raises(WorldError, match=rf"the disk is damaged: under {key} it holds b'\\xff'. Set it aside"):
        next_incarnation(box.storage, never, "the disk")


def test_incarnations_end_where_no_packet_can_carry_them(box: Box) -> None:
    provision(box.storage, "a", "the disk")
    box.storage.put(INCARNATION_KEY, str(INCARNATION_MAX - 1).encode())
    assert next_incarnation(box.storage, never, "the disk").incarnation == INCARNATION_MAX
    with pytest.raises(WorldError, match="the disk has used up its 2147483647 incarnations: give this process new"):
        next_incarnation(box.storage, never, "the disk")


# --- the format


def test_new_storage_says_which_format_it_has(box: Box) -> None:
    next_incarnation(box.storage, fresh(), "here")
    assert box.storage.get(FORMAT_KEY) == str(FORMAT).encode()


def test_a_newer_format_is_refused_by_name_and_left_as_it_is(box: Box) -> None:
    provision(box.storage, "a", "the disk of a")
    box.storage.put(FORMAT_KEY, b"7")
    box.storage.flush()
    with pytest.raises(WorldError, match=r"the disk of a was written in storage format 7, .* reads formats up to 1: "):
        next_incarnation(box.storage, never, "the disk of a")
    box.crash(1.0)
    assert [box.storage.get(key) for key in (FORMAT_KEY, INCARNATION_KEY)] == [b"7", b"0"]


def test_there_is_a_migration_from_every_older_format() -> None:
    assert sorted(storage_module.MIGRATIONS) == list(range(1, FORMAT))


def split(storage: Storage) -> None:
    """From an imagined format 1 to 2: one value becomes two."""
    first, _, second = (storage.get("pair") or b"").partition(b",")
    storage.put("first", first)
    storage.put("second", second)


def shout(storage: Storage) -> None:
    """From an imagined format 2 to 3."""
    storage.put("first", (storage.get("first") or b"").upper())


@pytest.fixture
def two_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_module, "FORMAT", 3)
    monkeypatch.setattr(storage_module, "MIGRATIONS", {1: split, 2: shout})


@pytest.mark.usefixtures("two_migrations")
@pytest.mark.parametrize("calls", range(9))
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 1.0])
def test_an_older_format_is_migrated_step_by_step_wherever_the_plug_is_pulled(
    box: Box, calls: int, kept: float
) -> None:
    for key, value in ((FORMAT_KEY, b"1"), ("pair", b"left,right"), (INCARNATION_KEY, b"5"), (NAME_KEY, b"a")):
        box.storage.put(key, value)
    box.storage.flush()
    with suppress(PulledPlug):
        next_incarnation(Fused(box.storage, calls), never, "here")
    box.crash(kept)
    assert next_incarnation(box.storage, never, "here").name == "a"
    assert [box.storage.get(key) for key in ("first", "second", FORMAT_KEY)] == [b"LEFT", b"right", b"3"]


@pytest.mark.usefixtures("two_migrations")
def test_a_migrated_format_is_durable_before_anything_else_is_written(box: Box) -> None:
    box.storage.put(FORMAT_KEY, b"1")
    box.storage.flush()
    storage_module.open_format(box.storage, "here")
    box.crash(0.0)
    assert box.storage.get(FORMAT_KEY) == b"3"
