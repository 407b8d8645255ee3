"""Traces in a few characters: a line a process, a word an event.

    complete healed
    p: 4.p=pqr +1 p1 4.p>6.p=p 6.p=p
    q: 4.p=pqr p1 x ^ 8.q=q* +1s q'1

`4.p=pqr` installs the configuration 4.p, number 4, of p, q and r, and `4.p>6.p=p` the transitional one between 4.p and
6.p, number 5; `*` makes it primary. `+1` sends message 1, agreed, `+1s` safe, `+1c` causal; `p1` delivers message 1 of
p. Both happen in the configuration installed last, or in another one: `p1@4.p`. `x` fails, `.` stops, `^` starts, after
a failure as the next incarnation; `q'` is q in its second. The first line says what holds of the run: `vs` where it is
not `evs`, `complete`, `healed`.
"""

import re
from typing import Any

Row = dict[str, Any]

LIFE = {"x": "fail", ".": "stop", "^": "start"}
SERVICES = {"": "agreed", "s": "safe", "c": "causal"}
INSTALL = re.compile(r"(?P<config>[^=@]+)=(?P<members>[a-z']+)(?P<primary>\*?)")
MESSAGE = re.compile(r"(?P<send>\+?)(?P<origin>(?:[a-z]'*)?)(?P<number>\d+)(?P<service>[sc]?)")


def trace(text: str) -> list[Row]:
    """The rows of a trace that is written so."""
    flags: list[str] = []
    rows: list[Row] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        process, colon, words = line.partition(": ")
        if colon:
            rows += _rows(process, words.split(), "vs" in flags)
        else:
            flags = line.split()
    header = _row("", 1, 0, "run", model=["vs" if "vs" in flags else "evs"])
    return [{**header, "complete": "complete" in flags, "healed": "healed" in flags}, *rows]


def _rows(process: str, words: list[str], is_vs: bool) -> list[Row]:
    rows: list[Row] = []
    incarnation, config = 1, None
    for index, word in enumerate(words):
        what, _, elsewhere = word.partition("@")
        if what == "^":
            incarnation += bool(rows)
            columns: Row = {"event": "start"}
        elif what in LIFE:
            columns = {"event": LIFE[what]} | ({"config": elsewhere} if elsewhere else {})
        elif found := INSTALL.fullmatch(what):
            config = found["config"]
            columns = _installed(config, found["members"], is_vs) | ({"primary": True} if found["primary"] else {})
        else:
            found = MESSAGE.fullmatch(what)
            assert found, word
            sender = _identity(found["origin"]) if found["origin"] else f"{process}/{incarnation}"
            columns = {"event": "deliver", "message": f"{sender}/{found['number']}", "config": elsewhere or config}
            if found["send"]:
                columns |= {"event": "send", "service": SERVICES[found["service"]]}
        rows.append(_row(process, incarnation, index, **columns))
    return rows


def _installed(config: str, members: str, is_vs: bool) -> Row:
    previous, _, following = config.rpartition(">")
    seq = int(following.partition(".")[0])
    names = re.findall("[a-z]'*", members)
    columns = {"event": "config", "config": config, "members": [_identity(name) if is_vs else name for name in names]}
    if previous:
        return columns | {"kind": "transitional", "seq": seq - 1, "previous": previous}
    return columns | {"kind": "regular", "seq": seq}


def _identity(name: str) -> str:
    return f"{name[0]}/{len(name)}"


def _row(process: str, incarnation: int, index: int, event: str, **columns: Any) -> Row:
    common = {"run": "r", "process": process, "incarnation": incarnation, "index": index, "time_ns": 0, "group": ""}
    return {**common, "event": event, **columns}


def in_runs(rows: list[Row]) -> list[Row]:
    """The same trace, with one row for messages that one row can stand for."""
    found: list[Row] = []
    for row in rows:
        last: Row = found[-1] if found else {"event": ""}
        if row["event"] in ("send", "deliver") and _beginning(row, row["message"]) == _beginning(last, _after(last)):
            last["count"] = last.get("count", 1) + 1
        else:
            found.append(dict(row))
    return found


def _after(row: Row) -> str:
    """The message that would go on with this row."""
    sender, _, number = row.get("message", "").rpartition("/")
    return f"{sender}/{int(number or 0) + row.get('count', 1)}"


def _beginning(row: Row, message: str) -> Row:
    """The row as it would be, did it begin with that message."""
    return {**row, "message": message, "index": 0, "count": 1}


# ---- the other way round -----------------------------------------------------------------------


def told(rows: list[Row]) -> dict[str, str]:
    """The line of each process in a trace of model `evs`: what it went through, as it is written above.

    A name may have more than one character here, and what first starts does so without a word.
    """
    words: dict[str, list[str]] = {}
    for row in rows:
        if row["event"] != "run":
            words.setdefault(row["process"], []).extend(_words(row))
    return {process: " ".join(said) for process, said in words.items()}


def _words(row: Row) -> list[str]:
    match row["event"]:
        case "config":
            members = "".join(row["members"])
            return [f"{row['config']}={members}{'*' if row.get('primary') else ''}"]
        case "send" | "deliver" as event:
            identity, _, first = row["message"].rpartition("/")
            process, _, incarnation = identity.rpartition("/")
            numbers = range(int(first), int(first) + row.get("count", 1))
            if event == "deliver":
                return [f"{process}{(int(incarnation) - 1) * chr(39)}{number}" for number in numbers]
            service = {name: letter for letter, name in SERVICES.items()}[row["service"]]
            return [f"+{number}{service}" for number in numbers]
        case "start":
            return ["^"] if row["incarnation"] > 1 else []
        case "fail" | "stop" as event:
            return [{name: sign for sign, name in LIFE.items()}[event]]
    return []
