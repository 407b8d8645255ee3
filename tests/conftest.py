"""What every test shares: how hard Hypothesis looks, and whether expectations are written anew.

`HYPOTHESIS_PROFILE=dev make test` draws new examples at every run and remembers those that
failed; the default, ci, draws the same ones each time, so that a red run is red for everyone.
"""

import os

import pytest
from hypothesis import settings

# No deadline: on a busy machine it fails examples that are right.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("dev", deadline=None, print_blob=True)
settings.register_profile("campaign", max_examples=10_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write the transcripts of tests/scenarios instead of comparing them"
    )
