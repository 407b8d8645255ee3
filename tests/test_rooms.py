"""Who imports whom, and what may not be used where.

ROOMS is the map of the house. import-linter enforces it, also through chains of imports; here it
is checked that its contracts in pyproject.toml say what the map says. The rest is read off the
syntax tree of each file: the rules that make a run with the same seed the same run on any machine.

A new room: a line in ROOMS, a contract in pyproject.toml, and, if it runs in the simulator, its
name in PURE.
"""

import ast
import random
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "covey"

# room -> the rooms that it may import
ROOMS: dict[str, set[str]] = {
    "kernel": set(),
    "trace": {"kernel"},
    "isis": {"kernel"},
    "evs": {"kernel"},
    "sim": {"kernel", "trace"},
    "net": {"kernel", "trace"},
    "verify": {"kernel", "trace"},
    "cli": {"kernel", "trace", "isis", "evs", "sim", "net", "verify"},
}

# Rooms whose code also runs in the simulator: no clock, socket, thread, disk or libm.
PURE = {"kernel", "trace", "isis", "evs", "sim"}

CLOCKS = {"datetime", "sched", "time"}
SOCKETS = {"asyncio", "select", "selectors", "socket", "ssl"}
THREADS = {"concurrent", "multiprocessing", "signal", "subprocess", "threading"}
DISKS = {"io", "os", "pathlib", "shutil", "sqlite3", "tempfile"}
CHANCE = {"numpy", "secrets", "uuid"}
LIBM = {"cmath", "math", "statistics"}
IMPURE = CLOCKS | SOCKETS | THREADS | DISKS | CHANCE | LIBM

# A file or room -> what it may import although it is pure.
EXCEPTIONS = {
    "kernel/storage_sqlite.py": {"os", "pathlib", "sqlite3"},
    "trace": {"io", "os", "pathlib"},
}

PICKLES = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}
SPARK_ROOMS = {"stream", "verify"}
SPARK_COMMANDS = {"cli/stream.py", "cli/verify.py"}

# Methods of Random that shape a distribution: their recipes differ between versions of Python,
# and some of them use libm. What is left: random(), getrandbits(), and the handling of the seed.
SHAPED = {name for name in dir(random.Random) if name[0].islower()} - {
    "random",
    "getrandbits",
    "seed",
    "getstate",
    "setstate",
}


def violations(path: str, text: str) -> list[str]:
    """What the file at `path`, relative to src/covey, does that its room may not."""
    tree = ast.parse(text)
    found = list(_forbidden_imports(path, tree))
    if path.split("/")[0] in PURE:
        found += _impurities(tree)
    return [f"{path}:{line}: {message}" for line, message in sorted(found)]


def _forbidden_imports(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    room = path.split("/")[0]
    banned = set(PICKLES)
    if room not in SPARK_ROOMS and path not in SPARK_COMMANDS:
        banned.add("pyspark")
    if room in PURE:
        banned |= IMPURE - EXCEPTIONS.get(path, set()) - EXCEPTIONS.get(room, set())
    for line, module in _imports(tree):
        if module in banned:
            yield line, f"imports {module}"


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.split(".")[0]


def _impurities(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="random", names=names):
                for alias in names:
                    if alias.name != "Random":
                        yield node.lineno, f"imports random.{alias.name}, which is not Random"
            case ast.Import(names=names) if any(alias.name == "random" and alias.asname for alias in names):
                yield node.lineno, "gives the module random another name"
            case ast.Attribute(value=ast.Name("random"), attr=name) if name != "Random":
                yield node.lineno, f"uses random.{name}: draw from a Random that the host seeded"
            case ast.Attribute(attr=name) if name in SHAPED:
                yield node.lineno, f"uses .{name}: draw only with random() and getrandbits()"
            case ast.Call(func=ast.Name("Random") | ast.Attribute(attr="Random"), args=[]):
                yield node.lineno, "makes a Random without a seed"
            case ast.Name("hash" | "id" as name, ctx=ast.Load()):
                yield node.lineno, f"uses {name}(), which differs from process to process"
            case ast.Name("pow", ctx=ast.Load()):
                yield node.lineno, "uses pow(), which is libm for floats"
            case ast.BinOp(op=ast.Pow(), left=left, right=right) if not (_is_integer(left) and _is_integer(right)):
                yield node.lineno, "uses ** on what may be a float, which is libm"
            case ast.AugAssign(op=ast.Pow()):
                yield node.lineno, "uses **= on what may be a float, which is libm"


def _is_integer(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


# --- the house as it stands


def test_import_contracts_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("logging.config.dictConfig", lambda _: None)  # it would silence covey's loggers for later tests
    assert lint_imports(no_cache=True) == EXIT_STATUS_SUCCESS


def test_every_room_is_on_the_map() -> None:
    rooms = {entry.parent.name for entry in SOURCE.glob("*/__init__.py")}
    assert rooms == set(ROOMS)


def test_contracts_say_what_the_map_says() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    said = {
        room.removeprefix("covey."): {name.removeprefix("covey.") for name in contract["forbidden_modules"]}
        for contract in contracts
        for room in contract["source_modules"]
    }
    forbidden = {room: set(ROOMS) - allowed - {room} for room, allowed in ROOMS.items()}
    assert said == {room: others for room, others in forbidden.items() if others}


@pytest.mark.parametrize("path", sorted(str(p.relative_to(SOURCE).as_posix()) for p in SOURCE.rglob("*.py")))
def test_source_keeps_the_rules_of_its_room(path: str) -> None:
    assert violations(path, (SOURCE / path).read_text()) == []


# --- the rules catch what they are for


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("kernel/engine.py", "import time", "imports time"),
        ("isis/sites.py", "from asyncio import sleep", "imports asyncio"),
        ("isis/sites.py", "def f():\n    import socket.x", "imports socket"),
        ("sim/world.py", "import math", "imports math"),
        ("trace/reader.py", "import math", "imports math"),
        ("sim/world.py", "import os", "imports os"),
        ("isis/links.py", "import sqlite3", "imports sqlite3"),
        ("trace/recorder.py", "import socket", "imports socket"),
        ("cli/main.py", "import pickle", "imports pickle"),
        ("__init__.py", "from pickle import loads", "imports pickle"),
        ("cli/main.py", "import pyspark.sql", "imports pyspark"),
        ("trace/reader.py", "from pyspark import sql", "imports pyspark"),
        ("sim/world.py", "from random import shuffle", "imports random.shuffle, which is not Random"),
        ("sim/world.py", "import random as r", "gives the module random another name"),
        (
            "sim/world.py",
            "import random\nrandom.random()",
            "uses random.random: draw from a Random that the host seeded",
        ),
        ("sim/world.py", "self.rng.shuffle(xs)", "uses .shuffle: draw only with random() and getrandbits()"),
        ("sim/world.py", "draw = rng.expovariate", "uses .expovariate: draw only with random() and getrandbits()"),
        ("sim/world.py", "rng.randint(1, 6)", "uses .randint: draw only with random() and getrandbits()"),
        ("sim/world.py", "random.Random()", "makes a Random without a seed"),
        ("sim/world.py", "Random()", "makes a Random without a seed"),
        ("isis/sites.py", "hash(name)", "uses hash(), which differs from process to process"),
        ("isis/sites.py", "sorted(xs, key=id)", "uses id(), which differs from process to process"),
        ("sim/world.py", "x ** 0.5", "uses ** on what may be a float, which is libm"),
        ("sim/world.py", "x **= 2", "uses **= on what may be a float, which is libm"),
        ("sim/world.py", "pow(x, y)", "uses pow(), which is libm for floats"),
    ],
)
def test_a_violation_is_caught(path: str, text: str, message: str) -> None:
    line = text.count("\n") + 1 if text.startswith(("def", "import random\n")) else 1
    assert violations(path, text) == [f"{path}:{line}: {message}"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("kernel/storage_sqlite.py", "import sqlite3"),
        ("trace/recorder.py", "import io, os"),
        ("cli/simulate.py", "import time, math, pathlib"),
        ("cli/verify.py", "import pyspark"),
        ("verify/evs.py", "from pyspark.sql import DataFrame"),
        ("sim/world.py", "import random\nrandom.Random(7).random()"),
        ("sim/world.py", "from random import Random\nRandom(seed).getrandbits(8)"),
        ("sim/world.py", "world.seed = 2 ** 32"),
        ("isis/sites.py", "from .time import x"),
        ("isis/sites.py", "class A:\n    id: int\n    def __hash__(self): return self.id"),
        ("cli/main.py", "hash(x)"),
    ],
)
def test_what_is_allowed_passes(path: str, text: str) -> None:
    assert violations(path, text) == []
