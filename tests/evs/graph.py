"""Graphs of what precedes what: whether there is a cycle, and from where there is a path."""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

Node = Hashable


class Graph:
    """A directed graph; while it has no cycle, what is asked of it takes time in proportion to its edges."""

    def __init__(self, nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> None:
        self.followers: dict[Node, list[Node]] = {node: [] for node in nodes}
        waits_for = dict.fromkeys(self.followers, 0)
        for one, other in edges:
            self.followers[one].append(other)
            waits_for[other] += 1
        self._order = [node for node, count in waits_for.items() if count == 0]
        for node in self._order:  # which grows meanwhile
            for follower in self.followers[node]:
                waits_for[follower] -= 1
                if waits_for[follower] == 0:
                    self._order.append(follower)
        ordered = set(self._order)
        self._knot = [node for node in self.followers if node not in ordered]
        """What is on a cycle or after one."""

    def cycle(self) -> list[Node]:
        """Some cycle, from a node to itself; empty if there is none."""
        if not self._knot:
            return []
        before = {follower: node for node in self._knot for follower in self.followers[node]}
        node, seen = self._knot[0], set()
        while node not in seen:
            seen.add(node)
            node = before[node]
        return self.path(node, node)

    def path(self, one: Node, other: Node) -> list[Node]:
        """A shortest path of at least one edge; empty if there is none."""
        came_from: dict[Node, Node] = {}
        queue = deque([one])
        while queue and other not in came_from:
            node = queue.popleft()
            for follower in self.followers[node]:
                if follower not in came_from:
                    came_from[follower] = node
                    queue.append(follower)
        if other not in came_from:
            return []
        path = [other, came_from[other]]
        while path[-1] != one:
            path.append(came_from[path[-1]])
        return path[::-1]

    def marks_before(self, marks: Mapping[Any, int]) -> dict[Node, int]:
        """For each node the marks (bits) of all nodes that have a path to it, and its own."""
        before = {node: marks.get(node, 0) for node in self.followers}
        self._pass_on(self._order, before)
        while self._pass_on(self._knot, before):
            pass
        return before

    def _pass_on(self, nodes: list[Node], before: dict[Node, int]) -> bool:
        """Give each node's marks to those that follow it; whether any got more."""
        is_more = False
        for node in nodes:
            bits = before[node]
            for follower in self.followers[node]:
                if bits & ~before[follower]:
                    before[follower] |= bits
                    is_more = True
        return is_more
