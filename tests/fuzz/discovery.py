"""What discovery reads of others: announcements, files in a directory, and what a person writes."""

from covey.kernel.errors import MisuseError
from covey.kernel.wire import Dropped
from covey.net.discovery.directory import read_content
from covey.net.discovery.multicast import announcement, read_announcement
from covey.net.discovery.where import parse, read_address
from tests.fuzz import fuzz

REASONS = {"too long", "not of covey", "of another version", "not an address"}


def seeds() -> list[bytes]:
    texts = ["10.0.0.1:7400", "[fe80::1%eth0]:7400", "db.example.org:1", "dir:/run/covey", "multicast:239.1.2.3:7400"]
    return [announcement(texts[0]), f"{texts[0]} 17\n".encode(), *(text.encode() for text in texts)]


def one_input(data: bytes) -> None:
    announced = read_announcement(data)
    if isinstance(announced, Dropped):
        assert announced.reason in REASONS
    else:
        assert read_address(announced) == announced
    written = read_content(data)
    assert written is None or read_address(written) == written
    try:
        where = parse(data.decode(errors="surrogateescape"))
    except MisuseError:
        return
    assert parse(str(where)) == where


if __name__ == "__main__":
    fuzz(seeds, one_input)
