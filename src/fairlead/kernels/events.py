"""What is due when: a four-way heap of (time, code), where the code fixes the order within one instant.

A code is kind, id and stamp. Entries are not taken out when they stop holding (a suspended job's finish): the job's stamp
moves on, and whoever pops an entry compares. When more than half are stale the heap is rebuilt without them.
"""

from __future__ import annotations

from fairlead.kernels.columns import (
    F8,
    G_EVENTS,
    G_STALE,
    I8,
    K_STAMP,
    K_TIMER_STAMP,
    R_LIVE,
    Jobs,
    Queue,
)
from fairlead.kernels.jit import called, compiled_hot, hot, inner

END = 0  #: a job's run ends: finish, or failure of the attempt
NODE_DOWN = 1
NODE_UP = 2
UNDERWAY = 3  #: a job's start cost is over; no decision follows, and it is not counted among the stale
# arrivals come between the two
TIMER = 4  #: the policy wants a job's rank looked at
WAKE_UP = 5  #: a planner asked to be called

_KIND, _ID, _STAMP = 56, 20, 0xFFFFF


@compiled_hot
def code_of(kind: int, i: int, stamp: int) -> int:
    return (kind << _KIND) | (i << _ID) | (stamp & _STAMP)


@hot
def kind_of(code: int) -> int:
    return code >> _KIND


@hot
def id_of(code: int) -> int:
    return (code >> _ID) & 0xFFFFFFFFF


@compiled_hot
def push_event(q: Queue, time: float, code: int) -> None:
    times, codes = q.event_time, q.event_code
    i = q.counter[G_EVENTS]
    q.counter[G_EVENTS] = i + 1
    while i > 0:
        up = (i - 1) >> 2
        if times[up] < time or (times[up] == time and codes[up] <= code):
            break
        times[i] = times[up]
        codes[i] = codes[up]
        i = up
    times[i] = time
    codes[i] = code


@hot
def _before(times: F8, codes: I8, a: int, b: int) -> bool:
    # bitwise, so that it compiles to a selection: a branch on this is mispredicted every other time
    return (times[a] < times[b]) | ((times[a] == times[b]) & (codes[a] < codes[b]))


@hot
def _settle(q: Queue, i: int, size: int, time: float, code: int) -> None:
    """Put (time, code) into the hole at i and below."""
    times, codes = q.event_time, q.event_code
    while True:
        kid = (i << 2) + 1
        if kid >= size:
            break
        if kid + 3 < size:
            a = kid + 1 if _before(times, codes, kid + 1, kid) else kid
            b = kid + 3 if _before(times, codes, kid + 3, kid + 2) else kid + 2
            best = b if _before(times, codes, b, a) else a
        else:
            best = kid
            for other in range(kid + 1, size):
                best = other if _before(times, codes, other, best) else best
        t = times[best]
        if t > time or (t == time and codes[best] >= code):
            break
        times[i] = t
        codes[i] = codes[best]
        i = best
    times[i] = time
    codes[i] = code


@hot
def pop_event(q: Queue) -> None:
    """Drop the first entry; the caller has read it."""
    size = q.counter[G_EVENTS] - 1
    q.counter[G_EVENTS] = size
    if size > 0:
        _settle(q, 0, size, q.event_time[size], q.event_code[size])


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
def outdate(j: Jobs, q: Queue, i: int, column: int) -> None:
    """The entry that job i has in the heap (K_STAMP: its end; K_TIMER_STAMP: its timer) stops holding."""
    j.ints[column, i] += 1
    if column == K_STAMP and q.counter[R_LIVE] != 0:
        return  # ends are not foreseen, so there is no entry
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
        _settle(q, i, kept, q.event_time[i], q.event_code[i])


# for callers that run seldom
push_event_called = called(push_event)
