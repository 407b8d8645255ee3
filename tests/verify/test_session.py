"""Spark on this machine: whichever Java there is, it starts, and nothing of it listens where others could reach it."""

import subprocess
import sys
from pathlib import Path

import pytest

from covey.kernel.errors import WorldError
from covey.verify import java

OPEN = """
import os
from covey.verify.session import open_session
session = open_session()
assert session.range(5).count() == 5
inodes = set()
for process in filter(str.isdecimal, os.listdir("/proc")):
    try:
        of_us = os.getpgid(int(process)) == os.getpgid(0)
        fds = os.listdir(f"/proc/{process}/fd") if of_us else []
        inodes |= {os.readlink(f"/proc/{process}/fd/{fd}") for fd in fds}
    except OSError:
        pass  # it has ended meanwhile
for file in ("tcp", "tcp6"):
    for line in open(f"/proc/net/{file}").readlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            print(fields[1].partition(":")[0])
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


def fake_java(folder: Path, version: str) -> Path:
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    script.chmod(0o755)
    return script


@pytest.mark.timeout(120)
def test_all_that_spark_opens_is_on_the_loopback_interface() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPEN], capture_output=True, text=True, check=True, start_new_session=True
    )
    assert done.stderr == ""
    assert done.stdout.split()
    assert {*done.stdout.split()} <= LOOPBACK


def test_a_java_of_the_system_is_used_if_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'path', '21.0.1').parent}:/bin:/usr/bin")
    assert java.java_home(tmp_path) is None
    fake_java(tmp_path / "home", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.java_home(tmp_path) == str(tmp_path / "home")


def test_otherwise_the_one_that_a_python_package_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "old", "1.8.0").parent))
    home = java.java_home(tmp_path)
    assert home == str(tmp_path / "java")
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    command = [f"{home}/bin/java", java.NOT_THERE, "-version"]
    assert b"openjdk version" in subprocess.run(command, capture_output=True, check=True).stderr


def test_where_there_is_none_one_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(WorldError, match="Spark needs Java 17 or later, and there is none here"):
        java.java_home(tmp_path)
