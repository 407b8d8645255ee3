"""A fresh laboratory for each test that asks for one; of three hosts, unless it is parametrised with their letters."""

from collections.abc import Iterator

import pytest

from tests.net.lab import Lab


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with Lab(list(getattr(request, "param", "abc"))) as lab:
        yield lab
