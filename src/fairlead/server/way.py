"""Who reads for somebody gives way to whoever decides.

Threads of one process take turns at the interpreter. One that makes an answer for a page would go on beside a decision, and each of them
take twice as long; so it stops at its next `give_way` until the decision is made.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_T = TypeVar("_T")

_free = threading.Event()
_free.set()
_decides = 0  #: the thread that does


@contextmanager
def right_of_way() -> Iterator[None]:
    """For a decision: one thread at a time, and nothing in it waits for another."""
    global _decides
    _decides = threading.get_ident()
    _free.clear()
    try:
        yield
    finally:
        _free.set()


def give_way() -> None:
    """To be called every fraction of a millisecond, and never while something is held that a decision needs."""
    if not _free.is_set() and threading.get_ident() != _decides:
        _free.wait()


def giving_way(items: Iterable[_T]) -> Iterator[_T]:
    """Before each of them."""
    for item in items:
        give_way()
        yield item
