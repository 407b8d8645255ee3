"""What evs-1994 promises, situation by situation: each scenario of `tests/scenarios/evs` reaches the one it is about.

That nothing is violated, the judge says of each of them (`tests/scenarios`). Here it is asserted that what could have
gone wrong was there, and what came of it, in the notation of `tests.evs.notation`.
"""

from tests.evs.scenes import lines


def test_the_example_of_figure_6_goes_as_the_text_says() -> None:
    """Section 3.1: l, m and n are p1, p2 and r1."""
    assert lines("evs/figure-6") == {
        "p": "2.p=p 2.p>4.p=p 4.p=pqr* +1 p1 +2 p2 4.p>6.p=p 6.p=p",
        "q": "2.q=q 2.q>4.p=q 4.p=pqr* 4.p>6.q=qr r1 6.q=qrst*",
        "r": "2.r=r 2.r>4.p=r 4.p=pqr* +1s 4.p>6.q=qr r1 6.q=qrst*",
        "s": "2.s=s 2.s>4.s=s 4.s=st 4.s>6.q=st 6.q=qrst*",
        "t": "2.t=t 2.t>4.s=t 4.s=st 4.s>6.q=st 6.q=qrst*",
    }
