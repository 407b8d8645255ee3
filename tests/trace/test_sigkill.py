"""The trace of a process killed by SIGKILL lacks nothing that another process can have seen of it.

A real process writes rows and reports down a pipe what it has flushed; it is killed at whatever moment
that is, and everything that it had reported by then is found.
"""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from covey.trace import Row, check_trace, read_checked
from covey.trace.amend import add_fail
from covey.trace.closing import Closed
from covey.trace.convert import close_streams, trim
from tests.trace.victim import FLUSHED

ROOT = Path(__file__).parents[2]


def reported_before_sigkill(path: Path, format: str, rotate: int, seed: int) -> int:
    """Start the victim, kill it after some reports, and return the last index that it reported."""
    command = [sys.executable, "-m", "tests.trace.victim", str(path), format, str(rotate), str(seed)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        heard = victim.stdout.read(FLUSHED.size * Random(seed).randrange(1, 200))
        victim.kill()
        heard += victim.stdout.read()
    assert victim.returncode == -9, "it did not end by itself"
    end = len(heard) // FLUSHED.size * FLUSHED.size
    index: int = FLUSHED.unpack(heard[end - FLUSHED.size : end])[0]
    return index


def assert_whole_up_to(rows: list[Row], index: int) -> None:
    """All indexes are there, without a hole, up to this one at least."""
    own = sorted((row for row in rows if row.event == "deliver"), key=lambda row: row.index)
    expected = 2**32
    for row in own:
        assert row.index == expected
        expected = row.last + 1
    assert expected > index


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rotate", [0, 300], ids=["one stream", "rotating"])
def test_all_that_was_reported_is_found_after_convert(tmp_path: Path, rotate: int, seed: int) -> None:
    index = reported_before_sigkill(tmp_path / "p", "parquet", rotate, seed)
    assert all(isinstance(closed, Closed) for closed in close_streams(tmp_path, "parquet"))
    assert_whole_up_to(list(read_checked(tmp_path)), index)


@pytest.mark.parametrize("seed", range(6))
def test_all_that_was_reported_is_found_in_json_lines(tmp_path: Path, seed: int) -> None:
    index = reported_before_sigkill(tmp_path / "p", "jsonl", 0, seed)
    assert len(list(trim(tmp_path))) <= 1
    assert_whole_up_to(list(read_checked(tmp_path)), index)


def test_whoever_killed_it_adds_that_it_failed(tmp_path: Path) -> None:
    reported_before_sigkill(tmp_path / "p", "parquet", 0, 99)
    add_fail(tmp_path, "r", "p", 1)
    list(close_streams(tmp_path, "parquet"))
    check_trace(tmp_path)
    assert max(read_checked(tmp_path), key=lambda row: row.index).event == "fail"
