"""Members find each other through files of theirs in a directory, and the dead are forgotten."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.kernel.errors import MisuseError
from covey.kernel.ids import NAME_BYTES_MAX
from covey.net.discovery.directory import DirectorySource, file_name, read_content
from covey.net.discovery.discovery import Discovery
from covey.net.discovery.source import Around, DiscoveryOptions
from covey.net.discovery.where import Directory
from tests.discovery.crowd import Crowd, address

OPTIONS = DiscoveryOptions(silent_looks_max=3, addresses_max=5)


def source(path: Path, name: str, port: int = 7400) -> DirectorySource:
    return DirectorySource(Directory(str(path)), Around(name, f"10.0.0.1:{port}", OPTIONS, Counter()))


def look(source: DirectorySource) -> list[str]:
    return sorted(asyncio.run(source.look()))


def leave(source: DirectorySource) -> None:
    asyncio.run(source.leave())


def test_members_see_each_other_s_files_and_not_their_own(tmp_path: Path) -> None:
    a, b = source(tmp_path, "a", 1), source(tmp_path, "b", 2)
    assert (look(a), look(b), look(a)) == ([], ["10.0.0.1:1"], ["10.0.0.1:2"])
    assert sorted(os.listdir(tmp_path)) == ["a.address", "b.address"]


def test_a_file_is_replaced_and_never_half_written(tmp_path: Path) -> None:
    a = source(tmp_path, "a")
    look(a)
    with (tmp_path / "a.address").open() as reader:
        look(a)
        assert reader.read() == "10.0.0.1:7400 1\n"
    assert (tmp_path / "a.address").read_text() == "10.0.0.1:7400 2\n"
    assert os.listdir(tmp_path) == ["a.address"]


def test_who_leaves_takes_its_file_away_and_is_forgotten_at_once(tmp_path: Path) -> None:
    a, b = source(tmp_path, "a"), source(tmp_path, "b")
    look(b)
    assert look(a) == ["10.0.0.1:7400"]
    leave(b)
    assert look(a) == []
    leave(a)
    assert os.listdir(tmp_path) == []


def test_a_look_that_was_under_way_leaves_nothing_behind_after_leaving(tmp_path: Path) -> None:
    a = source(tmp_path, "a")
    leave(a)
    assert look(a) == []
    assert os.listdir(tmp_path) == []


def test_a_file_that_does_not_change_is_forgotten_and_removed(tmp_path: Path) -> None:
    a, b = source(tmp_path, "a"), source(tmp_path, "b")
    look(b)
    assert [look(a) for _ in range(5)] == [["10.0.0.1:7400"]] * 4 + [[]]
    assert look(a) == []
    assert os.listdir(tmp_path) == ["a.address"]


def test_a_file_that_changes_seldom_is_believed_all_the_while(tmp_path: Path) -> None:
    a, b = source(tmp_path, "a"), source(tmp_path, "b")
    for _ in range(5):
        look(b)
        assert [look(a) for _ in range(4)] == [["10.0.0.1:7400"]] * 4


def test_a_member_that_was_paused_is_found_again(tmp_path: Path) -> None:
    a, b = source(tmp_path, "a"), source(tmp_path, "b")
    look(b)
    assert [look(a) for _ in range(6)][-1] == []
    look(b)
    assert look(a) == ["10.0.0.1:7400"]


def test_a_file_that_came_to_life_before_it_was_removed_stays(tmp_path: Path) -> None:
    a, b = source(tmp_path, "a"), source(tmp_path, "b")
    look(b)
    assert [look(a) for _ in range(5)][-1] == []
    look(b)
    assert look(a) == ["10.0.0.1:7400"]
    assert sorted(os.listdir(tmp_path)) == ["a.address", "b.address"]


def make_link(path: Path) -> None:
    (path.parent / "target").write_text("10.0.0.3:7400 1\n")
    path.symlink_to(path.parent / "target")


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"10.0.0.3:7400"),
        lambda path: path.write_bytes(b"10.0.0.3:7400 \n"),
        lambda path: path.write_bytes(b"10.0.0.3 7\n"),
        lambda path: path.write_bytes(b"db:7400 7\n"),
        lambda path: path.write_bytes(b"0.0.0.0:7400 7\n"),
        lambda path: path.write_bytes(b"\xff\xfe 7\n"),
        lambda path: path.write_bytes(b"10.0.0.3:7400 " + b"7" * 10_000_000),
        make_link,
        Path.mkdir,
        os.mkfifo,
    ],
)
def test_what_no_member_wrote_is_counted_once_and_left_alone(make: Callable[[Path], object], tmp_path: Path) -> None:
    make(tmp_path / "x.address")
    a = source(tmp_path, "a")
    assert [look(a) for _ in range(10)] == [[]] * 10
    assert a._around.drops == {"directory: not an address": 1}
    assert (tmp_path / "x.address").exists()


def test_looking_leaves_no_file_open(tmp_path: Path) -> None:
    (tmp_path / "x.address").mkdir()
    os.mkfifo(tmp_path / "y.address")
    a, b = source(tmp_path, "a"), source(tmp_path, "b")
    look(b)
    opened = len(os.listdir("/proc/self/fd"))
    look(a)
    assert len(os.listdir("/proc/self/fd")) == opened


def test_files_of_other_programs_are_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("10.0.0.3:7400 1\n")
    (tmp_path / ".b.address.tmp").write_text("10.0.0.3:7400 1\n")
    a = source(tmp_path, "a")
    assert look(a) == []
    assert not a._around.drops


def test_so_many_files_are_read_and_the_same_ones_each_time(tmp_path: Path) -> None:
    for n in range(20):
        look(source(tmp_path, f"m{n:02}", 8000 + n))
    a = source(tmp_path, "a")
    assert look(a) == look(a) == [f"10.0.0.1:{8000 + n}" for n in range(5)]
    assert a._around.drops == {"directory: too many files": 2}


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_each_name_has_a_file_of_its_own_in_that_directory(one: str, other: str) -> None:
    names = [name for name in (one, other) if name.isprintable()]
    files = [file_name(name) for name in names]
    assert len(set(files)) == len(set(names))
    assert all("/" not in file and "\0" not in file and file not in (".", "..") for file in files)


@pytest.mark.parametrize("name", ["x" * NAME_BYTES_MAX, "é" * 100])
def test_a_name_that_no_file_can_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="shorter name"):
        Discovery([f"dir:{tmp_path}"], name, "10.0.0.1:1")


@given(st.binary() | st.tuples(st.sampled_from([b"10.0.0.1:1 ", b"[::1]:"]), st.binary()).map(b"".join))
def test_any_bytes_are_an_address_or_none(content: bytes) -> None:
    assert read_content(content) is None or content.startswith((b"10.0.0.1:1 ", b"["))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for it; the time limit of the test is the bound."""
    while not condition():  # noqa: ASYNC110 - files have no events
        await asyncio.sleep(0.005)


def test_a_directory_that_goes_and_comes_back_costs_no_address(tmp_path: Path) -> None:
    path = tmp_path / "members"
    fast = DiscoveryOptions(look_every_s=0.01, retry_first_s=0.01, retry_max_s=0.02, silent_looks_max=10_000)
    discovery = Discovery([f"dir:{path}"], "a", "10.0.0.1:1", fast)
    found: list[frozenset[str]] = []

    async def main() -> None:
        task = asyncio.ensure_future(discovery.run(found.append))
        await until(lambda: discovery.failures[f"dir:{path}"] > 0)
        path.mkdir()
        (path / "b.address").write_text("10.0.0.2:1 1\n")
        await until(lambda: len(found) == 1)
        path.rename(tmp_path / "away")
        failed = discovery.failures[f"dir:{path}"]
        await until(lambda: discovery.failures[f"dir:{path}"] > failed + 1)
        assert discovery.found == {"10.0.0.2:1"}
        path.mkdir()
        (path / "c.address").write_text("10.0.0.3:1 1\n")
        await until(lambda: len(found) == 2)
        task.cancel()
        await asyncio.wait([task])
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert found == [{"10.0.0.2:1"}, {"10.0.0.3:1"}]
    assert os.listdir(path) == ["c.address"]


def test_a_file_system_that_hangs_holds_up_neither_the_others_nor_a_cancellation(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = f"dir:{tmp_path}"
    impatient = DiscoveryOptions(look_every_s=0.01, patience_s=0.05, retry_first_s=0.01)
    discovery = Discovery([here, "10.0.0.2:1"], "a", "10.0.0.1:1", impatient)
    hanging = discovery._sources[here]
    assert isinstance(hanging, DirectorySource)

    async def main() -> None:
        with hanging._at_work:  # the thread that looks waits for this
            task = asyncio.ensure_future(discovery.run(lambda _: None))
            await until(lambda: discovery.failures[here] == 1)
            assert discovery.found == {"10.0.0.2:1"}
            task.cancel()
            await asyncio.wait([task])
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert discovery.failures == {here: 2}  # the look, and the leaving
    assert [record.error for record in caplog.records] == ["no answer for 0.05 s"]  # type: ignore[attr-defined]
    assert os.listdir(tmp_path) == []


def others(names: str, name: str) -> list[str]:
    return [other for other in names if other != name]


def test_processes_find_each_other_and_forget_who_went_or_was_killed(tmp_path: Path) -> None:
    with Crowd(f"dir:{tmp_path}") as crowd:
        crowd.start("abcd")
        for name in "abcd":
            crowd.until(name, others("abcd", name))
        crowd.send("c", signal.SIGTERM)
        assert crowd.wait("c") == 0
        assert not (tmp_path / "c.address").exists()
        crowd.send("d", signal.SIGKILL)
        crowd.until("a", "b")
        crowd.until("b", "a")
        crowd.start("d")
        crowd.until("a", "bd")
        crowd.until("d", "ab")


def test_a_stopped_process_is_forgotten_and_comes_back(tmp_path: Path) -> None:
    with Crowd(f"dir:{tmp_path}") as crowd:
        crowd.start("ab")
        crowd.until("a", "b")
        crowd.until("b", "a")
        crowd.send("b", signal.SIGSTOP)
        crowd.until("a", "")
        crowd.send("b", signal.SIGCONT)
        crowd.until("a", "b")
        (tmp_path / "x.address").write_text(f"{address('x')} 1\n")
        crowd.until("b", "ax")
