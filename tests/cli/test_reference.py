"""The reference pages and the program say the same; what their examples print, tests/test_docs.py compares."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from covey.cli import main
from covey.cli.main import BROKEN_PIPE, BUG, INTERRUPTED, UNUSABLE
from covey.sim.network import QUANTILES_MS, delay_table
from covey.sim.scenario import FORMS, SETTINGS, VERBS

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading, but for its head."""
    _, _, section = (REFERENCE / page).read_text().partition(f"\n## {heading}\n")
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    cells = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:])
    return [[cell.replace("\\|", "|").strip("`") for cell in row] for row in cells]


def commands(command: click.Command, path: str) -> Iterator[str]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, f"{path} {name}")


def test_every_command_has_its_section_with_its_help() -> None:
    text = (REFERENCE / "cli.md").read_text()
    shown = re.findall(r"^## (covey.*)\n\n```console\n\$ (.*) --help\nUsage: ", text, flags=re.MULTILINE)
    assert all(heading == command for heading, command in shown)
    assert sorted(command for _, command in shown) == sorted(commands(main.cli, "covey"))


def test_every_exit_status_is_explained() -> None:
    statuses = [int(row[0]) for row in rows("cli.md", "Exit status")]
    assert statuses == sorted({0, 1, UNUSABLE, BUG, INTERRUPTED, BROKEN_PIPE, 143})


def test_every_verb_has_its_form() -> None:
    assert list(FORMS) == list(VERBS)
    assert all(form.startswith(verb) for verb, form in FORMS.items())


def test_every_step_and_every_setting_is_explained() -> None:
    assert sorted(row[0] for row in rows("scenario.md", "Steps")) == sorted(FORMS.values())
    assert sorted(row[0] for row in rows("scenario.md", "Settings")) == sorted(SETTINGS.values())


def test_every_table_of_delays_is_explained() -> None:
    shown = {name: values for name, *values in rows("scenario.md", "Weather")}
    assert shown.keys() == QUANTILES_MS.keys()
    for name, (least, middle, most) in shown.items():
        table = delay_table(name)
        assert f"{QUANTILES_MS[name][0]:g} ms" == least
        assert f"{table[128] * 1000:.2g} ms" == middle
        assert f"{QUANTILES_MS[name][-1]:g} ms" == most
