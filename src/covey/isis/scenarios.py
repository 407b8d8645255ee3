"""What the simulator needs to know of the site layer, and a scenario to look at."""

from collections.abc import Sequence

from covey.isis.sequence import Quorum
from covey.isis.sites import Sites
from covey.kernel.engine import Engine, Surroundings

DEMO = """\
# Five sites: one crashes and comes back, the network is cut and merges, all fail and recover.
members a b c d e
seed 1985
0      start
3      crash b
6      start b
9      cut a b | c d e for 5
18     crash a
18     crash b
18     crash c
18     crash d
18     crash e
19     start
23     settle 20
"""


def build(around: Surroundings, addresses: Sequence[str]) -> Sites:
    """Make a site of those that start at these addresses, each under its address as its name."""
    return Sites(around, addresses, configured=addresses)


def at_rest(engines: Sequence[Engine], configured: Sequence[str]) -> bool:
    """Whether sites that all reach one another are in one view of just them, if they are a majority."""
    sites = [engine for engine in engines if isinstance(engine, Sites)]
    if not Quorum(configured).holds([site.me for site in sites]):
        return True
    view, everybody = sites[0].memory.view, {site.me for site in sites}
    return view is not None and set(view.members) == everybody and all(site.memory.view == view for site in sites)
