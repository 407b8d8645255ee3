"""How a process learns the addresses of the others.

A person says *where* to look, in one of five forms (`where.py`). A *source* looks there again and
again, and each look answers with the whole set of addresses that it knows; `Discovery` joins them
and calls back when the result is another one. A source that cannot look keeps what it knew.

Addresses are hints. Whoever can write into the directory, answer for the name server or reach the
multicast group can add any, and so nothing is believed of a peer but what its sealed packets say;
what discovery owes is that no such guest can make it raise, block or grow.

Nobody's clock is compared with another's: whoever announces itself does so at every look, and one
that was silent for more than `silent_looks_max` looks in a row is forgotten. A process that was itself paused
did not look, and forgets nobody for that.
"""
