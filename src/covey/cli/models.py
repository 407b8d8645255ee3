"""The protocols that can be simulated, under the names that their traces carry."""

from covey.isis.scenarios import at_rest, build, messages
from covey.sim.model import Model

MODELS = {"isis85": Model("isis85", build, at_rest, messages)}
