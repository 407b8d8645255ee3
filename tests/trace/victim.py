"""A process to be killed: it writes rows until then, and says after each flush which index was the last.

python -m tests.trace.victim PATH FORMAT ROTATE SEED
"""

import os
import struct
import sys
from random import Random

from covey.trace import Recorder, open_sink

FLUSHED = struct.Struct("<Q")
"""What goes down the pipe: the last index that was flushed."""


def main(path: str, format: str, rotate: str, seed: str) -> None:
    random = Random(int(seed))
    recorder = Recorder(open_sink(path, format, int(rotate) or None))  # type: ignore[arg-type]
    recorder.header("r", "evs")
    member = recorder.member("r", "p", 1)
    index, number = 2**32 - 1, 0
    while True:
        for _ in range(random.choice((1, 2, 50, 500))):
            count = random.choice((1, 1, 7))
            member.write(number, "deliver", message=f"p/1/{number}", count=count, config="v" * 40)
            index, number = index + count, number + count
        recorder.flush()
        os.write(1, FLUSHED.pack(index))


if __name__ == "__main__":
    main(*sys.argv[1:])
