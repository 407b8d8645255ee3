"""A Python without pyarrow."""

import sys

import pytest


@pytest.fixture
def without_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """To import pyarrow fails, as it does where it is not installed."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
