"""The slow and obvious simulator: `docs/semantics.md` turned into plain Python, a sentence at a time.

It is here to be read and to be right. The compiled core must produce the same journal on every small
workload; where the two differ, one of them has a bug. Nothing is shared with the core but the descriptions of
jobs and clusters and the random numbers. Everything is sorted again at every step, and the whole cluster is
copied to try something out: that makes it slow, and obvious.

Read `simulator.py` first, then `placers.py` and `policies.py`.
"""

from .simulator import Options, Result, simulate

__all__ = ["Options", "Result", "simulate"]
