"""What every member writes down about itself, and how it is read back.

A trace is the only evidence there is: verdicts are drawn from it alone. So what writes it hands
every row to the operating system before anyone can see an effect of it (`Recorder.flush`), and what
reads it stops at the first row that cannot be trusted (`read_trace`, `check_trace`).

`schema` has the format as tables and is the module to read first; then `recorder`, `row`, `reader`.
"""

from covey.trace.errors import TraceError
from covey.trace.reader import check_trace, read_checked, read_trace
from covey.trace.recorder import Member, Recorder, Sink
from covey.trace.row import Row
from covey.trace.sinks import JsonLinesSink, MemorySink, StreamSink, open_sink

__all__ = [
    "JsonLinesSink",
    "Member",
    "MemorySink",
    "Recorder",
    "Row",
    "Sink",
    "StreamSink",
    "TraceError",
    "check_trace",
    "open_sink",
    "read_checked",
    "read_trace",
]
