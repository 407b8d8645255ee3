"""Any bytes for every decoder, chosen by a coverage-guided fuzzer: `make fuzz SECONDS=120`.

A target is a module with `seeds()`, inputs that mean something, and `one_input(data)`, which raises when
anything else happens than was promised. tests/test_fuzz.py gives the same targets a few hundred inputs without
a fuzzer. What a run has found out stays in `.fuzz/`, and the next one goes on from there; an input that
failed is kept there, too, and is to become a test of its own.
"""

import gc
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType

FOUND = Path(".fuzz")


def fuzz(seeds: Callable[[], Sequence[bytes]], one_input: Callable[[bytes], None]) -> None:
    """Fuzz one target with the options of libFuzzer in `sys.argv`; does not return."""
    import atheris

    for function in [found for found in gc.get_objects() if isinstance(found, FunctionType)]:
        if str(function.__module__).startswith(("covey.", "__main__")):
            atheris.instrument_func(function)
    corpus = FOUND / Path(sys.argv[0]).stem
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    atheris.Setup([*sys.argv, f"-artifact_prefix={corpus}-", str(corpus)], one_input)
    atheris.Fuzz()
