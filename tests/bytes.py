"""Hypothesis strategies for what may become of bytes on their way."""

from collections.abc import Sequence

from hypothesis import strategies as st


@st.composite
def damaged(draw: st.DrawFn, samples: Sequence[bytes]) -> bytes:
    """One of the samples after a few accidents: bytes changed, cut out, put in, or another sample's end."""
    data = bytearray(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        end = min(at + draw(st.integers(0, 8)), len(data))
        match draw(st.sampled_from(("change", "cut", "insert", "graft"))):
            case "change":
                data[at:end] = draw(st.binary(min_size=end - at, max_size=end - at))
            case "cut":
                del data[at:end]
            case "insert":
                data[at:at] = draw(st.binary(min_size=1, max_size=9))
            case "graft":
                other = draw(st.sampled_from(samples))
                data[at:] = other[draw(st.integers(0, len(other))) :]
    return bytes(data)
