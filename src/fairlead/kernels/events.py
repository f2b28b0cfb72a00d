"""What is due when: a four-way heap of (time, code), where the code fixes the order within one instant.

A code is kind, id and stamp. Entries are not taken out when they stop holding (a suspended job's finish): the job's stamp
moves on, and whoever pops an entry compares. When more than half are stale the heap is rebuilt without them.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    G_EVENTS,
    G_STALE,
    K_STAMP,
    K_TIMER_STAMP,
    R_LIVE,
    Jobs,
    Queue,
)
from fairlead.kernels.jit import called, from_python, hot, inner

END = 0  #: a job's run ends: finish, or failure of the attempt
NODE_DOWN = 1
NODE_UP = 2
UNDERWAY = 3  #: a job's start cost is over; no decision follows, and it is not counted among the stale
# arrivals come between the two
TIMER = 4  #: the policy wants a job's rank looked at
WAKE_UP = 5  #: a planner asked to be called

FIRST_FEW = 5  #: entries of the heap: the first, and those one of which is the second

_KIND, _ID, _STAMP = 56, 20, 0xFFFFF


@hot
def code_of(kind: int, i: int, stamp: int) -> int:
    return (kind << _KIND) | (i << _ID) | (stamp & _STAMP)


code_of_from_python = from_python(code_of)


@hot
def kind_of(code: int) -> int:
    return code >> _KIND


@hot
def id_of(code: int) -> int:
    return (code >> _ID) & 0xFFFFFFFFF


@hot
def push_event(q: Queue, time: float, code: int) -> None:
    bits, codes = q.event_bits, q.event_code
    i = q.counter[G_EVENTS]
    q.counter[G_EVENTS] = i + 1
    q.event_time[i] = time
    mine = bits[i]
    while i > 0:
        up = (i - 1) >> 2
        if bits[up] < mine or (bits[up] == mine and codes[up] <= code):
            break
        bits[i] = bits[up]
        codes[i] = codes[up]
        i = up
    bits[i] = mine
    codes[i] = code


push_event_from_python = from_python(push_event)


@hot
def _first_kid(q: Queue, kid: int, end: int) -> int:
    """The first in order of the entries from kid up to end."""
    bits, codes, best = q.event_bits, q.event_code, kid
    for other in range(kid + 1, end):
        if bits[other] < bits[best] or (bits[other] == bits[best] and codes[other] < codes[best]):
            best = other
    return best


@hot
def _settle(q: Queue, i: int, size: int, mine: int, code: int) -> None:
    """Put an entry of this time, in bits, and code into the hole at i and below."""
    bits, codes = q.event_bits, q.event_code
    while True:
        kid = (i << 2) + 1
        if kid >= size:
            break
        best, t = kid, bits[kid]
        if kid + 3 < size:
            # selections, not branches, which would be mispredicted every other time; few times are equal
            t1, t2, t3 = bits[kid + 1], bits[kid + 2], bits[kid + 3]
            equal = (t == t1) | (t2 == t3)
            best = kid + 1 if t1 < t else best
            t = min(t1, t)
            other = kid + 3 if t3 < t2 else kid + 2
            t2 = min(t3, t2)
            equal = equal | (t == t2)
            best = other if t2 < t else best
            t = min(t2, t)
            if equal:
                best = _first_kid(q, kid, kid + 4)
        else:
            best = _first_kid(q, kid, size)
            t = bits[best]
        if t > mine or (t == mine and codes[best] >= code):
            break
        bits[i] = t
        codes[i] = codes[best]
        i = best
    bits[i] = mine
    codes[i] = code


@hot
def pop_event(q: Queue) -> None:
    """Drop the first entry; the caller has read it."""
    size = q.counter[G_EVENTS] - 1
    q.counter[G_EVENTS] = size
    if size > 0:
        _settle(q, 0, size, q.event_bits[size], q.event_code[size])


@hot
def holds(j: Jobs, code: int) -> bool:
    """Whether an entry still says something true."""
    kind, i = kind_of(code), id_of(code)
    if kind == END or kind == UNDERWAY:
        return (j.ints[K_STAMP, i] & _STAMP) == (code & _STAMP)
    if kind == TIMER:
        return (j.ints[K_TIMER_STAMP, i] & _STAMP) == (code & _STAMP)
    return True


@inner
def outdate_end(j: Jobs, q: Queue, i: int) -> None:
    """The end that is due for job i stops holding."""
    j.ints[K_STAMP, i] += 1
    if q.counter[R_LIVE] == 0:  # else ends are not foreseen, so there is no entry
        _one_more_stale(j, q)


@inner
def outdate_timer(j: Jobs, q: Queue, i: int) -> None:
    """The timer that is set for job i stops holding."""
    j.ints[K_TIMER_STAMP, i] += 1
    _one_more_stale(j, q)


@hot
def _one_more_stale(j: Jobs, q: Queue) -> None:
    q.counter[G_STALE] += 1
    size = q.counter[G_EVENTS]
    full = size * 3 > q.event_time.shape[0] * 2  # stale UNDERWAY entries are not counted
    if (q.counter[G_STALE] * 2 <= size or size < 64) and not full:
        return
    kept = 0
    for i in range(size):
        if holds(j, q.event_code[i]):
            q.event_time[kept] = q.event_time[i]
            q.event_code[kept] = q.event_code[i]
            kept += 1
    q.counter[G_EVENTS] = kept
    q.counter[G_STALE] = 0
    for i in range((kept - 2) >> 2, -1, -1):
        _settle(q, i, kept, q.event_bits[i], q.event_code[i])


# for callers that run seldom
push_event_called = called(push_event)
