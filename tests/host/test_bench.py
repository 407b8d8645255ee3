"""The benchmark runs, and says what it measured in fields that a program can read."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "net.py"


def test_each_line_of_the_benchmark_is_one_figure() -> None:
    command = [sys.executable, str(BENCH), "--json", "--runs", "1", "--packets", "500"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["name"], each["multicast"], each["offload"], each["bytes"]) for each in figures] == [
        (name, multicast, offload, size)
        for size in (64, 1400)
        for multicast in (False, True)
        for offload in (False, True)
        for name in ("bare", "host", "sealed", *(() if multicast else ("delivered", "traced")))
    ]
    assert all(0 < each["least_per_s"] <= each["median_per_s"] <= each["most_per_s"] for each in figures)
