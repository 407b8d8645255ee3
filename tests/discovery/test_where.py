"""Where to look is written in one of five forms, and anything else is refused with advice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.kernel.errors import MisuseError
from covey.net.discovery.where import Directory, Multicast, Name, Static, parse, read_address, write_address

ports = st.integers(1, 65535)
labels = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
names = st.lists(labels, min_size=1, max_size=5).map(".".join).filter(lambda name: name not in ("dir", "multicast"))
addresses = (
    st.tuples(st.ip_addresses(), ports)
    .filter(lambda pair: not pair[0].is_unspecified and not pair[0].is_multicast)
    .map(lambda pair: write_address(*pair))
)
wheres = st.one_of(
    addresses.map(Static),
    st.builds(Name, names, ports),
    st.builds(Directory, st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)),
    st.builds(Multicast, st.ip_addresses(v=4, network="224.0.0.0/4").map(str), ports),
)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("10.0.0.1:7400", Static("10.0.0.1:7400")),
        ("[::1]:7400", Static("[::1]:7400")),
        ("[0:0::0:1]:07400", Static("[::1]:7400")),
        ("[fe80::1%eth0]:1", Static("[fe80::1%eth0]:1")),
        ("db.example.org:7400", Name("db.example.org", 7400)),
        ("db.example.org.:7400", Name("db.example.org.", 7400)),
        ("_covey._udp.a-b:7400", Name("_covey._udp.a-b", 7400)),
        ("localhost:65535", Name("localhost", 65535)),
        ("7seas.example:7400", Name("7seas.example", 7400)),
        ("dir:/run/covey", Directory("/run/covey")),
        ("dir:C:7400", Directory("C:7400")),
        ("multicast:239.1.2.3:7400", Multicast("239.1.2.3", 7400)),
    ],
)
def test_each_form_is_understood(text: str, where: object) -> None:
    assert parse(text) == where


@given(wheres)
def test_what_was_understood_reads_the_same_again(where: object) -> None:
    assert parse(str(where)) == where


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no host and port"),
        ("10.0.0.1", "no host and port"),
        (":7400", "no host and port"),
        ("[::1]", "no host and port"),
        ("db:", "'' is not a port"),
        ("db:http", "'http' is not a port"),
        ("db:0", "'0' is not a port"),
        ("db:65536", "'65536' is not a port"),
        ("db:-1", "'-1' is not a port"),
        ("db:٣", "is not a port"),
        ("db:" + "9" * 10_000, "is not a port"),
        ("::1:7400", "brackets go around IPv6"),
        ("[10.0.0.1]:7400", "brackets go around IPv6"),
        ("[::1:7400", "is no IP address"),
        ("[fe80::1%a b]:7400", "is no IP address"),
        ("[fe80::1%abcdefghijklmnop]:7400", "is no IP address"),
        ("[db]:7400", "is no IP address"),
        ("10.0.1:7400", "is no IP address"),
        ("256.0.0.1:7400", "is no IP address"),
        ("0x7f000001:7400", "is no IP address"),
        ("2130706433:7400", "is no IP address"),
        ("0.0.0.0:7400", "not the address of one process"),
        ("[::]:7400", "not the address of one process"),
        ("239.1.2.3:7400", "write multicast:239.1.2.3:7400"),
        ("a..b:7400", "not a name that the DNS could know"),
        ("-a:7400", "not a name that the DNS could know"),
        ("a b:7400", "not a name that the DNS could know"),
        ("bücher.example:7400", "in their form xn--"),
        ("a" * 64 + ":7400", "not a name that the DNS could know"),
        ("a." * 127 + ":7400", "not a name that the DNS could know"),
        ("http://db:7400", "is no IP address"),
        ("dir:", "names no directory"),
        ("dir:/a\0b", "names no directory"),
        ("dir:/a\ud800b", "names no directory"),
        ("multicast:", "no host and port"),
        ("multicast:10.0.0.1:7400", "not an IPv4 multicast group"),
        ("multicast:[ff02::1]:7400", "not an IPv4 multicast group"),
        ("multicast:all:7400", "not an IPv4 multicast group"),
    ],
)
def test_anything_else_is_refused_with_what_was_wrong(text: str, complaint: str) -> None:
    with pytest.raises(MisuseError, match=complaint.replace("'", "['\"]")):
        parse(text)


@given(st.text() | st.tuples(st.sampled_from(["dir:", "multicast:", "[", "10.", "a:"]), st.text()).map("".join))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        where = parse(text)
    except MisuseError:
        return
    assert parse(str(where)) == where


@given(st.from_regex(r"[a-zA-Z0-9_.-]{1,80}", fullmatch=True))
def test_a_name_that_was_understood_can_be_asked_for(host: str) -> None:
    try:
        where = parse(f"{host}:1")
    except MisuseError:
        return
    if isinstance(where, Name):
        assert where.host.encode("idna")  # as the resolver does


@given(st.text())
def test_an_address_is_read_or_refused(text: str) -> None:
    try:
        address = read_address(text)
    except MisuseError:
        return
    assert read_address(address) == address
