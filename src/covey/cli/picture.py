"""Draw a run: time runs down, a column for each member, a glyph for each event, a line for each instant.

        time  a     b     c
       0.000  ▲     ▲     ▲     a b c start
       0.254  ◆0    ◇0    ◇0    view 0: a b c
              │     │     │
       3.000  │     ✗     │     b crashes

Between its glyphs a member has a *lane*: the line says whether it is up and in a view, its colour in which
(none in plain text). Empty lines stand for seconds, three at most.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.text import Text

from covey.cli.network import Pair, draw_one_way, draw_sides, is_one_way, is_wall
from covey.cli.rows import NETWORK, Row, rows
from covey.cli.watch import Event

SPACERS_MAX = 3
TIME_WIDTH = 11
CAPTION_MIN = 24
"""Columns are made narrower to leave so much for what is said beside them."""


class Mark(NamedTuple):
    """How a kind of event is drawn, and what the legend says of it."""

    glyph: str
    meaning: str
    style: str = ""


MARKS = {
    "start": Mark("▲", "starts; ▲2: its second life", "bold"),
    "lead": Mark("◆", "is the first to install view 3: it leads"),
    "view": Mark("◇", "installs view 3"),
    "propose": Mark("?", "proposes view 3"),
    "accept": Mark("+", "saves the proposed view 3"),
    "fail": Mark("✗", "crashes", "bold red"),
    "rob": Mark("⊗", "loses its disk", "bold red"),
    "halt": Mark("†", "ends: the others went on without it", "bold red"),
    "stop": Mark("▽", "leaves", "bold"),
    "pause": Mark("‖", "is paused", "bold"),
    "resume": Mark("▸", "goes on", "bold"),
    "clock": Mark("◷", "its clock is off"),
    "send": Mark("↑", "its application sends"),
    "deliver": Mark("•", "its application is given messages"),
    "cut": Mark("●──●", "reach each other, and ╎ not", "red"),
    "mend": Mark("●──●", "reach each other again", "green"),
    "one way": Mark("●╌╌○", "nothing from ● reaches ○", "red"),
}
NUMBERED = ("lead", "view", "propose", "accept")
PHRASES = {
    "start": ("starts", "start"),
    "fail": ("crashes", "crash"),
    "rob": ("loses its disk", "lose their disks"),
    "stop": ("leaves", "leave"),
    "pause": ("is paused", "are paused"),
    "resume": ("goes on", "go on"),
    "halt": ("halts: {text}", "halt: {text}"),
    "send": ("sends {number}", "send {number} each"),
}
"""What is said of one, and of several that do the same."""

IN_VIEW, IN_NONE, PAUSED, DOWN, WALL = "│", "┊", "‖", " ", "╎"
COLOURS = ("cyan", "yellow", "magenta", "green", "blue")
"""Of views, by their numbers."""

Styled = tuple[str, str]
"""Text and its style."""


class Line(NamedTuple):
    """A line of the picture, and when it would appear."""

    at: float
    text: Text


class Lane:
    """What is known of a member between its events."""

    def __init__(self) -> None:
        self.look = DOWN
        self.before_pause = DOWN
        self.view: int | None = None

    def take(self, event: Event) -> None:
        match event.kind:
            case "start":
                self.look, self.view = IN_NONE, None
            case "view" | "lead":
                self.look, self.view = IN_VIEW, event.number
            case "fail" | "rob" | "halt" | "stop":
                self.look = DOWN
            case "pause":
                self.look, self.before_pause = PAUSED, self.look
            case "resume":
                self.look = self.before_pause

    @property
    def style(self) -> str:
        return "dim" if self.view is None else colour(self.view)


def colour(view: int | None) -> str:
    return "" if view is None else COLOURS[view % len(COLOURS)]


class Picture:
    """Draws the events of one run, from the first to the last."""

    def __init__(self, members: Sequence[str], width: int = 100) -> None:
        self.members = tuple(members)
        self.used: set[str] = set()
        """The kinds that were drawn: what the legend explains."""
        wanted = max(6, max(map(len, members)) + 2)
        self._width = max(4, min(wanted, (width - TIME_WIDTH - CAPTION_MIN) // len(self.members)))
        self._room = max(CAPTION_MIN, width - TIME_WIDTH - self._width * len(self.members))
        self._lanes = {name: Lane() for name in self.members}
        self._cuts: frozenset[Pair] = frozenset()
        self._now = 0.0
        self._led: set[int | None] = set()
        self._said: set[tuple[int | None, tuple[str, ...]]] = set()

    def names(self) -> Text:
        """The line above the columns."""
        room = self._width - 1
        cells = (name if len(name) <= room else name[: room - 1] + "…" for name in self.members)
        return Text("time  ".rjust(TIME_WIDTH) + "".join(cell.ljust(self._width) for cell in cells).rstrip(), "bold")

    def lines(self, events: Iterable[Event]) -> Iterator[Line]:
        """Draw them all; those of a run that goes on may come piece by piece."""
        for row in rows(events, self._led):
            yield from self._pass_time(row.at)
            if row.others and row.others[0].kind in NETWORK:
                drawn, said = self._network(row.others[0])
            else:
                drawn, said = [self._cells(row)], [*self._notes(row), *self._phrases(row)]
            yield from self._captioned(row.at, drawn, said)

    def legend(self) -> Iterator[Text]:
        """What the marks mean that were drawn."""
        for kind, mark in MARKS.items():
            if kind in self.used:
                glyph = mark.glyph + ("3" if kind in NUMBERED else "")
                yield Text.assemble((glyph.ljust(6), mark.style), mark.meaning)
        yield Text(f"{IN_VIEW}     is in a view;  {IN_NONE}  is up, and in none")

    def _pass_time(self, now: float) -> Iterator[Line]:
        """Empty lines for the time until now."""
        last, self._now = self._now, now
        count = min(SPACERS_MAX, int(now - last))
        for number in range(1, count + 1):
            line = Text(" " * TIME_WIDTH).append_text(self._lanes_with({}))
            line.rstrip()
            yield Line(last + (now - last) * number / (count + 1), line)

    # ---- members ----

    def _cells(self, row: Row) -> Text:
        for name, event in row.cells.items():
            self._lanes[name].take(event)
            self.used.add(event.kind)
        return self._lanes_with({name: _glyph(event) for name, event in row.cells.items()})

    def _lanes_with(self, cells: dict[str, Styled]) -> Text:
        """The lanes, with glyphs in place of some."""
        line = Text()
        for place, name in enumerate(self.members):
            lane = self._lanes[name]
            text, style = cells.get(name, (lane.look, lane.style))
            line.append(text, style)
            line.append(*self._gap(place, len(text)))
        return line

    def _gap(self, place: int, used: int) -> Styled:
        """What is between a column and the next: a wall where the network is cut there."""
        middle = self._width // 2 - used
        if middle >= 0 and is_wall(self.members, place, self._cuts):
            return " " * middle + WALL + " " * (self._width - used - middle - 1), "red"
        return " " * (self._width - used), ""

    # ---- the network ----

    def _network(self, event: Event) -> tuple[list[Text], list[Styled]]:
        new, self._cuts = event.cuts - self._cuts, event.cuts
        lanes = self._lanes_with({}).plain
        kind = "one way" if is_one_way(new) else event.kind
        if kind == "one way":
            drawn = [draw_one_way(self.members, new, lanes, self._width)]
        else:
            drawn = draw_sides(self.members, event.cuts, lanes, self._width)
        self.used.add(kind)
        text, style = (
            event.text or ("mended in part" if event.cuts else "mended: all reach each other"),
            MARKS[kind].style,
        )
        return [Text(line, style) for line in drawn], [(text, style)]

    # ---- words ----

    def _notes(self, row: Row) -> Iterator[Styled]:
        styles = {"broken": "bold red", "rest": "green"}
        events = [*row.others, *(event for event in row.cells.values() if event.kind == "clock")]
        yield from ((event.text, styles.get(event.kind, "")) for event in events)

    def _phrases(self, row: Row) -> Iterator[Styled]:
        """What the glyphs of a row show, in words."""
        whos: dict[tuple[str, str], list[str]] = {}
        for event in (row.cells[name] for name in self.members if name in row.cells):
            if event.kind in ("view", "lead"):
                yield from self._view(event)
            elif event.kind == "propose":
                yield f"{event.who} proposes view {event.number}", colour(event.number)
            elif event.kind in PHRASES:
                one, several = (phrase.format(text=event.text, number=event.number) for phrase in PHRASES[event.kind])
                whos.setdefault((one, several), []).append(event.who)
        for (one, several), who in whos.items():
            yield f"{' '.join(who)} {one if len(who) == 1 else several}", ""

    def _view(self, event: Event) -> Iterator[Styled]:
        """Who is in a view, the first time that it is seen."""
        view = (event.number, event.members)
        if view not in self._said:
            self._said.add(view)
            yield f"view {event.number}: {' '.join(event.members)}", colour(event.number)

    def _captioned(self, at: float, drawn: Sequence[Text], said: Sequence[Styled]) -> Iterator[Line]:
        """The lines, the first with its time, and words beside them, which may take more lines."""
        captions = list(_filled(said, self._room))
        for number in range(max(len(drawn), len(captions))):
            line = Text().append(f"{at:9.3f}  " if number == 0 else " " * TIME_WIDTH, "dim")
            line.append_text(drawn[number] if number < len(drawn) else self._lanes_with({}))
            if number < len(captions):
                line.append_text(captions[number])
            line.rstrip()
            yield Line(at, line)


def _glyph(event: Event) -> Styled:
    mark = MARKS[event.kind]
    if event.kind in NUMBERED:
        return f"{mark.glyph}{event.number}", colour(event.number)
    return mark.glyph + (str(event.number) if event.kind == "start" and event.number != 1 else ""), mark.style


def _filled(said: Sequence[Styled], width: int) -> Iterator[Text]:
    """Phrases, word by word, in lines that are not too long."""
    line = Text()
    for place, (phrase, style) in enumerate(said, 1):
        for word in (phrase + ("; " if place < len(said) else "")).split():
            if line and len(line) + len(word) > width:
                yield line
                line = Text()
            line.append(word + " ", style)
    yield line
