"""covey: processes that act as one."""

__version__ = "0.1.0"
