"""The three kinds of failure that covey reports, each with its own base.

Whatever arrives from the network raises none of them: a bad packet is a named,
counted drop (`covey.kernel.wire`).
"""


class CoveyError(Exception):
    """Every error that covey raises on purpose."""


class MisuseError(CoveyError, ValueError):
    """The caller asked for something that cannot be; the message says what to do."""


class WorldError(CoveyError):
    """The world was not as needed: a disk, a peer, a file of another version."""


class BrokenInvariant(CoveyError):
    """A bug in covey: a protocol reached a state that its paper forbids."""
