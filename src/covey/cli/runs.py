"""Many runs at once: seeds in chunks, each chunk a file of the trace, in worker processes.

A chunk is written whole or not at all, and which seeds it holds depends on the seeds alone: the files are the
same however many workers there are.
"""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import count, islice
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from msgspec import Struct

from covey.cli.models import MODELS
from covey.kernel.errors import MisuseError, WorldError
from covey.sim.generate import scenario_of
from covey.sim.model import Model
from covey.sim.run import Outcome, run
from covey.trace import MemorySink, Recorder
from covey.trace.files import STREAM, SUFFIXES, trace_files
from covey.trace.jsonl import write_lines
from covey.trace.parquet import have_arrow, write_parquet

CHUNK = 100
"""Runs of one file; a worker holds the rows of so many in memory."""

Tell = Callable[[int], None]
"""Told now and then how many runs are done."""


class Totals(Struct):
    """What became of some runs."""

    runs: int = 0
    packets: int = 0
    virtual_seconds: float = 0.0
    views: int = 0
    with_more_than_three_views: int = 0
    """Runs."""
    failed: dict[str, str] = {}
    """Why, by the names of the runs."""
    cases: dict[str, int] = {}
    """How many runs reached a case, by its name, where that was asked for."""

    def count(self, name: str, outcome: Outcome, cases: Iterable[str] = ()) -> None:
        self.runs += 1
        self.packets += outcome.packets
        self.virtual_seconds += outcome.seconds
        self.views += outcome.views
        self.with_more_than_three_views += outcome.views > 3
        if outcome.failed:
            self.failed[name] = outcome.why
        self._count_cases(dict.fromkeys(cases, 1))

    def add(self, other: "Totals") -> None:
        self.runs += other.runs
        self.packets += other.packets
        self.virtual_seconds += other.virtual_seconds
        self.views += other.views
        self.with_more_than_three_views += other.with_more_than_three_views
        self.failed |= other.failed
        self._count_cases(other.cases)

    def _count_cases(self, cases: Mapping[str, int]) -> None:
        """Add these; the most frequent ones stand first."""
        counted = Counter(self.cases) + Counter(cases)
        self.cases = dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


class Output(NamedTuple):
    """Where a trace goes, and how it is encoded."""

    directory: Path
    format: str

    def write(self, name: str, rows: Sequence[dict[str, Any]]) -> None:
        """Write one file, whole or not at all."""
        path = self.directory / f"{name}.{self.format}"
        try:
            (write_parquet if self.format == "parquet" else write_lines)(path, rows)
        except OSError as error:
            raise WorldError(f"{path}: cannot write the trace: {error.strerror}") from error


class Job(NamedTuple):
    """Runs of one file."""

    model: str
    seeds: range
    output: Output | None
    size: str
    stat: bool
    """Whether cases are counted."""


def open_output(directory: Path, format: str | None) -> Output:
    """A directory without a trace in it, made if need be."""
    if format == "parquet" and not have_arrow():
        raise WorldError(
            'Parquet needs pyarrow, which is not installed: pip install "covey[trace]", or give --format jsonl'
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorldError(f"{directory}: cannot write a trace there: {error.strerror}") from error
    if trace_files(directory, *SUFFIXES, STREAM):
        raise MisuseError(
            f"{directory} holds a trace already, and another one would mix with it; "
            "give another directory, or remove that one"
        )
    return Output(directory, format or ("parquet" if have_arrow() else "jsonl"))


def play_seeds(asked: Job, workers: int, tell: Tell) -> Totals:
    """Run all seeds, in worker processes where there is more than one chunk."""
    seeds = asked.seeds
    jobs = [asked._replace(seeds=seeds[first : first + CHUNK]) for first in range(0, len(seeds), CHUNK)]
    workers = min(workers, len(jobs))
    totals = Totals()
    for part in _play_alone(jobs, tell) if workers == 1 else _play_in_workers(jobs, workers, tell):
        totals.add(part)
    return totals


def _play_alone(jobs: Iterable[Job], tell: Tell) -> Iterator[Totals]:
    numbers = count(1)
    for job in jobs:
        yield play_chunk(job, lambda: tell(next(numbers)))


def play_chunk(job: Job, tick: Callable[[], None]) -> Totals:
    """Run these seeds, each a run of its name, and write one file; `tick` is called after each run."""
    sink = MemorySink()
    recorder, totals = Recorder(sink), Totals()
    model = MODELS[job.model]
    for seed in job.seeds:
        name, begin = f"seed-{seed}", len(sink.rows)
        outcome = run(scenario_of(model, seed, job.size), model, recorder, name)
        totals.count(name, outcome, cases_of(model, name, sink.rows[begin:]) if job.stat else ())
        tick()
    if job.output is not None:
        job.output.write(f"seeds-{job.seeds[0]:06}-{job.seeds[-1]:06}", sink.rows)
    return totals


def cases_of(model: Model, name: str, rows: Iterable[dict[str, Any]]) -> set[str]:
    """Return the cases that the run of that name reached; a layer's run beside it is not looked at."""
    assert model.cases is not None
    return model.cases([row for row in rows if row["run"] == name])


# ---- workers -----------------------------------------------------------------------------------


class _Stopped(Exception):
    """The runs are not wanted any more."""


_stop: Any = None
_done: Any = None
"""Shared with the process that waits: whether to go on, and how many runs were done."""


def _play_in_workers(jobs: Sequence[Job], workers: int, tell: Tell) -> list[Totals]:
    context = get_context("spawn")
    stop, done = context.Event(), context.Value("q", 0)
    pool = ProcessPoolExecutor(workers, context, _begin_worker, (stop, done))
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        return _hand_out(pool, jobs, 2 * workers, lambda: tell(done.value))
    except BrokenProcessPool:
        raise WorldError("a worker process was killed, perhaps for want of memory; try fewer --workers") from None
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: Any) -> None:
    sys.exit(128 + number)


def _hand_out(pool: ProcessPoolExecutor, jobs: Iterable[Job], ahead: int, poll: Callable[[], None]) -> list[Totals]:
    """Let the jobs be done, a few given out ahead; return what came of them, in their order."""
    todo = enumerate(jobs)
    waiting: dict[Future[Totals], int] = {}
    results: dict[int, Totals] = {}
    while True:
        with _signals_held():
            for number, job in islice(todo, ahead - len(waiting)):
                waiting[pool.submit(_play_in_worker, job)] = number
        if not waiting:
            return [results[number] for number in sorted(results)]
        finished, _ = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
        poll()
        for future in finished:
            results[waiting.pop(future)] = future.result()


@contextmanager
def _signals_held() -> Iterator[None]:
    """No start of a process is interrupted, and what is started is deaf to both signals: this process stops it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker(stop: Any, done: Any) -> None:
    global _stop, _done
    _stop, _done = stop, done
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _play_in_worker(job: Job) -> Totals:
    return play_chunk(job, _count)


def _count() -> None:
    if _stop.is_set():
        raise _Stopped
    with _done.get_lock():
        _done.value += 1
