"""A site of `covey demo` as a process of its own.

python -m covey.cli.site FOLDER NAME NAME=ADDRESS...

Storage and trace are in the folder, and the key. What it starts, installs, delivers and ends with is also printed,
as the rows of its trace. On standard input it is told `cut ADDRESS...` or `heal`; at the end of that it leaves.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from covey.isis.links import LinkOptions
from covey.isis.sites import Sites
from covey.kernel.engine import Surroundings
from covey.kernel.storage import NAME_KEY, provision
from covey.kernel.storage_sqlite import SqliteStorage
from covey.net.host import Host
from covey.net.keys import load_keys
from covey.trace import JsonLinesSink, Recorder

RUN = "demo"
KEY_FILE, TRACE_FOLDER = "group.key", "trace"
TOLD = {"start", "config", "deliver", "fail", "stop"}
OPTIONS = LinkOptions(hello_s=0.1)


class ToldSink(JsonLinesSink):
    """Also prints what others may want to know, once it is in the trace."""

    def flush(self) -> None:
        told = [row for row in self.pending if row.event in TOLD]
        super().flush()
        if told:
            os.write(sys.stdout.fileno(), msgspec.json.Encoder().encode_lines(told))


def main(folder: Path, name: str, addresses: Mapping[str, str]) -> None:
    """Be this site until it is told to leave, or nobody is there any more to tell it."""

    def build(around: Surroundings, ordered: Sequence[str]) -> Sites:
        return Sites(around, ordered, configured=sorted(addresses), options=OPTIONS)

    storage = SqliteStorage(folder / f"{name}.db")
    if storage.get(NAME_KEY) is None:
        provision(storage, name, f"the storage of {name}")
    keys = load_keys(folder / KEY_FILE)
    with Recorder(ToldSink(folder / TRACE_FOLDER / f"{name}-{os.getpid()}")) as recorder:
        asyncio.run(_live(Host(build, addresses[name], list(addresses.values()), storage, recorder, keys, run=RUN)))
    storage.close()


async def _live(host: Host) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, host.leave)
    loop.add_reader(sys.stdin.fileno(), partial(_obey, host, loop))
    await host.run()


def _obey(host: Host, loop: asyncio.AbstractEventLoop) -> None:
    """Do what was told; commands are short, and each is written at once."""
    told = os.read(sys.stdin.fileno(), 4096).decode()
    if not told:
        loop.remove_reader(sys.stdin.fileno())
        host.leave()
    for line in told.splitlines():
        command, *addresses = line.split()
        host.cut_off(addresses if command == "cut" else [])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], dict(word.split("=") for word in sys.argv[3:]))
