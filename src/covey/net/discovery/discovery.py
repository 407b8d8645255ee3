"""Several sources, joined into one set of addresses that is kept up to date."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable

from covey.kernel.ids import check_name
from covey.net.discovery.directory import DirectorySource
from covey.net.discovery.multicast import MulticastSource
from covey.net.discovery.source import DEFAULTS, Around, DiscoveryOptions, NameSource, Source, StaticSource
from covey.net.discovery.where import Directory, Multicast, Name, Static, Where, parse, read_address

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())  # quiet, unless the application asks

Found = Callable[[frozenset[str]], None]


class Discovery:
    """Keeps looking for the addresses of others in every place that it was given.

    `name` and `address` are this process's own: where members announce themselves, so does this one.
    """

    def __init__(self, wheres: Iterable[str], name: str, address: str, options: DiscoveryOptions = DEFAULTS) -> None:
        check_name(name)
        self.drops: Counter[str] = Counter()
        """What was discarded, by reason."""
        self.failures: Counter[str] = Counter()
        """How many looks failed, by where that was."""
        self._options = options
        self._me = read_address(address)
        around = Around(name, self._me, options, self.drops)
        self._sources = {str(where): _source(where, around) for where in map(parse, wheres)}
        self._known: dict[str, frozenset[str]] = {}
        self._failing: set[str] = set()
        self.found: frozenset[str] = frozenset()
        """All addresses known now, but for this process's own."""

    async def run(self, found: Found) -> None:
        """Look until cancelled, and call `found` with the whole set whenever it is another one; once per Discovery."""
        try:
            async with asyncio.TaskGroup() as group:
                for where in self._sources:
                    group.create_task(self._follow(where, found))
        finally:
            await asyncio.gather(*(self._leave(where, source) for where, source in self._sources.items()))

    async def _follow(self, where: str, found: Found) -> None:
        source = self._sources[where]
        retry_s = self._options.retry_first_s
        while True:
            try:
                known = await self._look(where, source)
            except OSError as error:
                self._fails(where, str(error))
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, self._options.retry_max_s)
            else:
                self._works(where)
                self._learn(where, known, found)
                await asyncio.sleep(source.every_s)
                retry_s = self._options.retry_first_s

    async def _look(self, where: str, source: Source) -> frozenset[str]:
        # Not a timeout: a thread cannot be cancelled, and a second look would only take another one.
        patience_s = self._options.patience_s
        late = asyncio.get_running_loop().call_later(patience_s, self._fails, where, f"no answer for {patience_s:g} s")
        try:
            return await source.look()
        finally:
            late.cancel()

    def _learn(self, where: str, known: frozenset[str], found: Found) -> None:
        self._known[where] = known
        everything = frozenset[str]().union(*self._known.values()) - {self._me}
        if everything != self.found:
            self.found = everything
            found(everything)

    def _fails(self, where: str, error: str) -> None:
        self.failures[where] += 1
        if where not in self._failing:
            self._failing.add(where)
            kept = sorted(self._known.get(where, ()))
            extra = {"where": where, "error": error, "kept": kept}
            logger.warning("discovery: %s: %s; %d addresses are kept", where, error, len(kept), extra=extra)

    def _works(self, where: str) -> None:
        if where in self._failing:
            self._failing.remove(where)
            logger.info("discovery: %s: works again", where, extra={"where": where})

    async def _leave(self, where: str, source: Source) -> None:
        try:
            async with asyncio.timeout(self._options.patience_s):
                await source.leave()
        except OSError as error:  # TimeoutError is one
            self._fails(where, f"cannot leave: {str(error) or 'no answer'}")


def _source(where: Where, around: Around) -> Source:
    match where:
        case Static():
            return StaticSource(where, around)
        case Name():
            return NameSource(where, around)
        case Directory():
            return DirectorySource(where, around)
        case Multicast():
            return MulticastSource(where, around)
