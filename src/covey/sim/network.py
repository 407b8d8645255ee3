"""The simulated network: what happens to a packet between two addresses.

Delays come from tables of 256 equally likely values, so that a draw is one look-up and no distribution
needs a mathematical library, whose last bit differs between machines. Packets overtake each other
wherever their delays differ; `reorder` holds some back on top of that.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random

from msgspec import Struct

from covey.kernel.errors import MisuseError

QUANTILES_MS = {
    "instant": (0.01, 0.01),
    "lan": (0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 0.8, 3.0),
    "wan": (20.0, 22.0, 24.0, 26.0, 30.0, 36.0, 50.0, 90.0),
    "rough": (0.2, 1.0, 2.0, 5.0, 10.0, 30.0, 80.0, 400.0),
}
"""Of the one-way delay: the least value, equally spaced quantiles, the greatest value."""

QUEUE_S = 0.5
"""A sender's queue holds what its bandwidth carries in that time; more is lost."""
HELD_BACK = 8.0
"""A packet that is held back takes so many times the delay that it drew."""


class NetworkOptions(Struct, frozen=True, omit_defaults=True):
    """The weather; each share is of all packets."""

    delay: str = "lan"
    """A name in `QUANTILES_MS`."""
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    refuse: float = 0.0
    """Of the packets to a process that is down: its port refuses them, and the sender hears of that."""
    bandwidth: float = 0.0
    """Bytes per second that a process can send; 0 for no limit."""


def delay_table(name: str) -> list[float]:
    """Return 256 equally likely delays in seconds, interpolated between the quantiles of that name."""
    if name not in QUANTILES_MS:
        raise MisuseError(f"no delays named {name!r}; there are {', '.join(QUANTILES_MS)}")
    quantiles = QUANTILES_MS[name]
    table = []
    for i in range(256):
        position = i * (len(quantiles) - 1) * (1 / 256)
        k = int(position)
        table.append((quantiles[k] + (quantiles[k + 1] - quantiles[k]) * (position - k)) * 0.001)
    return table


class Network:
    """Weather and cuts; `transit` draws a packet's fate."""

    def __init__(self, chance: Random) -> None:
        self._unit = chance.random
        self._bits = chance.getrandbits
        self.cuts: Counter[tuple[str, str]] = Counter()
        """How many cuts keep packets of the first address from the second."""
        self._pairs_of: dict[int, tuple[tuple[str, str], ...]] = {}
        self._cuts_made = 0
        self.lost: Counter[str] = Counter()
        """How many packets did not arrive, for each reason."""
        self._free_at: dict[str, float] = {}
        self.set_weather(NetworkOptions())

    def set_weather(self, weather: NetworkOptions) -> None:
        self.weather = weather
        self._table = delay_table(weather.delay)
        self._loss = weather.loss
        self._extras = bool(weather.duplicate or weather.reorder)

    def cut(self, pairs: Sequence[tuple[str, str]]) -> int:
        """Keep the packets of each first address from its second; return what `mend` takes."""
        self._cuts_made += 1
        self._pairs_of[self._cuts_made] = tuple(pairs)
        self.cuts.update(pairs)
        return self._cuts_made

    def mend(self, cut: int) -> None:
        """Take one cut back, unless that has been done."""
        self.cuts.subtract(self._pairs_of.pop(cut, ()))
        self.cuts = +self.cuts

    def mend_all(self) -> None:
        self._pairs_of.clear()
        self.cuts.clear()

    def leave(self, now: float, source: str, size: int) -> float | None:
        """Return when a packet has left its sender; None when there is no room in the queue."""
        if not self.weather.bandwidth:
            return now
        free = max(now, self._free_at.get(source, 0.0))
        if free - now > QUEUE_S:
            self.lost["queue"] += 1
            return None
        self._free_at[source] = free + size / self.weather.bandwidth
        return self._free_at[source]

    def transit(self, leaves: float, source: str, to: str) -> tuple[float, ...]:
        """Return when the copies of a packet arrive that leaves its sender then."""
        if self.cuts and (source, to) in self.cuts:
            self.lost["cut"] += 1
            return ()
        if self._loss and self._unit() < self._loss:
            self.lost["loss"] += 1
            return ()
        delay = self._table[self._bits(8)]
        if not self._extras:
            return (leaves + delay,)
        if self._unit() < self.weather.reorder:
            delay *= HELD_BACK
        if self._unit() < self.weather.duplicate:
            return leaves + delay, leaves + self._table[self._bits(8)]
        return (leaves + delay,)

    def refusal(self, now: float, source: str, to: str) -> float | None:
        """Return when the sender of a packet to a process that is down hears of it; None for never."""
        if not self.weather.refuse or self._unit() >= self.weather.refuse or (to, source) in self.cuts:
            return None
        return now + self._table[self._bits(8)]
