"""Many random scenarios, judged from their traces: `make campaign MODEL=isis85 SEEDS=0:10000`.

What was run is kept in `campaign/`, a file for each model and state of the source, so that a call goes on
where the one before stopped, and the totals grow over calls. After the seeds each mutation of the
protocol is run until the same scenarios find it. A failing seed is shrunk to a scenario that can be pasted
into a test.

Exit status: 0 when no seed failed and every mutation was found, 1 otherwise.
"""

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from covey.isis.scenarios import at_rest, build, messages
from covey.sim.generate import generate
from covey.sim.model import Model
from covey.sim.run import run
from covey.sim.scenario import Scenario
from covey.sim.shrink import shrink
from covey.trace import MemorySink, Recorder
from tests.isis import judge, mutations
from tests.isis.traffic import Traffic

ROOT = Path(__file__).parents[1]
CHUNK = 50
"""Seeds that are run, and remembered, at a time."""
MUTANT_SEEDS_MAX = 1000
"""Within so many seeds a mutation must be found."""
LISTED_MAX = 20
SHRUNK_MAX = 3
"""So many failing seeds are listed, and shrunk."""


class Campaign(NamedTuple):
    """What is needed to run and to judge a model."""

    model: Model
    judge: Callable[[list[dict[str, Any]], list[set[str]]], list[str]]
    traffic: type[Traffic]
    mutations: Sequence[str]
    mutant: Callable[[str], Model]


CAMPAIGNS = {
    "isis85": Campaign(
        Model("isis85", build, at_rest, messages),
        judge.judge,
        Traffic,
        list(mutations.MUTATIONS),
        mutations.mutant,
    )
}


class Verdict(NamedTuple):
    """What became of one run."""

    wrong: list[str]
    packets: int
    views: int
    seconds: float

    @property
    def kind(self) -> str:
        """Who objected; shrinking keeps to that."""
        return self.wrong[0].partition(":")[0] if self.wrong else ""


def verdict(scenario: Scenario, model: Model) -> Verdict:
    """Play a scenario, and judge it: by the engine's own invariants, by rest, and by its trace."""
    sink = MemorySink()
    traffic = CAMPAIGNS[model.name].traffic()
    outcome = run(scenario, model, Recorder(sink), watch=traffic.watch)
    wrong = [f"check: {outcome.broken}"] if outcome.broken else []
    wrong += ["rest: it did not come to rest"] if outcome.unrested else []
    wrong += [f"judge: {sentence}" for sentence in CAMPAIGNS[model.name].judge(sink.rows, traffic.components)]
    wrong += traffic.wrong()
    return Verdict(wrong, outcome.packets, outcome.views, outcome.seconds)


def shrunk(scenario: Scenario, model: Model, kind: str) -> Scenario:
    """Return the smallest scenario found that fails in the same way; without a calm none has to rest."""
    calm = any(step.verb == "calm" for step in scenario.steps)

    def fails(candidate: Scenario) -> bool:
        is_calm = any(step.verb == "calm" for step in candidate.steps)
        return is_calm == calm and verdict(candidate, model).kind == kind

    return shrink(scenario, fails)


# ---- the seeds ---------------------------------------------------------------------------------


class Chunk(msgspec.Struct):
    """A line of the file that remembers."""

    first: int
    packets: int
    more_than_three_views: int
    seconds: float
    failed: dict[int, list[str]]


def run_chunk(name: str, first: int) -> Chunk:
    chunk = Chunk(first, 0, 0, 0.0, {})
    for seed in range(first, first + CHUNK):
        found = verdict(generate(seed), CAMPAIGNS[name].model)
        chunk.packets += found.packets
        chunk.seconds += found.seconds
        chunk.more_than_three_views += found.views > 3
        if found.wrong:
            chunk.failed[seed] = found.wrong
    return chunk


class Memory:
    """The chunks that were run with the source as it is."""

    def __init__(self, name: str) -> None:
        files = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests" / "isis").glob("*.py")])
        digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
        self.path = ROOT / "campaign" / f"{name}-{digest[:12]}.jsonl"
        self.path.parent.mkdir(exist_ok=True)
        lines = self.path.read_bytes().splitlines() if self.path.exists() else []
        self.chunks = {chunk.first: chunk for line in lines for chunk in [msgspec.json.decode(line, type=Chunk)]}

    def add(self, chunk: Chunk) -> None:
        self.chunks[chunk.first] = chunk
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(chunk) + b"\n")


def run_seeds(name: str, seeds: range, workers: int, console: Console) -> Memory:
    """Run what is not remembered yet."""
    memory = Memory(name)
    firsts = [first for first in range(seeds.start, seeds.stop, CHUNK) if first not in memory.chunks]
    with (
        progress(console) as bar,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
    ):
        task = bar.add_task("seeds", total=len(seeds), completed=len(seeds) - CHUNK * len(firsts))
        for future in as_completed([pool.submit(run_chunk, name, first) for first in firsts]):
            memory.add(future.result())
            bar.advance(task, CHUNK)
    return memory


def progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)


def report_seeds(name: str, memory: Memory, console: Console) -> bool:
    """Print the totals, and what failed; whether nothing did."""
    chunks = memory.chunks.values()
    runs = CHUNK * len(memory.chunks)
    failed = {seed: wrong for chunk in chunks for seed, wrong in chunk.failed.items()}
    views = sum(chunk.more_than_three_views for chunk in chunks)
    console.print(
        f"{name}: {runs:,} runs, {sum(chunk.packets for chunk in chunks):,} packets, "
        f"{sum(chunk.seconds for chunk in chunks) / 3600:.1f} virtual hours, "
        f"{views / max(runs, 1):.0%} with more than three views, {len(failed)} failed"
    )
    for number, (seed, wrong) in enumerate(sorted(failed.items())[:LISTED_MAX]):
        console.print(f"seed {seed}: {wrong[0]}", soft_wrap=True)
        if number < SHRUNK_MAX:
            model = CAMPAIGNS[name].model
            print_scenario(shrunk(generate(seed), model, verdict(generate(seed), model).kind), console)
    return not failed


def print_scenario(scenario: Scenario, console: Console) -> None:
    console.print(f'SCENARIO = """\\\n{scenario}"""', soft_wrap=True, highlight=False, markup=False)


# ---- the mutations -----------------------------------------------------------------------------


class Found(NamedTuple):
    """The first seed that finds a mutation."""

    mutation: str
    seed: int | None
    wrong: str


def find(name: str, mutation: str, seeds_max: int = MUTANT_SEEDS_MAX) -> Found:
    model = CAMPAIGNS[name].mutant(mutation)
    for seed in range(seeds_max):
        if wrong := verdict(generate(seed), model).wrong:
            return Found(mutation, seed, wrong[0])
    return Found(mutation, None, "")


def run_mutations(name: str, workers: int, console: Console, show: bool) -> bool:
    """Look for each mutation; whether all were found."""
    campaign = CAMPAIGNS[name]
    found = []
    with progress(console) as bar, ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(find, name, mutation) for mutation in campaign.mutations]
        found += [future.result() for future in bar.track(futures, description="mutations")]
    for mutation, seed, wrong in found:
        if seed is None:
            console.print(f"mutation {mutation}: NOT FOUND in {MUTANT_SEEDS_MAX} seeds")
            continue
        console.print(f"mutation {mutation}: found after {seed + 1} seeds: {wrong}", soft_wrap=True)
        if show:
            model = campaign.mutant(mutation)
            print_scenario(shrunk(generate(seed), model, verdict(generate(seed), model).kind), console)
    return all(each.seed is not None for each in found)


# ---- the command -------------------------------------------------------------------------------


def seeds_of(text: str) -> range:
    first, _, last = text.partition(":")
    seeds = range(int(first), int(last or int(first) + 1))
    return range(seeds.start - seeds.start % CHUNK, seeds.stop + -seeds.stop % CHUNK)


def main(arguments: Iterator[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", choices=CAMPAIGNS, default="isis85")
    parser.add_argument("--seeds", type=seeds_of, default="0:10000", help=f"a:b, rounded outwards to chunks of {CHUNK}")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=("seeds", "mutations"), help="leave the other part out")
    parser.add_argument("--shrink-mutations", action="store_true", help="print a small scenario for each mutation")
    asked = parser.parse_args(None if arguments is None else list(arguments))
    console = Console()
    good = True
    if asked.only != "mutations":
        good &= report_seeds(asked.model, run_seeds(asked.model, asked.seeds, asked.workers, console), console)
    if asked.only != "seeds":
        good &= run_mutations(asked.model, asked.workers, console, asked.shrink_mutations)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
