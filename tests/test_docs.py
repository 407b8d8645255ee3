"""The documentation runs.

Each fenced block of README.md, CONTRIBUTING.md and docs/ is of one of these kinds:

- `python` is executed. The blocks of a file share one namespace and one empty directory.
- `console` holds commands, lines that begin with `$ `, each followed by what it prints. A command
  is given to bash in that same directory and must succeed; what is shown below it must be what it
  printed, where `...` stands for anything, on a line of its own for any number of lines. A command
  with nothing below it may print what it likes. `make` is not run: its targets must exist.
- `json` must parse.
- `text`, `toml` and `mermaid` are only for reading.

A block of any other kind, or of none, is an error.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))

# The programs of this venv first; no colours; lines of one width wherever it runs.
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "COLUMNS": "100",
}


class Block(NamedTuple):
    language: str
    line: int
    text: str


class Command(NamedTuple):
    text: str
    expected: str


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown text, with the line on which each one's content begins."""
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        if not (opening := re.match(r"\s*(`{3,}|~{3,})\s*(\S*)", line)):
            continue
        indent, fence = len(line) - len(line.lstrip()), opening[1]
        content = []
        for _, inner in lines:
            if inner.strip().startswith(fence) and not inner.strip().strip(fence[0]):
                break
            content.append(inner[indent:] if inner[:indent].isspace() else inner)
        else:
            raise AssertionError(f"line {number}: the block that begins here never ends")
        yield Block(opening[2], number + 1, "".join(f"{c}\n" for c in content))


def commands(text: str) -> Iterator[Command]:
    """The commands of a console block, each with what is shown below it."""
    before, *rest = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not before.strip(), f"a console block begins with a command, not with {before.splitlines()[0]!r}"
    for part in rest:
        command, _, expected = part.partition("\n")
        yield Command(command, expected)


def matches(expected: str, printed: str) -> bool:
    """Whether the output is the expected one, `...` standing for anything."""
    pattern = ""
    for line in expected.rstrip().splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(map(re.escape, line.rstrip().split("..."))) + "\n"
    tidy = "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines())
    return re.fullmatch(pattern, tidy) is not None


def run_command(command: Command, directory: Path) -> None:
    if command.text.split()[0] == "make":
        words = [word for word in command.text.split()[1:] if "=" not in word]
        assert set(words) <= TARGETS, f"the Makefile does not have all of {words}"
        return
    done = subprocess.run(
        ["bash", "-c", command.text],
        cwd=directory,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"$ {command.text}\nended with {done.returncode}:\n{done.stdout}"
    if command.expected.strip():
        shown = f"$ {command.text}\nprinted\n{done.stdout}\nand not\n{command.expected}"
        assert matches(command.expected, done.stdout), shown


def run_block(block: Block, name: str, namespace: dict[str, Any], directory: Path) -> None:
    match block.language:
        case "python":
            # Blank lines in front, so that a traceback names the line of the file.
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, name, "exec", dont_inherit=True), namespace)
        case "console":
            for command in commands(block.text):
                run_command(command, directory)
        case "json":
            json.loads(block.text)
        case "text" | "toml" | "mermaid":
            pass
        case other:
            raise AssertionError(f"{name}:{block.line}: nothing is known of blocks of the kind {other!r}")


def run_text(text: str, name: str, directory: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__docs__"}
    for block in blocks(text):
        run_block(block, name, namespace, directory)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documentation_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_text(path.read_text(), path.relative_to(ROOT).as_posix(), tmp_path)


LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    assert [link for link in LINK.findall(path.read_text()) if not (path.parent / link).exists()] == []


# --- the runner itself


GOOD = """
```python
from pathlib import Path
greeting = "hello"
```
Then, in a list:

- a note

  ~~~python
  Path("note").write_text(greeting + " world\\n")
  ~~~

```console
$ cat note
hello ...
$ printf 'a\\nb\\nc\\n'
a
...
$ ls
$ make demo SEEDS=1:2
whatever it draws
```
```json
{"a": [1, 2]}
```
````text
```
````
"""


def test_a_good_text_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_text(GOOD, "good.md", tmp_path)
    assert (tmp_path / "note").read_text() == "hello world\n"


@pytest.mark.parametrize(
    ("language", "content", "complaint"),
    [
        ("python", "assert 1 == 2, 'not at all'", "not at all"),
        ("console", "$ echo a\nb", "printed"),
        ("console", "$ printf 'a\\nb\\n'\na", "printed"),
        ("console", "$ exit 3", "ended with 3"),
        ("console", "echo a", "begins with a command"),
        ("console", "$ make nothing-known", "Makefile does not have"),
        ("ruby", "puts 1", "kind 'ruby'"),
        ("", "who knows", "kind ''"),
    ],
)
def test_a_bad_block_is_caught(language: str, content: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=re.escape(complaint)):
        run_text(f"```{language}\n{content}\n```\n", "bad.md", tmp_path)


def test_broken_json_is_caught(tmp_path: Path) -> None:
    with pytest.raises(json.JSONDecodeError):
        run_text("```json\n{'a'}\n```\n", "bad.md", tmp_path)


def test_an_open_block_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="line 2: the block that begins here never ends"):
        run_text("\n```python\n1\n", "bad.md", tmp_path)


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\nb", "a\nb\n", True),
        ("a", "a\nb\n", False),
        ("a\n...\nd", "a\nb\nc\nd\n", True),
        ("a\n...\nd", "a\nd\n", True),
        ("a\n...\nd", "a\nb\n", False),
        ("took ... s", "took 1.5 s\n", True),
        ("took ... s", "took 1.5\nlong s\n", False),
        ("1+1", "11\n", False),
        ("a  ", "a\n\n", True),
    ],
)
def test_dots_stand_for_anything(expected: str, printed: str, same: bool) -> None:
    assert matches(expected, printed) is same
