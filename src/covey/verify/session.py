"""A Spark session on this machine.

A small trace is judged mostly by starting: so the session does without what pays for many rows only (adaptive plans,
generated code). It listens on 127.0.0.1 alone.
"""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from covey.kernel.errors import WorldError
from covey.verify.java import java_home

LOOPBACK = "127.0.0.1"
QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %m%n
"""
"""The log of the JVM: errors only."""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.sql.shuffle.partitions": str(os.cpu_count()),
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Otherwise the optimizer computes a small trace by itself, more than once.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
}


def open_session() -> SparkSession:
    """Return a session on this machine; `WorldError` where there is no Java for it, or it does not start."""
    scratch = Path(tempfile.mkdtemp(prefix="covey-spark-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    _prepare_environment(scratch)
    builder: Any = SparkSession.builder.appName("covey verify").master("local[*]")
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(scratch / "warehouse")}.items():
        builder = builder.config(name, value)
    with _stderr_into(scratch / "spark.log"):
        session: SparkSession = builder.getOrCreate()
    return session


@contextmanager
def _stderr_into(file: Path) -> Iterator[None]:
    """Let a process that is started meanwhile write its remarks into a file: they are no news to people."""
    kept = os.dup(2)
    try:
        with file.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    except Exception as error:
        raise WorldError(f"Spark does not start: {error}\n{file.read_text(errors='replace')}") from error
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _prepare_environment(scratch: Path) -> None:
    """Set what the launcher of the JVM reads, before it starts."""
    if home := java_home(scratch):
        os.environ["JAVA_HOME"] = home
    if "SPARK_CONF_DIR" not in os.environ:
        (scratch / "conf").mkdir()
        (scratch / "conf" / "log4j2.properties").write_text(QUIET)
        os.environ["SPARK_CONF_DIR"] = str(scratch / "conf")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
