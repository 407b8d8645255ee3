"""The same seed is the same run to the byte, in whatever process, on whatever machine; another seed is another run."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from covey.sim.generate import generate
from tests.sim.busy import BUSY, write_traces

ROOT = Path(__file__).parents[2]
SEEDS = range(6)

PINNED = {0: "6032a3c2a5b52c04", 1: "b7340df88c6927b7", 7: "2951327e9b28fbaf", 81723: "2e837a02f7ef75c2"}
"""What the traces of the model `busy` hash to, on any machine and version of Python.

Where these fail after a change of covey.sim or covey.trace, every seed that anyone wrote down has become
another run: was that the intention?
"""


def trace(model: str, file: Path, seeds: range, hash_seed: str) -> bytes:
    """The trace that another process writes."""
    command = [sys.executable, "-m", "tests.sim.busy", model, str(file), *map(str, seeds)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": hash_seed}, check=True)
    return file.read_bytes()


@pytest.mark.parametrize("model", ["busy", "isis85", "evs", "vs"])
def test_the_same_seeds_give_the_same_bytes_in_every_process(model: str, tmp_path: Path) -> None:
    traces = [trace(model, tmp_path / f"{hash_seed}.jsonl", SEEDS, hash_seed) for hash_seed in ("0", "1", "random")]
    assert traces[0] == traces[1] == traces[2]
    assert traces[0].count(b"\n") > 300


def test_another_seed_gives_another_trace_of_the_same_scenario(tmp_path: Path) -> None:
    scenarios = [replace(generate(0), seed=seed) for seed in range(20)]
    assert len({write_traces(BUSY, tmp_path / f"{one.seed}.jsonl", [one]) for one in scenarios}) == len(scenarios)


@pytest.mark.parametrize("seed", PINNED)
def test_a_trace_is_what_it_has_always_been(seed: int, tmp_path: Path) -> None:
    written = write_traces(BUSY, tmp_path / "run.jsonl", [generate(seed)])
    assert hashlib.sha256(written).hexdigest()[:16] == PINNED[seed]
