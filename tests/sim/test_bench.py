"""The benchmark runs, and says what it measured in fields that a program can read."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "sim.py"


def test_each_line_of_the_benchmark_is_one_figure() -> None:
    command = [sys.executable, str(BENCH), "--json", "--runs", "2", "--packets", "400"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["name"], each["check"]) for each in figures] == [
        ("floor", None),
        *((name, check) for name in ("echo", "cast", "sites", "generated") for check in (False, True)),
    ]
    for each in figures:
        assert each["runs"] == 2
        assert each["packets"] >= 100
        assert 0 < each["least_per_s"] <= each["median_per_s"] <= each["most_per_s"]


def test_the_benchmark_refuses_what_it_cannot_measure() -> None:
    done = subprocess.run([sys.executable, str(BENCH), "--runs", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "sim.py: error: at least 1 run of 64 packets"
