"""A fresh laboratory for each test that asks for one."""

from collections.abc import Iterator

import pytest

from tests.net.lab import Lab


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(["a", "b", "c"]) as lab:
        yield lab
