"""What the simulator needs to know of the site layer."""

from collections.abc import Sequence

from covey.isis.sequence import Quorum
from covey.isis.sites import Outgoing, Sites
from covey.kernel.engine import Engine, Surroundings
from covey.kernel.ids import ProcessId


def build(around: Surroundings, addresses: Sequence[str], options: Sequence[str] = ()) -> Sites:
    """Make a site of those that start at these addresses, each under its address as its name."""
    return Sites(around, addresses, configured=addresses)


def messages(engine: Engine, bodies: Sequence[bytes]) -> Sequence[Outgoing]:
    """Address messages to the other sites of the view, in turn."""
    assert isinstance(engine, Sites)
    view = engine.memory.view
    others = [] if view is None else [pid for pid in view.members if pid != engine.me]
    return [Outgoing(others[place % len(others)], body) for place, body in enumerate(bodies)] if others else []


def at_rest(engines: Sequence[Engine], configured: Sequence[str]) -> bool:
    """Whether sites that all reach one another are quiet in one view of just them, or are too few for any."""
    sites = [engine for engine in engines if isinstance(engine, Sites)]
    everybody = {site.me for site in sites}
    return not Quorum(configured).holds(everybody) or all(_rests(site, sites[0], everybody) for site in sites)


def _rests(site: Sites, other: Sites, everybody: set[ProcessId]) -> bool:
    view = site.memory.view
    in_one_view = view is not None and view == other.memory.view and set(view.members) == everybody
    return in_one_view and all(site.links.is_quiet(pid) for pid in everybody)
