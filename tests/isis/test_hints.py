"""A refused packet is a hint that a site is dead (section 4.1): a second look at it, and no storm of them."""

from covey.cli.models import MODELS
from covey.kernel.effects import Install
from covey.sim.run import run
from covey.sim.scenario import parse
from covey.sim.world import World

CRASH = """
members a b c
weather lan refuse {share}
0   start
3   crash c
3   settle 20
"""


class Seen:
    """When the last view was installed, and how many packets went to the dead."""

    def __init__(self, share: str) -> None:
        self.at = 0.0
        assert not run(parse(CRASH.format(share=share)), MODELS["isis85"], watch=self._watch).failed
        self.in_vain = self.world.network.lost["process down"]

    def _watch(self, world: World) -> None:
        self.world = world
        world.watchers.append(lambda machine, what: self._saw(what))

    def _saw(self, what: object) -> None:
        if isinstance(what, Install):
            self.at = self.world.now


def test_a_site_whose_port_refuses_is_asked_once_more_and_left_out_sooner() -> None:
    quiet, refusing = Seen("0"), Seen("1")
    assert refusing.at < quiet.at - 0.2
    assert refusing.in_vain <= quiet.in_vain + 4
