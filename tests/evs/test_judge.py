"""The judge finds what is planted, all that follows from it, and nothing where it is close but right."""

import pytest

from covey.trace import MemorySink, Recorder
from tests.evs.judge import PROPERTIES, judge
from tests.evs.notation import Row, in_runs, told, trace

CYCLE = "EVS-1.1 EVS-2.3 EVS-2.4 EVS-6.1 EVS-6.2"
VIEW_CYCLE = "EVS-2.3 EVS-2.4 EVS-6.1 EVS-6.2"

FIGURE_6 = """
complete
p: 4.p=pqr +1 +2 +3s p1 4.p>6.p=p p2 p3 6.p=p
q: 4.p=pqr p1 +1s 4.p>8.q=qr q1 r1 8.q=qrst +2s q2 s2
r: 4.p=pqr p1 +1s 4.p>8.q=qr q1 r1 8.q=qrst q2 s2
s: 6.s=st +1 s1 6.s>8.q=st 8.q=qrst +2s q2 s2
t: 6.s=st s1 6.s>8.q=st 8.q=qrst q2 s2
"""
"""Evs-1994, 3.1: l = p2 and m = p3 reached q and r not at all or without l; n = r1 was not safe before the cut."""


def violated(text: str) -> set[str]:
    return ids(trace(text))


def ids(rows: list[Row]) -> set[str]:
    return {violation.property for violation in judge(rows)}


WRONG = {
    "two deliver each other's message before they send": (
        f"{CYCLE} EVS-5",
        """
        p: 4.p=pq q1 +1
        q: 4.p=pq p1 +1
        """,
    ),
    "delivered, never sent": (
        "EVS-1.3",
        """
        p: 4.p=pq
        q: 4.p=pq p1
        """,
    ),
    "delivered after the regular configuration that follows": (
        "EVS-1.3",
        """
        p: 4.p=pq +1 p1 6.p=p
        q: 4.p=pq 6.q=q p1
        """,
    ),
    "delivered by its sender before it is sent": (f"EVS-1.3 {CYCLE}", "p: 4.p=p p1 +1"),
    "delivered twice": ("EVS-1.4", "p: 4.p=p +1c p1 p1"),
    "delivered twice, in total order": ("EVS-1.4 EVS-6.1 EVS-6.2", "p: 4.p=p +1 p1 4.p>6.p=p p1"),
    "sent twice": ("EVS-1.4", "p: 4.p=p +1c +1c p1"),
    "sent in a transitional configuration": ("EVS-1.4", "p: 4.p=p 4.p>6.p=p +1c"),
    "sent under another's name": (
        "EVS-1.4",
        """
        p: 4.p=pq +q1c
        q: 4.p=pq
        """,
    ),
    "sent under the name of an earlier incarnation": ("EVS-1.4", "p: 4.p=p x ^ 6.p=p +p1c p1"),
    "one rests where another has left": (
        "EVS-2.1",
        """
        complete
        p: 4.p=pq
        q: 4.p=pq 6.q=q
        """,
    ),
    "one rests where another has failed": (
        "EVS-2.1",
        """
        complete
        p: 4.p=pq
        q: 4.p=pq x ^
        """,
    ),
    "one rests in a transitional configuration": (
        "EVS-2.1",
        """
        complete
        p: 4.p=pq 4.p>6.p=pq
        q: 4.p=pq 4.p>6.p=pq 6.p=pq
        """,
    ),
    "sent after a failure": ("EVS-2.2", "p: 4.p=p x +1@4.p"),
    "sent after a start": ("EVS-2.2", "p: 4.p=p x ^ +1@4.p"),
    "sent before any installation": ("EVS-2.2", "p: ^ +1@4.p 4.p=p p1"),
    "delivered in a configuration that is over": ("EVS-2.2", "p: 4.p=p +1 6.p=p p1@4.p"),
    "stopped in a configuration that is over": ("EVS-2.2", "p: 4.p=p 6.p=p .@4.p"),
    "failed twice": ("EVS-2.2", "p: 4.p=p x x"),
    "delivered by one before it installs the configuration of the send": (
        f"EVS-1.3 {VIEW_CYCLE}",
        """
        p: 2.p=p q1 6.p=pq
        q: 6.p=pq +1c
        """,
    ),
    "two configurations in one order here, in the other there": (
        f"EVS-2.6 {VIEW_CYCLE}",
        """
        p: 4.p=pq 6.p=pq
        q: 6.p=pq 4.p=pq
        """,
    ),
    "transitional, not straight after what it ends": ("EVS-2.5", "p: 4.p=p 6.p=p 4.p>8.p=p"),
    "transitional, first of all": ("EVS-2.5", "p: 4.p>8.p=p"),
    "transitional after transitional": ("EVS-2.5", "p: 4.p=p 4.p>8.p=p 4.p>10.p=p"),
    "transitional with more than came": ("EVS-2.5", "p: 4.p=p 4.p>8.p=pq"),
    "transitional with more than go on": ("EVS-2.5", "p: 4.p=pq 4.p>6.p=pq 6.p=p"),
    "together from and to, not through the same": (
        "EVS-2.5",
        """
        p: 4.p=pq 4.p>6.p=p 6.p=pq
        q: 4.p=pq 6.p=pq
        """,
    ),
    "together from and to, through two": (
        "EVS-2.5",
        """
        p: 4.p=pq 4.p>8.p=p 8.p=pq
        q: 4.p=pq 4.p>8.q=q 8.p=pq
        """,
    ),
    "two accounts of the members": (
        "EVS-2.6",
        """
        p: 4.p=pq
        q: 4.p=pqr
        """,
    ),
    "two accounts of whether it is primary": (
        "EVS-2.6",
        """
        p: 4.p=pq*
        q: 4.p=pq
        """,
    ),
    "installed by one who is no member": ("EVS-2.6", "p: 4.p=q"),
    "a number that falls": ("EVS-2.6", "p: 4.p=p 2.p=p"),
    "a number that falls with a failure": ("EVS-2.6", "p: 4.p=p x ^ 2.p=p"),
    "a number that stays": ("EVS-2.6", "p: 4.p=p 4.q=p"),
    "with another straight after a failure": (
        "EVS-2.7",
        """
        p: 4.p=p x ^ 6.p=pq
        q: 6.p=pq
        """,
    ),
    "with another straight after a stop": ("EVS-2.7", "p: 4.p=p . ^ 6.p=pq"),
    "with another after a failure that only the start tells of": ("EVS-2.7", "p: 4.p=p ^ 6.p=pq"),
    "transitional straight after a failure": ("EVS-2.5 EVS-2.7", "p: 4.p=p x ^ 4.p>6.p=p"),
    "sent, not delivered when it goes on": ("EVS-3", "p: 4.p=pq +1 4.p>6.p=p 6.p=p"),
    "sent, not delivered in a complete run": (
        "EVS-3",
        """
        complete
        p: 4.p=p +1
        """,
    ),
    "together, one without a message": (
        "EVS-4",
        """
        p: 4.p=pq +1 p1 6.p=pq
        q: 4.p=pq 6.p=pq
        """,
    ),
    "together, one later than the other": (
        "EVS-4 EVS-6.1 EVS-6.2",
        """
        p: 4.p=pq +1 p1 4.p>6.p=pq 6.p=pq
        q: 4.p=pq 4.p>6.p=pq p1 6.p=pq
        """,
    ),
    "together, one without a message in the transitional configuration": (
        "EVS-4",
        """
        p: 4.p=pq +1 4.p>6.p=pq p1 6.p=pq
        q: 4.p=pq 4.p>6.p=pq 6.p=pq
        """,
    ),
    "an effect without its cause": (
        "EVS-5",
        """
        p: 4.p=pqr +1c p1
        q: 4.p=pqr p1 +1c q1
        r: 4.p=pqr q1
        """,
    ),
    "an effect before its cause, over a third": (
        "EVS-5",
        """
        p: 4.p=pqr +1c
        q: 4.p=pqr p1 +1c
        r: 4.p=pqr q1 p1
        """,
    ),
    "the second of one sender without the first": (
        "EVS-5",
        """
        p: 4.p=pq +1c +2c
        q: 4.p=pq 4.p>6.q=q p2
        """,
    ),
    "two orders": (
        "EVS-6.1 EVS-6.2",
        """
        p: 4.p=pq +1 p1 q1
        q: 4.p=pq +1s q1 p1
        """,
    ),
    "a circle of three orders, with holes": (
        "EVS-6.1 EVS-6.2 EVS-6.3",
        """
        p: 4.p=pqr +1 p1 q1
        q: 4.p=pqr +1 q1 r1
        r: 4.p=pqr +1 r1 p1
        """,
    ),
    "a hole": (
        "EVS-6.3",
        """
        p: 4.p=pq +1 p1 q1
        q: 4.p=pq +1 q1
        """,
    ),
    "a hole by a member of the transitional configuration": (
        "EVS-6.3",
        """
        p: 4.p=pqr +1 4.p>8.p=pq
        q: 4.p=pqr +1 4.p>8.p=pq q1
        r: 4.p=pqr p1 q1
        """,
    ),
    "safe, and one has gone on without": (
        "EVS-7.1",
        """
        p: 4.p=pq +1s p1
        q: 4.p=pq 6.q=q
        """,
    ),
    "safe, and one rests without": (
        "EVS-7.1",
        """
        complete
        p: 4.p=pq +1s p1
        q: 4.p=pq
        """,
    ),
    "safe, and one fails without, but later": (
        "EVS-7.1",
        """
        p: 4.p=pq +1s p1
        q: 4.p=pq 6.q=q x
        """,
    ),
    "safe in the transitional configuration, and one of it has gone another way without": (
        "EVS-7.1",
        """
        p: 4.p=pqr +1s 4.p>8.p=pq p1 8.p=pq
        q: 4.p=pqr 4.p>10.q=q 10.q=q
        r: 4.p=pqr
        """,
    ),
    "safe where not all are yet": (
        "EVS-7.2",
        """
        p: 4.p=pq +1s p1
        q: 2.q=q
        """,
    ),
    "safe where one never comes": (
        "EVS-7.1 EVS-7.2",
        """
        p: 4.p=pq +1s p1
        q: 2.q=q x
        """,
    ),
    "at rest apart": (
        "EVS-LIVE",
        """
        complete healed
        p: 4.p=p
        q: 4.q=q
        """,
    ),
    "at rest without any configuration": (
        "EVS-LIVE",
        """
        complete healed
        p: 4.p=p x ^
        """,
    ),
    "a primary component that knows nothing of the one before": (
        "PC-1",
        """
        p: 4.p=pq*
        q: 2.q=q 6.q=q*
        """,
    ),
    "primary components that do not know of each other": (
        "PC-1 PC-2",
        """
        p: 4.p=p*
        q: 4.q=q*
        """,
    ),
    "primary components in an order that is not that of their numbers": (
        "PC-1 EVS-2.6",
        "p: 4.p=p* 2.p=p*",
    ),
    "a primary component of all others": (
        "PC-2",
        """
        p: 4.p=pr*
        r: 4.p=pr* 6.r=qr
        q: 6.r=qr 8.q=q*
        """,
    ),
    "vs: delivered, never sent": (
        "VS-C1",
        """
        vs
        p: 2.p=pq*
        q: 2.p=pq* p1
        """,
    ),
    "vs: delivered twice": ("VS-C1", "vs\n p: 2.p=p* +1c p1 p1"),
    "vs: sent twice": ("VS-C1", "vs\n p: 2.p=p* +1c +1c p1"),
    "vs: sent under another's name": ("VS-C1", "vs\n p: 2.p=p* +q1c"),
    "vs: delivered before it is sent": ("VS-C1 VS-L1 VS-L2 VS-L3 VS-L5", "vs\n p: 2.p=p* p1 +1"),
    "vs: sent by one that rests, delivered by nobody": (
        "VS-C2 VS-C3",
        """
        vs complete
        p: 2.p=pq* +1
        q: 2.p=pq*
        """,
    ),
    "vs: sent by one that goes on, delivered by nobody": (
        "VS-C2 VS-C3",
        """
        vs complete
        p: 2.p=pq* +1 4.p=p*
        q: 2.p=pq* x
        """,
    ),
    "vs: delivered by one that goes on, not by the other": (
        "VS-C3",
        """
        vs
        p: 2.p=pq* +1 p1 4.p=pq*
        q: 2.p=pq* 4.p=pq*
        """,
    ),
    "vs: sent by one that goes on, delivered by the others": (
        "VS-C3",
        """
        vs
        p: 2.p=pq* +1 4.p=pq*
        q: 2.p=pq* p1 4.p=pq*
        """,
    ),
    "vs: delivered by one that rests, not by the other": (
        "VS-C3",
        """
        vs complete
        p: 2.p=pqr*
        q: 2.p=pqr* r1
        r: 2.p=pqr* +1 x
        """,
    ),
    "vs: two deliver each other's message before they send": (
        "VS-L1 VS-L2 VS-L3 VS-L5",
        """
        vs
        p: 2.p=pq* q1 +1
        q: 2.p=pq* p1 +1
        """,
    ),
    "vs: two accounts of the members": (
        "VS-L3",
        """
        vs
        p: 2.p=pq*
        q: 2.p=pqr*
        """,
    ),
    "vs: two views in one order here, in the other there": (
        "VS-L3 VS-L5",
        """
        vs
        p: 4.p=pq* 6.p=pq*
        q: 6.p=pq* 4.p=pq*
        """,
    ),
    "vs: a view of another incarnation": ("VS-L3", "vs\n p: 2.p=p* x ^ 4.p=p*"),
    "vs: delivered in the next view": (
        "VS-L4",
        """
        vs
        p: 2.p=pq* +1c x
        q: 2.p=pq* 4.q=pq* p1
        """,
    ),
    "vs: sent after a failure": ("VS-L4", "vs\n p: 2.p=p* x +1@2.p"),
    "vs: sent by the next incarnation in the view of the one before": ("VS-L4", "vs\n p: 2.p=p* x ^ +1@2.p"),
    "vs: two orders at two that go on": (
        "VS-L5",
        """
        vs
        p: 2.p=pq* +1 p1 q1 4.p=pq*
        q: 2.p=pq* +1 q1 p1 4.p=pq*
        """,
    ),
    "vs: sent in a view that is not primary": ("VS-F1", "vs\n p: 2.p=p +1 p1"),
    "vs: primary views that do not know of each other": (
        "VS-F1",
        """
        vs
        p: 2.p=pq*
        q: 4.q=q*
        """,
    ),
    "vs: a primary view of all others": (
        "VS-F1",
        """
        vs
        p: 2.p=p* x
        q: 4.q=q*
        """,
    ),
    "vs: two join at once": (
        "VS-F2",
        """
        vs
        p: 2.p=p* 4.p=pqr*
        q: 4.p=pqr*
        """,
    ),
    "vs: merged back as before": (
        "VS-F3",
        """
        vs
        p: 2.p=pq* 4.p=p* 6.p=pq*
        q: 2.p=pq* 6.p=pq*
        """,
    ),
    "vs: merged back as before, unseen by those who are there now": (
        "VS-F3",
        """
        vs
        p: 2.p=pqr* 4.p=pr* x
        q: 2.p=pqr* 6.q=qr*
        r: 2.p=pqr* 4.p=pr* 6.q=qr*
        """,
    ),
    "vs: delivered from one that has left": (
        "VS-F3 VS-L4",
        """
        vs
        p: 2.p=pq* 4.p=p* q1
        q: 2.p=pq* +1 x
        """,
    ),
}

CLOSE = {
    "EVS-1.1: both send before they deliver": """
        p: 4.p=pq +1c q1 p1
        q: 4.p=pq +1c p1 q1
        """,
    "EVS-1.3: delivered in the transitional configuration": """
        p: 4.p=pq +1 p1 6.p=p
        q: 4.p=pq 4.p>6.q=q p1 6.q=q
        """,
    "EVS-1.4: the same number in two incarnations": "p: 4.p=p +1 p1 x ^ 6.p=p +1 p'1",
    "EVS-2.1: one has failed, and the other has gone on": """
        complete
        p: 4.p=pq 6.p=p
        q: 4.p=pq x ^ 8.q=q
        """,
    "EVS-2.1: the run is not complete": """
        p: 4.p=pq
        q: 4.p=pq x
        """,
    "EVS-2.2: failed before any installation": "p: ^ x ^ 4.p=p x ^ x",
    "EVS-2.2: failed where it says": "p: 4.p=p 6.p=p x@6.p",
    "EVS-2.3 EVS-2.4: one installs when the other has already sent": """
        p: 2.p=p +1c p1 6.p=pq q1
        q: 6.p=pq +1c q1
        """,
    "EVS-2.5: several transitional configurations, of which one ends in a failure": """
        p: 4.p=pqr 4.p>6.p=p 6.p=p
        q: 4.p=pqr 4.p>8.q=qr 8.q=qr
        r: 4.p=pqr 4.p>8.q=qr x
        """,
    "EVS-2.5: to the same one from different ones": """
        p: 4.p=p 4.p>8.p=p 8.p=pq
        q: 4.q=q 8.p=pq
        """,
    "EVS-2.6: not all install it": """
        p: 4.p=pq 6.p=p
        q: 2.q=q 8.q=q
        """,
    "EVS-2.7: with another at the first start": """
        p: ^ 4.p=pq x ^ 6.p=p 8.p=pq
        q: ^ 4.p=pq
        """,
    "EVS-2.7: alone after failures": "p: 4.p=pq x ^ x ^ 6.p=p",
    "EVS-3: delivered in the transitional configuration": "p: 4.p=pq +1 4.p>6.p=p p1 6.p=p",
    "EVS-3: failed in the transitional configuration": "p: 4.p=pq +1 4.p>6.p=p x",
    "EVS-3: stopped": "p: 4.p=pq +1 .",
    "EVS-3: not over": "p: 4.p=pq +1 4.p>6.p=p",
    "EVS-4: to different configurations": """
        p: 4.p=pq +1 p1 6.p=p
        q: 4.p=pq 6.q=q
        """,
    "EVS-4: through different transitional configurations": """
        p: 4.p=pqr +1 4.p>6.p=p p1 6.p=p
        q: 4.p=pqr 4.p>8.q=qr 8.q=qr
        r: 4.p=pqr 4.p>8.q=qr 8.q=qr
        """,
    "EVS-4: one fails and comes to the same": """
        p: 4.p=pq +1 p1 8.p=pq
        q: 4.p=pq x ^ 6.q=q 8.p=pq
        """,
    "EVS-5: the cause delivered without its effect": """
        p: 4.p=pqr +1c p1
        q: 4.p=pqr p1 +1c q1
        r: 4.p=pqr p1
        """,
    "EVS-5: the cause in the regular configuration, the effect in the transitional one": """
        p: 4.p=pqr +1c p1
        q: 4.p=pqr p1 +1c q1
        r: 4.p=pqr p1 4.p>6.r=r q1
        """,
    "EVS-5: the cause was sent in an earlier configuration": """
        p: 4.p=p +1c p1 6.p=pq +2c p2
        q: 2.q=q 6.p=pq p2
        """,
    "EVS-6.1 EVS-6.2: one of two messages in two orders is causal": """
        p: 4.p=pq +1 p1 q1
        q: 4.p=pq +1c q1 p1
        """,
    "EVS-6.3: the sender is not in the transitional configuration": """
        p: 4.p=pqr +1 p1 q1
        q: 4.p=pqr +1 4.p>8.q=qr q1 8.q=qr
        r: 4.p=pqr 4.p>8.q=qr q1 8.q=qr
        """,
    "EVS-6.3: what is missing is causal": """
        p: 4.p=pq +1c p1 q1
        q: 4.p=pq +1 q1
        """,
    "EVS-6.3: what is there is causal": """
        p: 4.p=pq +1 p1 q1
        q: 4.p=pq +1c q1
        """,
    "EVS-7.1: the message is agreed": """
        p: 4.p=pq +1 p1
        q: 4.p=pq 6.q=q
        """,
    "EVS-7.1: one has failed": """
        p: 4.p=pq +1s p1
        q: 4.p=pq 4.p>6.q=q x
        """,
    "EVS-7.1: at one it is not over": """
        p: 4.p=pq +1s p1
        q: 4.p=pq 4.p>6.q=q
        """,
    "EVS-7.1: one that has gone another way delivers it on the way": """
        p: 4.p=pqr +1s 4.p>8.p=pq p1 8.p=pq
        q: 4.p=pqr 4.p>10.q=q p1 10.q=q
        r: 4.p=pqr 6.r=r
        """,
    "EVS-7.2: all installed it, and one has failed": """
        p: 4.p=pq +1s p1
        q: 4.p=pq x
        """,
    "EVS-7.2: delivered in the transitional configuration": """
        p: 4.p=pq +1s 4.p>6.p=p p1 6.p=p
        q: 2.q=q
        """,
    "EVS-LIVE: the run is not healed": """
        complete
        p: 4.p=p
        q: 4.q=q
        """,
    "EVS-LIVE: only one is up": """
        complete healed
        p: 4.p=p
        q: 4.q=q .
        r: 4.r=r x
        """,
    "PC-1: the next one is known by a message": """
        p: 4.p=pq*
        q: 4.p=pq* 6.q=qr +1 q1
        r: 6.q=qr q1 8.r=rp*
        """,
    "PC-2: a member of both": """
        p: 4.p=pr*
        q: 6.r=qr
        r: 4.p=pr* 6.r=qr 8.r=r*
        """,
    "VS-C1: delivered by others when its sender has failed": """
        vs
        p: 2.p=pq* +1 x
        q: 2.p=pq* p1 4.q=q*
        """,
    "VS-C2: the sender fails": """
        vs complete
        p: 2.p=pq* +1 x
        q: 2.p=pq* 4.q=q*
        """,
    "VS-C2: the sender is left behind": """
        vs complete
        p: 2.p=pq* +1
        q: 2.p=pq* 4.q=q*
        """,
    "VS-C2 VS-C3: the run is not complete": """
        vs
        p: 2.p=pq* +1
        q: 2.p=pq*
        """,
    "VS-C3: those that deliver it fail": """
        vs
        p: 2.p=pqr* +1 p1 x
        q: 2.p=pqr* 4.q=qr*
        r: 2.p=pqr* 4.q=qr*
        """,
    "VS-C3: one that goes on delivers it, one that fails does not": """
        vs
        p: 2.p=pq* +1 p1 4.p=p*
        q: 2.p=pq* x
        """,
    "VS-L1 VS-L2: both send before they deliver": """
        vs
        p: 2.p=pq* +1c q1 p1
        q: 2.p=pq* +1c p1 q1
        """,
    "VS-L3: another view of the next incarnation": """
        vs
        p: 2.p=pq* x ^ 6.q=p'q*
        q: 2.p=pq* 4.q=q* 6.q=p'q*
        """,
    "VS-L4: delivered just before the next view": """
        vs
        p: 2.p=pq* +1 x
        q: 2.p=pq* p1 4.q=q*
        """,
    "VS-L5: the one with another order fails": """
        vs
        p: 2.p=pq* +1 p1 q1 4.p=p*
        q: 2.p=pq* +1 q1 p1 x
        """,
    "VS-L5: one of two messages in two orders is causal": """
        vs
        p: 2.p=pq* +1 p1 q1 4.p=pq*
        q: 2.p=pq* +1c q1 p1 4.p=pq*
        """,
    "VS-F1: a view that is not primary, in which nothing happens": "vs\n p: 2.p=p 4.p=p* +1 p1",
    "VS-F1: a process that is back, as another incarnation, is in both": """
        vs
        p: 2.p=pq* x ^ 6.p=p'r*
        q: 2.p=pq* 4.q=qr*
        r: 4.q=qr* 6.p=p'r*
        """,
    "VS-F2: one joins, and one leaves": """
        vs
        p: 2.p=pq* 4.p=pr* 6.p=prs*
        q: 2.p=pq* x
        r: 4.p=pr* 6.p=prs*
        s: 6.p=prs*
        """,
    "VS-F3: merged back with a new incarnation, and delivered from": """
        vs
        p: 2.p=pq* 4.p=p* 6.p=pq'* q'1
        q: 2.p=pq* x ^ 6.p=pq'* +1 q'1
        """,
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_planted_is_found_and_nothing_else(what: str) -> None:
    expected, text = WRONG[what]
    assert violated(text) == set(expected.split()), judge(trace(text))


@pytest.mark.parametrize("what", CLOSE)
def test_what_is_close_but_right_is_let_pass(what: str) -> None:
    assert judge(trace(CLOSE[what])) == []


def test_each_property_is_violated_by_some_trace_and_nearly_by_another() -> None:
    properties = {property for model in PROPERTIES.values() for ids, _ in model for property in ids}
    assert {property for expected, _ in WRONG.values() for property in expected.split()} == properties
    assert {property for what in CLOSE for property in what.partition(":")[0].split()} == properties


def test_the_partition_and_merge_of_figure_6_is_right() -> None:
    assert judge(trace(FIGURE_6)) == []


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("6.p=p p2 p3", "6.p=p p3 p2", "EVS-5"),  # p delivers m before l
        ("8.q=qr q1 r1 8.q=qrst q2 s2\n", "8.q=qr p3 q1 r1 8.q=qrst q2 s2\n", "EVS-4 EVS-5 EVS-7.1"),  # r delivers m
        ("r1 8.q=qrst +2s", "8.q=qrst +2s", "EVS-4 EVS-7.1"),  # q does not deliver n
        ("+1s 4.p>8.q=qr q1 r1 8.q=qrst q2", "+1s r1 4.p>8.q=qr q1 8.q=qrst q2", "EVS-4 EVS-6.1 EVS-6.2 EVS-7.1"),
        ("t: 6.s=st s1", "t: 6.s=st", "EVS-4"),
        ("+2s q2 s2\nr", "+2s s2 q2\nr", "EVS-6.1 EVS-6.2"),
    ],
)
def test_figure_6_with_one_thing_changed_is_wrong(right: str, wrong: str, expected: str) -> None:
    assert right in FIGURE_6
    assert violated(FIGURE_6.replace(right, wrong, 1)) == set(expected.split())


RUNS = """
p: 4.p=pq +1 +2 +3 p1 p2 p3 q1 q2 q3 6.p=p
q: 4.p=pq +1 +2 +3s p1 p2 p3 q1 q2 6.q=q
"""


@pytest.mark.parametrize("text", [FIGURE_6, RUNS, *(text for _, text in WRONG.values()), *CLOSE.values()])
def test_a_row_for_many_messages_is_judged_as_a_row_for_each(text: str) -> None:
    assert ids(in_runs(trace(text))) == violated(text)


def test_the_rows_for_many_messages_are_fewer() -> None:
    assert [row.get("count", 1) for row in in_runs(trace(RUNS))] == [1, 1, 3, 3, 3, 1, 1, 2, 1, 3, 2, 1]
    assert violated(RUNS) == {"EVS-3", "EVS-7.1"}


def test_what_a_recorder_wrote_is_judged() -> None:
    sink = MemorySink()
    recorder = Recorder(sink)
    recorder.header("r", "evs", complete=True, healed=True)
    for name in "pq":
        member = recorder.member("r", name, 1)
        member.write(0, "start", recovered=False)
        member.write(0, "config", config="4.p", kind="regular", seq=4, members=["p", "q"])
        if name == "p":
            member.write(0, "send", message="p/1/1", count=3, config="4.p", service="safe")
        member.write(0, "deliver", message="p/1/1", count=3 if name == "p" else 2, config="4.p", ordinal=1)
    assert [violation.why for violation in judge(sink.rows)] == [
        "p delivers p/1/3 as safe in 4.p, and its member q does not"
    ]


def test_a_trace_is_told_in_the_words_that_it_is_written_in() -> None:
    for text in (FIGURE_6, RUNS, "p: 2.p=p* +1c x ^ 4.p=p +1s p'1 ."):
        written = [line.strip() for line in text.splitlines() if ": " in line]
        for rows in (trace(text), in_runs(trace(text))):
            assert [f"{process}: {said}" for process, said in told(rows).items()] == written


def test_the_order_of_rows_says_nothing() -> None:
    for _, text in WRONG.values():
        assert ids(trace(text)[::-1]) == violated(text)


def test_groups_are_judged_by_themselves_and_share_the_failures_of_processes() -> None:
    ring = trace("p: ^ 4.p=p +1c p1 x ^ 6.p=p")
    for name in ("one", "other"):
        ring += [
            {**row, "index": row["index"] + 0.5, "group": name}
            for row in trace("p: ^ 4.p=pq +1c p1 x ^ 6.p=p")
            if row["event"] in ("config", "send", "deliver")
        ]
    assert judge(ring) == []
    last = next(row for row in reversed(ring) if row["group"] == "one" and row["event"] == "config")
    last["members"] = ["p", "q"]
    assert ids(ring) == {"EVS-2.7"}


def test_only_the_models_that_a_run_names_are_judged() -> None:
    rows = trace("p: 4.p=p x ^ 2.p=p")
    rows[0]["model"] = "isis85"
    assert judge(rows) == []
    rows[0]["model"] = "evs"
    assert ids(rows) == {"EVS-2.6"}


def test_a_violation_says_who_did_what() -> None:
    assert [str(violation.why) for violation in judge(trace(WRONG["safe, and one has gone on without"][1]))] == [
        "p delivers p/1/1 as safe in 4.p, and its member q does not"
    ]
    assert {violation.why for violation in judge(trace(WRONG["two orders"][1]))} == {
        "each precedes the next: the delivery of p/1/1; the delivery of q/1/1; the delivery of p/1/1"
    }
