"""Random tiny traces of an idealised replicated data service (replicated-data-1998).

There is one history of updates; all members of a view install it at once, and all receive a message at once; servers
apply and answer when they like.
"""

from collections import defaultdict
from dataclasses import dataclass

from tests.verify.random_traces.draw import GROUPS, Draw
from tests.verify.random_traces.mutations import Mutation
from tests.verify.random_traces.tiny import Pen, Row, finished, odd_names, part_of, trace_of, turn_primary


@dataclass
class Request:
    id: str
    server: "Server"
    client: str
    op: str
    body: str
    witnessed: int
    """The position that its client had been told of."""
    sent_in: int = 0
    """The view; 0 before."""
    is_done: bool = False
    """Of an update: it is in the history."""


@dataclass
class Turn:
    """A query that waits for its answer."""

    request: Request
    server: "Server"
    view: int
    number: int


class Server:
    def __init__(self, name: str, group: str) -> None:
        self.name, self.pen = name, Pen(name, group)
        self.is_up = True
        self.view = 0
        self.applied = 0
        self.known = 0
        """How much of the history it knows to be safe."""
        self.last: dict[str, int] = {}
        """By client that waits for nothing: the position that it has witnessed."""
        self.numbers: dict[int, int] = defaultdict(int)


class Service:
    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        group = draw.one_of(["", *GROUPS])
        self.servers = [Server(name, group) for name in odd_names(draw, 2 + draw.below(3))]
        self.views: list[list[Server]] = [[]]
        self.history: list[Request] = []
        self.open: list[Request] = []
        self.turns: list[Turn] = []
        self.counters: dict[int, int] = defaultdict(int)
        self.tells_turns = draw.is_so(0.7)
        self.clients = self.requests = 0
        for server in self.servers:
            self.new_client(server)
            if draw.is_so(0.5):
                self.new_client(server)
        self.form(self.servers)

    # ---- views ----

    def config(self, view: int) -> str:
        return f"view/{view} of {self.views[view][0].name}"

    def is_primary(self, view: int) -> bool:
        return 2 * len(self.views[view]) > len(self.servers)

    def form(self, members: list[Server]) -> None:
        self.views.append(members)
        view = len(self.views) - 1
        known = len(self.history) if self.is_primary(view) else max(server.known for server in members)
        for server in members:
            server.view, names = view, [member.name for member in members]
            server.pen.write("config", config=self.config(view), members=names, seq=view, primary=self.is_primary(view))
            own = any(request.server is server for request in self.open if request.is_done)
            if known > server.applied + 1 and not own and self.draw.is_so(0.2):
                server.applied = known
                server.pen.write("state", position=known, digest=f"#{known}")
            server.known = known
        gone = {server.name for server in members}
        self.turns = [turn for turn in self.turns if turn.server.name not in gone]
        for request in self.open:
            if request.server in members and not request.is_done:
                request.sent_in = 0

    def part(self) -> None:
        """Any part of those that are up, and the rest, into views of their own."""
        up = [server for server in self.servers if server.is_up]
        some = part_of(self.draw, up, 0.7) if up else []
        for members in (some, [server for server in up if server not in some]):
            if members:
                self.form(members)

    def fail_or_start(self, server: Server) -> None:
        if server.is_up:
            server.is_up, server.view = False, 0
            server.pen.write(self.draw.one_of(["fail", "stop"]))
            self.open = [request for request in self.open if request.server is not server]
            self.turns = [turn for turn in self.turns if turn.server is not server]
            server.last.clear()
        else:
            self.start(server)

    def start(self, server: Server) -> None:
        server.is_up, server.pen.incarnation = True, server.pen.incarnation + 1
        is_recovered = self.draw.is_so(0.5)
        server.pen.write("start", recovered=is_recovered)
        if not is_recovered:
            server.applied = server.known = 0
        self.new_client(server)

    # ---- requests ----

    def new_client(self, server: Server) -> None:
        self.clients += 1
        server.last[f"client {self.clients}"] = 0

    def ask(self, server: Server) -> None:
        waiting = [request.client for request in self.open]
        free = [client for client in server.last if client not in waiting]
        if not (server.is_up and free):
            return
        self.requests += 1
        op = self.draw.one_of(["update", "query"])
        kind = self.draw.below(10)
        key = self.draw.one_of(["k", "l/1"])
        if op == "update":
            body = f"increment {key}" if kind == 0 else f"set {key} {self.draw.one_of(['1', '2', 'a b'])}"
        else:
            body = "all" if kind < 3 else f"get {key}"
        client = self.draw.one_of(free)
        request = Request(f"r{self.requests}", server, client, op, body, server.last[client])
        self.open.append(request)
        server.pen.write("request", request=request.id, client=request.client, op=op, body=body)

    def send(self, request: Request) -> None:
        """Ask the view: all its members receive an update, or a query, at once, and are told so."""
        server = request.server
        view = server.view
        if request.sent_in or not view or (request.op == "update" and not self.is_primary(view)):
            return
        request.sent_in = view
        server.numbers[server.pen.incarnation] += 1
        message = f"{server.pen.identity}/{server.numbers[server.pen.incarnation]}"
        config = self.config(view)
        server.pen.write("send", message=message, config=config, service="agreed", request=request.id)
        members = [member for member in self.views[view] if member.view == view]
        for event in ("deliver", "safe"):
            for member in members:
                member.pen.write(event, message=message, config=config)
        if request.op == "update":
            request.is_done = True
            self.history.append(request)
            for member in members:
                member.known = len(self.history)
        else:
            self.counters[view] += 1
            number = self.counters[view]
            due = self.views[view][number % len(self.views[view])]
            if due.view == view:
                self.turns.append(Turn(request, due, view, number))

    def apply(self, server: Server) -> None:
        if server.is_up and server.applied < server.known:
            request = self.history[server.applied]
            server.applied += 1
            server.pen.write("apply", request=request.id, client=request.client, position=server.applied)
            if request in self.open and request.server is server:
                self.reply(request, server.applied, "ok")

    def answer(self, turn: Turn) -> None:
        server, request = turn.server, turn.request
        while server.applied < min(request.witnessed, server.known):
            self.apply(server)
        if server.applied < request.witnessed:
            return
        self.turns.remove(turn)
        told = {"turn": turn.number} if self.tells_turns else {}
        result = self.evaluate(request.body, server.applied)
        columns = {"position": server.applied, "result": result}
        server.pen.write(
            "answer", request=request.id, client=request.client, **columns, config=self.config(turn.view), **told
        )
        if request in self.open and request.server.view == turn.view:
            self.reply(request, server.applied, result)

    def reply(self, request: Request, position: int, result: str) -> None:
        self.open.remove(request)
        request.server.last[request.client] = position
        request.server.pen.write("reply", request=request.id, client=request.client, position=position, result=result)

    def evaluate(self, body: str, position: int) -> str:
        state: dict[str, str] = {}
        for request in self.history[:position]:
            verb, _, rest = request.body.partition(" ")
            key, _, value = rest.partition(" ")
            state[key] = value if verb == "set" else state.get(key, "") + "+"
        verb, _, key = body.partition(" ")
        return state.get(key, "nil") if verb == "get" else f"{sorted(state.items())}"

    # ---- the whole ----

    def count(self, server: Server) -> None:
        if server.is_up:
            updates = server.known + self.draw.below(3)
            counters = {"last_update": server.applied, "safe_to_update": server.known, "updates": updates}
            server.pen.write("state", counters=counters)

    def step(self) -> None:
        server = self.draw.one_of(self.servers)
        what = self.draw.below(100)
        if what < 3:
            self.fail_or_start(server)
        elif what < 8:
            self.part()
        elif what < 13:
            self.count(server)
        elif what < 40:
            self.ask(server)
        elif what < 60:
            if self.open:
                self.send(self.draw.one_of(self.open))
        elif what < 80:
            self.apply(server)
        elif self.turns:
            self.answer(self.draw.one_of(self.turns))

    def settle(self, is_healed: bool) -> None:
        """Let everything be done that can be done."""
        for server in self.servers:
            if is_healed and not server.is_up:
                self.start(server)
        if is_healed:
            self.form(self.servers)
        elif self.draw.is_so(0.5):
            self.part()
        for request in list(self.open):
            self.send(request)
        for turn in list(self.turns):
            self.answer(turn)
        for server in self.servers:
            while server.is_up and server.applied < server.known:
                self.apply(server)


def trace(seed: int) -> list[Row]:
    """The rows of one run; two of three are mutated."""
    return _trace(seed, seed % 3 != 0)


def good(seed: int) -> list[Row]:
    """The rows of one run that nothing is wrong with."""
    return _trace(seed, is_mutated=False)


def _trace(seed: int, is_mutated: bool) -> list[Row]:
    draw = Draw(seed)
    service = Service(draw)
    for _ in range(10 + draw.below(60)):
        service.step()
    complete, healed = draw.is_so(0.6), draw.is_so(0.6)
    if complete:
        service.settle(healed)
    names = [server.name for server in service.servers]
    rows = trace_of("rds", [server.pen for server in service.servers], complete, healed, universe=names)
    return finished(draw, rows, f"rds {seed}", is_mutated, AIMED)


# ---- mutations ---------------------------------------------------------------------------------


def exchange_updates(draw: Draw, rows: list[Row]) -> None:
    """A server applies two updates the other way round."""
    applied = [row for row in rows if row["event"] == "apply"]
    if applied:
        one = draw.one_of(applied)
        other = draw.one_of([row for row in applied if row["process"] == one["process"]])
        for name in ("request", "client"):
            one[name], other[name] = other[name], one[name]


def lose_replies(draw: Draw, rows: list[Row]) -> None:
    """A client gets no replies any more."""
    if replies := [row for row in rows if row["event"] == "reply"]:
        client = draw.one_of(replies)["client"]
        rows[:] = [row for row in rows if row["event"] != "reply" or row["client"] != client]


def miscount(draw: Draw, rows: list[Row]) -> None:
    """A counter goes ahead, or stays behind."""
    if counted := [row for row in rows if "counters" in row]:
        row = draw.one_of(counted)
        name = draw.one_of(sorted(row["counters"]))
        row["counters"] = {**row["counters"], name: max(0, row["counters"][name] + draw.one_of([-1, 1, 2]))}


AIMED: list[Mutation] = [exchange_updates, lose_replies, miscount, turn_primary]
