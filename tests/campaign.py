"""Many random scenarios, judged from their traces: `make campaign MODEL=isis85 SEEDS=0:10000`.

What was run is kept in `campaign/`, a file for each model, size and state of the source, so that a call goes on
where the one before stopped, and the totals grow over calls. After the seeds each mutation of the
protocol is run until the same scenarios find it. A failing seed is shrunk to a scenario that can be pasted
into a test.

A model has a line in `CAMPAIGNS`: what judges it, and what is broken in it to see whether that is found.

Exit status: 0 when no seed failed and every mutation was found, 1 otherwise.
"""

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from covey.cli.models import MODELS
from covey.sim.generate import scenario_of
from covey.sim.model import SIZES, Model
from covey.sim.run import run
from covey.sim.scenario import Scenario
from covey.sim.shrink import shrink
from covey.sim.world import World
from covey.trace import MemorySink, Recorder
from tests.evs import mutations as evs_mutations
from tests.evs.judge import judge as judge_evs
from tests.isis import judge, mutations
from tests.isis.traffic import Traffic

ROOT = Path(__file__).parents[1]
RUN = "run"
CHUNK = 50
"""Seeds that are run, and remembered, at a time."""
MUTANT_SEEDS_MAX = 2000
"""Within so many seeds a mutation must be found."""
LISTED_MAX = 20
SHRUNK_MAX = 3
"""So many failing seeds are listed, and shrunk."""


Row = dict[str, Any]


class Witness(Protocol):
    """Judges a run by what it saw of the world, where the trace does not have it."""

    def watch(self, world: World) -> None: ...
    def wrong(self) -> Iterable[str]: ...


class Campaign(NamedTuple):
    """What is needed to run and to judge a model; what is wrong are sentences that say who objects: `judge: ...`."""

    model: Model
    judge: Callable[[list[Row], World], Iterable[str]]
    """Judges one run of the trace, and is given the world at its end; of a model with a layer there are two."""
    tests: str
    """The folder of its tests, on which the verdicts depend as they do on the source."""
    mutations: Sequence[str]
    mutant: Callable[[str], Model]
    witness: Callable[[], Witness] | None = None


def judge_sites(rows: list[Row], world: World) -> list[str]:
    components = [{machine.pid.name for machine in component} for component in world.components()]
    return [f"judge: {sentence}" for sentence in judge.judge(rows, components)]


def judge_ring(rows: list[Row], world: World) -> list[str]:
    return [f"{violation.property}: {violation.why}" for violation in judge_evs(rows)]


CAMPAIGNS = {
    "isis85": Campaign(MODELS["isis85"], judge_sites, "isis", list(mutations.MUTATIONS), mutations.mutant, Traffic),
    "evs": Campaign(MODELS["evs"], judge_ring, "evs", list(evs_mutations.MUTATIONS), evs_mutations.mutant),
    "vs": Campaign(MODELS["vs"], judge_ring, "evs", [], evs_mutations.mutant),
}


class Verdict(NamedTuple):
    """What became of one run."""

    wrong: list[str]
    packets: int
    views: int
    seconds: float
    cases: set[str]

    @property
    def kind(self) -> str:
        """Who objected; shrinking keeps to that."""
        return self.wrong[0].partition(":")[0] if self.wrong else ""


def verdict(scenario: Scenario, campaign: Campaign, mutation: str = "") -> Verdict:
    """Play a scenario, and judge it: by the engine's own invariants, by rest, and by its trace."""
    model = campaign.mutant(mutation) if mutation else campaign.model
    sink = MemorySink()
    witness = campaign.witness() if campaign.witness is not None else None
    worlds: list[World] = []

    def watch(world: World) -> None:
        worlds.append(world)
        if witness is not None:
            witness.watch(world)

    outcome = run(scenario, model, Recorder(sink), RUN, watch)
    wrong = [f"check: {outcome.broken}"] if outcome.broken else []
    wrong += ["rest: it did not come to rest"] if outcome.unrested else []
    runs = by_run(sink.rows)
    for rows in runs.values():
        wrong += campaign.judge(rows, worlds[0])
    wrong += witness.wrong() if witness is not None else ()
    cases = model.cases(runs[RUN]) if model.cases is not None else set()
    return Verdict(wrong, outcome.packets, outcome.views, outcome.seconds, cases)


def by_run(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each run: of the stack's own, and of what its layer let through."""
    runs: dict[str, list[Row]] = {}
    for row in rows:
        runs.setdefault(row["run"], []).append(row)
    return runs


def shrunk(scenario: Scenario, campaign: Campaign, mutation: str = "") -> Scenario:
    """Return the smallest scenario found that fails in the same way; without a calm none has to rest."""
    kind = verdict(scenario, campaign, mutation).kind
    calm = any(step.verb == "calm" for step in scenario.steps)

    def fails(candidate: Scenario) -> bool:
        is_calm = any(step.verb == "calm" for step in candidate.steps)
        return is_calm == calm and verdict(candidate, campaign, mutation).kind == kind

    return shrink(scenario, fails)


# ---- the seeds ---------------------------------------------------------------------------------


class Chunk(msgspec.Struct):
    """A line of the file that remembers."""

    first: int
    packets: int
    more_than_three_views: int
    seconds: float
    failed: dict[int, list[str]]
    cases: dict[str, int] = {}
    """How many runs reached each."""


def run_chunk(name: str, first: int, size: str = "usual") -> Chunk:
    chunk = Chunk(first, 0, 0, 0.0, {})
    campaign = CAMPAIGNS[name]
    for seed in range(first, first + CHUNK):
        found = verdict(scenario_of(campaign.model, seed, size), campaign)
        chunk.packets += found.packets
        chunk.seconds += found.seconds
        chunk.more_than_three_views += found.views > 3
        if found.wrong:
            chunk.failed[seed] = found.wrong
        for case in sorted(found.cases):
            chunk.cases[case] = chunk.cases.get(case, 0) + 1
    return chunk


class Memory:
    """The chunks that were run with the source as it is."""

    def __init__(self, name: str, size: str) -> None:
        files = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests" / CAMPAIGNS[name].tests).glob("*.py")])
        digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
        self.path = ROOT / "campaign" / f"{name}-{size}-{digest[:12]}.jsonl"
        self.path.parent.mkdir(exist_ok=True)
        lines = self.path.read_bytes().splitlines() if self.path.exists() else []
        self.chunks = {chunk.first: chunk for line in lines for chunk in [msgspec.json.decode(line, type=Chunk)]}

    def add(self, chunk: Chunk) -> None:
        self.chunks[chunk.first] = chunk
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(chunk) + b"\n")


def run_seeds(name: str, size: str, seeds: range, workers: int, console: Console) -> Memory:
    """Run what is not remembered yet."""
    memory = Memory(name, size)
    firsts = [first for first in range(seeds.start, seeds.stop, CHUNK) if first not in memory.chunks]
    with (
        progress(console) as bar,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
    ):
        task = bar.add_task("seeds", total=len(seeds), completed=len(seeds) - CHUNK * len(firsts))
        for future in as_completed([pool.submit(run_chunk, name, first, size) for first in firsts]):
            memory.add(future.result())
            bar.advance(task, CHUNK)
    return memory


def progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)


def report_seeds(name: str, size: str, memory: Memory, console: Console) -> bool:
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
    cases: Counter[str] = sum((Counter(chunk.cases) for chunk in chunks), Counter())
    for case, count in cases.most_common():
        console.print(f"{case}: {count:,} runs, {count / runs:.0%}")
    campaign = CAMPAIGNS[name]
    for number, (seed, wrong) in enumerate(sorted(failed.items())[:LISTED_MAX]):
        console.print(f"seed {seed}: {wrong[0]}", soft_wrap=True)
        if number < SHRUNK_MAX:
            print_scenario(shrunk(scenario_of(campaign.model, seed, size), campaign), console)
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
    campaign = CAMPAIGNS[name]
    for seed in range(seeds_max):
        if wrong := verdict(scenario_of(campaign.model, seed), campaign, mutation).wrong:
            return Found(mutation, seed, wrong[0])
    return Found(mutation, None, "")


def run_mutations(name: str, asked: Sequence[str], workers: int, console: Console, show: bool) -> bool:
    """Look for each mutation that is asked for; whether all were found."""
    campaign = CAMPAIGNS[name]
    found = []
    with progress(console) as bar, ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(find, name, mutation) for mutation in asked]
        found += [future.result() for future in bar.track(futures, description="mutations")]
    for mutation, seed, wrong in found:
        if seed is None:
            console.print(f"mutation {mutation}: NOT FOUND in {MUTANT_SEEDS_MAX} seeds")
            continue
        console.print(f"mutation {mutation}: found after {seed + 1} seeds: {wrong}", soft_wrap=True)
        if show:
            print_scenario(shrunk(scenario_of(campaign.model, seed), campaign, mutation), console)
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
    parser.add_argument("--size", choices=SIZES, default="usual", help="of the runs of the seeds")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=("seeds", "mutations"), help="leave the other part out")
    parser.add_argument("--mutation", action="append", metavar="NAME", help="just this one; may be given several times")
    parser.add_argument("--shrink-mutations", action="store_true", help="print a small scenario for each mutation")
    asked = parser.parse_args(None if arguments is None else list(arguments))
    known = CAMPAIGNS[asked.model].mutations
    if unknown := {*(asked.mutation or ())} - {*known}:
        parser.error(f"no mutation {' '.join(sorted(unknown))}; there are {', '.join(known)}")
    console = Console()
    good = True
    if asked.only != "mutations" and not asked.mutation:
        memory = run_seeds(asked.model, asked.size, asked.seeds, asked.workers, console)
        good &= report_seeds(asked.model, asked.size, memory, console)
    if asked.only != "seeds":
        wanted = asked.mutation or known
        good &= run_mutations(asked.model, wanted, asked.workers, console, asked.shrink_mutations)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
