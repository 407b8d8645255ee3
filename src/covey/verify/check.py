"""Verdicts on a trace: what every property of its models says, with witnesses."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from pyspark.sql import functions as F

from covey.kernel.errors import MisuseError
from covey.verify import evs, kernel, vs
from covey.verify.kernel import FOUND, WITNESSES_MAX, Property

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LIVES = ["start", "fail", "stop"]
EVENTS = [*LIVES, "config", "send", "deliver"]
COLUMNS = [
    "run",
    "group",
    "process",
    "incarnation",
    "index",
    "event",
    "count",
    "config",
    "kind",
    "members",
    "seq",
    "primary",
    "previous",
    "origin",
    "origin_incarnation",
    "origin_number",
    "ordinal",
    "service",
]
"""What the properties look at."""


class Judged(NamedTuple):
    """A model that can be judged."""

    properties: list[Property]
    incarnations: bool
    """Whether its members are incarnations of processes."""


MODELS = {"evs": Judged(evs.PROPERTIES, incarnations=False), "vs": Judged(vs.PROPERTIES, incarnations=True)}


class Witness(Struct, frozen=True):
    """The few events that contradict a property, and why they do."""

    run: str
    why: str
    events: list[tuple[str, int]]
    """Process and index."""


class Verdict(Struct, omit_defaults=True):
    """Of one property, over all runs."""

    status: str
    """`pass`, `fail` or `skipped`."""
    checked: int | None = None
    """On how many sends, deliveries or installations, by what the property is about."""
    violations: int | None = None
    witnesses: list[Witness] | None = None
    why: str = ""
    """Why it was skipped."""


class Verdicts(Struct):
    """Of a whole trace."""

    events: int
    """Messages count each, also where a row stands for several."""
    runs: int
    failing: dict[str, list[str]]
    """The ids of what each run violates."""
    properties: dict[str, Verdict]


def check(trace: "DataFrame", models: Collection[str] = (), properties: Collection[str] = ()) -> Verdicts:
    """Judge the runs of a trace by the properties of their models, or by those that are named.

    `trace` has the columns of docs/reference/trace.md, as `covey.verify.bronze` reads them.
    """
    refuse_unknown(models, properties)
    count = F.when(F.col("event") == "run", 0).otherwise(F.coalesce("count", F.lit(1)))
    found = trace.agg(
        F.sum(count).alias("events"),
        F.count_distinct("run").alias("runs"),
        F.array_distinct(F.flatten(F.collect_set("model"))).alias("models"),
    ).collect()[0]
    wanted = [name for name in found["models"] if not models or name in models]
    if unknown := sorted(set(wanted) - MODELS.keys()):
        raise MisuseError(
            f"there are no properties yet for model {', '.join(unknown)}: it can be judged by {', '.join(MODELS)}; "
            f"with --model {' or '.join(MODELS)} other runs are left out"
        )
    verdicts = Verdicts(found["events"], found["runs"], {}, {})
    for name in sorted(wanted):
        _judge(trace, name, properties, verdicts)
    verdicts.failing = {run: sorted(ids) for run, ids in sorted(verdicts.failing.items())}
    return verdicts


def ids_of(model: str) -> list[str]:
    """Return the ids of a model's properties."""
    return [name for each in MODELS[model].properties for name in each.ids]


def refuse_unknown(models: Collection[str], properties: Collection[str]) -> None:
    """Refuse what cannot be judged by."""
    if unknown := sorted({*models} - MODELS.keys()):
        raise MisuseError(f"no properties for model {', '.join(unknown)}; there are some for {', '.join(MODELS)}")
    known = {name for model in MODELS for name in ids_of(model)}
    if unknown := sorted(set(properties) - known):
        raise MisuseError(f"no property {', '.join(unknown)}; there are {', '.join(sorted(known))}")


def by_group(trace: "DataFrame", headers: "DataFrame") -> "DataFrame":
    """Return the rows of these runs, those about a process as a whole (marked so) in each group that it belongs to."""
    rows = trace.select(*COLUMNS).where(F.col("event").isin(EVENTS))
    is_life = F.col("event").isin(LIVES) & (F.col("group") == "")
    others, lives = rows.where(~is_life).withColumn("whole", F.lit(False)), rows.where(is_life)
    groups = others.select("run", "process", "group").distinct()
    shared = lives.drop("group").join(groups, ["run", "process"], "left").fillna("", ["group"])
    shared = shared.join(groups.select("run", "group").distinct(), ["run", "group"], "left_semi")
    alone = lives.join(groups.select("run").distinct(), "run", "left_anti").withColumn("whole", F.lit(False))
    shared = shared.withColumn("whole", F.col("group") != "")
    return others.unionByName(shared).unionByName(alone).join(headers, "run")


def _judge(trace: "DataFrame", model: str, wanted: Collection[str], verdicts: Verdicts) -> None:
    judged = MODELS[model]
    properties = [each for each in judged.properties if not wanted or {*each.ids} & {*wanted}]
    headers = trace.where((F.col("event") == "run") & F.array_contains("model", model))
    headers = headers.groupBy("run").agg(F.bool_or("complete").alias("complete"), F.bool_or("healed").alias("healed"))
    kernels = kernel.judge(properties, incarnations=judged.incarnations)
    found = by_group(trace, headers).groupBy("run", "group").applyInArrow(kernels, FOUND)
    fails = F.col("violations") > 0
    told = F.collect_list(F.when(fails, F.struct("run", "witnesses")))
    rows = found.groupBy("property").agg(
        F.sum("checked").alias("checked"),
        F.sum("violations").alias("violations"),
        F.collect_set(F.when(fails, F.col("run"))).alias("runs"),
        F.slice(F.array_sort(told), 1, WITNESSES_MAX).alias("told"),
    )
    by_number = {row["property"]: row for row in rows.collect()}
    for number, each in enumerate(properties):
        for name in each.ids:
            if not wanted or name in wanted:
                _add(verdicts, name, each, by_number.get(number))


def _add(verdicts: Verdicts, name: str, each: Property, row: Any) -> None:
    if row is None:
        why = f", or no run with that is {each.needs}" if each.needs else ""
        verdicts.properties[name] = Verdict("skipped", why=f"the trace has nothing that it is about{why}")
    else:
        witnesses = [
            Witness(told["run"], witness["why"], [(event["process"], event["index"]) for event in witness["events"]])
            for told in row["told"]
            for witness in told["witnesses"]
        ]
        status = "fail" if row["violations"] else "pass"
        verdicts.properties[name] = Verdict(status, row["checked"], row["violations"], witnesses[:WITNESSES_MAX])
        for run in row["runs"]:
            verdicts.failing.setdefault(run, []).append(name)
