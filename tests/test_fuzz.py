"""The targets of the fuzzer, with a few hundred inputs and without it: `make fuzz` goes on where this stops."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bytes import damaged

TARGETS = sorted(file.stem for file in (Path(__file__).parent / "fuzz").glob("*.py") if file.stem != "__init__")


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> ModuleType:
    return import_module(f"tests.fuzz.{request.param}")


def test_every_seed_means_something(target: ModuleType) -> None:
    assert target.seeds()
    for seed in target.seeds():
        target.one_input(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_any_input_does_only_what_was_promised(name: str) -> None:
    target = import_module(f"tests.fuzz.{name}")

    @given(damaged(target.seeds()) | st.binary(max_size=300))
    @settings(max_examples=300)
    def check(data: bytes) -> None:
        target.one_input(data)

    check()
