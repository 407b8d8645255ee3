"""Draw who can reach whom: lines of a picture, as text over the columns of the members."""

from collections.abc import Collection, Iterable, Sequence

Pair = tuple[str, str]
Cuts = Collection[Pair]
"""Whose packets do not reach whom."""


def are_apart(one: str, other: str, cuts: Cuts) -> bool:
    """Whether packets get lost between the two in either direction."""
    return (one, other) in cuts or (other, one) in cuts


def is_one_way(cuts: Cuts) -> bool:
    """Whether nothing is cut in both directions."""
    return bool(cuts) and all((other, one) not in cuts for one, other in cuts)


def is_wall(members: Sequence[str], place: int, cuts: Cuts) -> bool:
    """Whether all members up to this place are apart from all after it."""
    before, after = members[: place + 1], members[place + 1 :]
    return bool(after) and all(are_apart(one, other, cuts) for one in before for other in after)


def sides(members: Sequence[str], cuts: Cuts) -> list[list[int]]:
    """The places of the members, grouped by who can reach whom in both directions."""
    groups: list[list[int]] = []
    for place, name in enumerate(members):
        for group in groups:
            if not any(are_apart(name, members[other], cuts) for other in group):
                group.append(place)
                break
        else:
            groups.append([place])
    return groups


def draw_sides(members: Sequence[str], cuts: Cuts, row: str, width: int) -> list[str]:
    """Join the members of each side over the lanes; sides that cross are in different rows."""
    drawn: list[tuple[int, str]] = []
    for group in sides(members, cuts):
        columns = [place * width for place in group]
        for number, (end, text) in enumerate(drawn):
            if end < columns[0]:
                drawn[number] = columns[-1], _join(text, columns, "●", "─")
                break
        else:
            drawn.append((columns[-1], _join(row, columns, "●", "─")))
    return [text for _, text in drawn]


def draw_one_way(members: Sequence[str], new: Iterable[Pair], row: str, width: int) -> str:
    """Mark those who are not heard any more, and those who do not hear them."""
    pairs = sorted(new)
    sources = [members.index(one) * width for one, _ in pairs]
    sinks = [members.index(other) * width for _, other in pairs]
    joined = _join(row, [*sources, *sinks], "○", "╌")
    return _join(joined, sources, "●", "")


def _join(row: str, places: Sequence[int], mark: str, line: str) -> str:
    """Put a mark on these places, and a line where nothing stands between them."""
    cells = list(row.ljust(max(places) + 1))
    for place in range(min(places), max(places) + 1):
        if place in places:
            cells[place] = mark
        elif line and cells[place] == " ":
            cells[place] = line
    return "".join(cells)
