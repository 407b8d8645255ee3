"""An ISIS site as a process of its own, for tests: it prints a line for each view that it installs.

python -m tests.host.site FOLDER ADDRESS EVERY_ADDRESS...

Storage and trace are in the folder, and the key if there is one; the site's name is its address.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from covey.isis.links import LinkOptions
from covey.isis.sites import Sites
from covey.kernel.effects import Deliver, Install
from covey.kernel.engine import Surroundings
from covey.kernel.storage import NAME_KEY, provision
from covey.kernel.storage_sqlite import SqliteStorage
from covey.net.host import Host, serve
from covey.net.keys import load_keys
from covey.trace import Recorder, open_sink

OPTIONS = LinkOptions(hello_s=0.1)
RUN = "real"


def build(around: Surroundings, addresses: Sequence[str]) -> Sites:
    return Sites(around, addresses, configured=sorted(addresses), options=OPTIONS)


def show(effect: Deliver | Install) -> None:
    if isinstance(effect, Install):
        os.write(1, f"{effect.seq} {' '.join(effect.members)}\n".encode())


def main(folder: Path, address: str, addresses: Sequence[str]) -> None:
    keys = load_keys(key) if (key := folder / "group.key").exists() else None
    storage = SqliteStorage(folder / f"{address}.db")
    if storage.get(NAME_KEY) is None:
        provision(storage, address, address)
    with Recorder(open_sink(folder / "trace" / f"{address.replace(':', '-')}-{os.getpid()}", "parquet")) as recorder:
        serve(Host(build, address, addresses, storage, recorder, keys, show, run=RUN))
    storage.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
