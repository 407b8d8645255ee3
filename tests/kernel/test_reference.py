"""The reference pages say what the code does: every reason for a drop, every key, every limit, every trouble."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from covey.evs import engine, primary
from covey.evs import messages as evs
from covey.evs.membership import State
from covey.isis import messages, sequence
from covey.kernel import ids, storage, storage_sqlite, wire

ROOT = Path(__file__).parents[2]
WIRE = (ROOT / "docs/reference/wire.md").read_text()
STORAGE = (ROOT / "docs/reference/storage.md").read_text()
EVS = (ROOT / "docs/explanation/extended-virtual-synchrony.md").read_text()


def reasons() -> Iterator[str]:
    """What is given to `drop` anywhere in the engines; of a text with gaps, the parts."""
    files = (file for stack in ("isis", "evs") for file in sorted((ROOT / "src/covey" / stack).rglob("*.py")))
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "drop":
                parts = [part for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
                yield from (str(part.value).strip() for part in parts)


def dropped() -> Iterator[str]:
    """What the wire itself drops packets for."""
    for node in ast.walk(ast.parse(Path(wire.__file__).read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Dropped":
            (reason,) = node.args
            assert isinstance(reason, ast.Constant)
            yield f"`packet: {reason.value}`"


@pytest.mark.parametrize("reason", sorted({*reasons(), *dropped()}))
def test_every_reason_for_a_drop_is_explained(reason: str) -> None:
    assert reason in WIRE


@pytest.mark.parametrize(
    ("page", "said", "value"),
    [
        (WIRE, "| version | 1:", wire.VERSION == 1),
        (WIRE, "| name | 255 bytes |", ids.NAME_BYTES_MAX == 255),
        (WIRE, "| incarnation | 2³¹", ids.INCARNATION_MAX == 2**31 - 1),
        (WIRE, "| messages in a frame | 65,535,", wire.MESSAGES_MAX == 65_535),
        (WIRE, "| sites in a view | 257 |", messages.SITES_MAX == 257),
        (WIRE, "| views in an extension | 64 |", messages.VIEWS_MAX == 64),
        (WIRE, "2⁵³; a site begins no term beyond", messages.COUNT_MAX == 2**53),
        (WIRE, "from 0 to 10¹² seconds", messages.TIME_MAX_S == 10**12),
        (WIRE, "| 4 | segment |", messages.KINDS == {1: "hello", 2: "receipt", 3: "you-are-dead", 4: "segment"}),
        (WIRE, "| members of a ring | 256 |", evs.MEMBERS_MAX == 256),
        (WIRE, "| processes in each list of a join | 1,024 |", 4 * evs.MEMBERS_MAX == 1024),
        (WIRE, "| number of a ring | 2³¹", evs.RING_MAX == 2**31 - 1),
        (WIRE, "| number of a frame, and of a hop | 2⁴⁶ |", evs.COUNT_MAX == 2**46),
        (WIRE, "| ranges in a list | 1024:", evs.RANGES_MAX == 1024),
        (WIRE, "| 32 | frame |", evs.FRAME == 32),
        (
            WIRE,
            "0 causal, 1 agreed, 2 safe, 3 recovered, 4 change",
            [*evs.SERVICES, evs.RECOVERED, evs.CHANGE] == ["causal", "agreed", "safe", 3, 4],
        ),
        (STORAGE, "| `evs.ring` |", engine.RING_KEY == "evs.ring"),
        (STORAGE, "| `evs.primary` |", primary.KEY == "evs.primary"),
        (STORAGE, "version of this format: 1 |", storage.FORMAT == 1),
        (STORAGE, "`covey.format`", storage.FORMAT_KEY == "covey.format"),
        (STORAGE, "`covey.name`", storage.NAME_KEY == "covey.name"),
        (STORAGE, "`covey.incarnation`", storage.INCARNATION_KEY == "covey.incarnation"),
        (
            STORAGE,
            "`isis.promised`, `isis.accepted`",
            (sequence.PROMISED, sequence.ACCEPTED) == ("isis.promised", "isis.accepted"),
        ),
        (STORAGE, "`application_id` is 0x636F7679", storage_sqlite._COVEY == 0x636F7679),
    ],
    ids=lambda value: value.strip("| `") if isinstance(value, str) and len(value) < 50 else "",
)
def test_what_the_pages_say_is_so(page: str, said: str, value: bool) -> None:
    assert said in page
    assert value


@pytest.mark.parametrize("message", evs.CODEC._kinds, ids=lambda message: message.__name__)
def test_every_control_message_of_the_ring_stands_there_with_its_fields(message: type) -> None:
    fields = ", ".join(f"`{field}`" for field in message.__struct_fields__)
    assert f"| {evs.CODEC._kinds[message]} | {message.__name__.lower()} | {fields} |" in WIRE


@pytest.mark.parametrize(
    "what", [evs.Info, evs.Told, primary.Standing, primary.Component], ids=lambda what: what.__name__
)
def test_what_control_messages_hold_is_named_field_by_field(what: type) -> None:
    assert [field for field in what.__struct_fields__ if f"`{field}`" not in WIRE] == []


@pytest.mark.parametrize("state", engine.TAKES, ids=lambda state: state.value)
def test_what_a_state_takes_is_said(state: State) -> None:
    taken = ", ".join(kind.__name__.lower() for kind in engine.TAKES[state])
    assert f"| {state.value} | {taken} |" in WIRE


@pytest.mark.parametrize("trouble", storage_sqlite._TROUBLES.values())
def test_every_trouble_with_the_file_is_explained(trouble: str) -> None:
    assert trouble.partition(";")[0] in STORAGE


CONSTANT = re.compile(r"^\| `(\w+)\.([A-Z_]+)` \| ([\d.,]+)", flags=re.MULTILINE)


@pytest.mark.parametrize(("module", "name", "value"), CONSTANT.findall(EVS))
def test_the_times_and_bounds_of_the_ring_are_as_the_page_says(module: str, name: str, value: str) -> None:
    assert getattr(import_module(f"covey.evs.{module}"), name) == float(value.replace(",", ""))
