"""The reference pages say what the code does: every reason for a drop, every key, every limit, every trouble."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.isis import messages, sequence
from covey.kernel import ids, storage, storage_sqlite, wire

ROOT = Path(__file__).parents[2]
WIRE = (ROOT / "docs/reference/wire.md").read_text()
STORAGE = (ROOT / "docs/reference/storage.md").read_text()


def reasons() -> Iterator[str]:
    """What is given to `drop` anywhere in the engines; of a text with gaps, the parts."""
    for file in sorted((ROOT / "src/covey/isis").rglob("*.py")):
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


@pytest.mark.parametrize("trouble", storage_sqlite._TROUBLES.values())
def test_every_trouble_with_the_file_is_explained(trouble: str) -> None:
    assert trouble.partition(";")[0] in STORAGE
