"""What random traces draw from a seed, with random() alone: the same on any version of Python."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

NAMES = ("p", "q 2", "r/1/2", 's"é☃', "t\\u", "p/1", "'", "ñ,;")
GROUPS = ("g", "left/right", "grüße 1", '"')


class Draw:
    """Chances and choices."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def is_so(self, chance: float) -> bool:
        return self._random.random() < chance

    def below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        rest = list(choices)
        return [rest.pop(self.below(len(rest))) for _ in choices]

    def some_of(self, choices: Sequence[T], count: int) -> list[T]:
        """That many, in the order they stand in."""
        chosen = self.shuffled(range(len(choices)))[:count]
        return [choices[place] for place in sorted(chosen)]
