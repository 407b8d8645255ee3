"""The protocols that can be simulated, under the names that one calls them by."""

from covey.evs import scenarios as evs
from covey.evs.cases import cases
from covey.evs.filter import Filter
from covey.isis import scenarios as isis
from covey.sim.generate_ring import generate_ring
from covey.sim.model import Model

EVS = Model(
    "evs",
    evs.build,
    evs.at_rest,
    evs.messages,
    services=evs.SERVICES,
    options=evs.OPTIONS,
    ask=evs.ask,
    generate=generate_ring,
    cases=cases,
)

MODELS = {
    "isis85": Model("isis85", isis.build, isis.at_rest, isis.messages),
    "evs": EVS,
    "vs": EVS._replace(build=evs.build_virtually_synchronous, layer=("vs", Filter)),
}
