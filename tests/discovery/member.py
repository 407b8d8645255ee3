"""A process that looks for others until it is told to go, and prints each set that it finds.

python -m tests.discovery.member NAME ADDRESS WHERE...
"""

import asyncio
import json
import signal
import sys

from covey.net.discovery.discovery import Discovery
from covey.net.discovery.source import DiscoveryOptions

OPTIONS = DiscoveryOptions(look_every_s=0.02, retry_first_s=0.02, retry_max_s=0.05, silent_looks_max=25)


async def main(name: str, address: str, *wheres: str) -> None:
    def say(found: frozenset[str]) -> None:
        sys.stdout.write(json.dumps(sorted(found)) + "\n")
        sys.stdout.flush()

    task = asyncio.ensure_future(Discovery(wheres, name, address, OPTIONS).run(say))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await asyncio.wait([task])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
