"""Grow and shrink: an elastic job gets GPUs of its node that have been idle for a while, and gives them back at once when
somebody needs them."""

from __future__ import annotations

from fairlead.kernels.bits import following
from fairlead.kernels.columns import Desk, Jobs, Queue
from fairlead.kernels.jit import inner
from fairlead.kernels.profiler import error, seen_rate
from fairlead.policy.gandiva.choose import within_quota
from fairlead.policy.gandiva.hosting import has_cpu, is_local, resize, set_grown
from fairlead.policy.gandiva.packing import has_run_a_turn
from fairlead.policy.gandiva.running import stop
from fairlead.policy.gandiva.tables import (
    A_ASK,
    A_BEFORE,
    A_GPUS,
    A_GROWN,
    A_LEAST,
    A_MATE,
    A_MOST,
    A_PRIORITY,
    E_JOB,
    E_NEXT,
    F_BEFORE,
    F_CHANGED,
    SCALARS,
    STUBBORN,
    V_CAP,
    V_HEAD,
    V_LOAD,
    V_READY,
    V_UP,
    WATCHED,
    X_GROWERS,
    X_NODES,
    Y_IDLE,
)


@inner
def _most_to_give(d: Desk, i: int, n: int, to_least: bool) -> int:
    """The elastic job of node n, of no higher priority than job i, that has most beyond what it asked for (or its least)."""
    t, best, most = d.ints, -1, 0
    e = t[V_HEAD, n]
    while e != 0:
        other = t[E_JOB, e - 1]
        e = t[E_NEXT, e - 1]
        if t[A_MOST, other] == 0 or not is_local(d, other) or t[A_PRIORITY, other] > t[A_PRIORITY, i]:
            continue
        extra = t[A_GPUS, other] - (t[A_LEAST, other] if to_least else t[A_ASK, other])
        if extra > most or (extra == most and extra > 0 and other < best):
            best, most = other, extra
    return best


@inner
def make_room(q: Queue, d: Desk, i: int, n: int, gpus: int) -> None:
    """Shrink elastic jobs of node n until it has room for job i: first those that have more than they asked for."""
    t = d.ints
    while t[V_CAP, n] - t[V_LOAD, n] < gpus:
        lacks = gpus - (t[V_CAP, n] - t[V_LOAD, n])
        other = _most_to_give(d, i, n, False)
        floor = t[A_ASK, other]
        if other < 0:
            other = _most_to_give(d, i, n, True)
            floor = t[A_LEAST, other]
        stop(q, d, other)
        resize(d, other, max(t[A_GPUS, other] - lacks, floor))
        if t[A_GROWN, other] == WATCHED:
            set_grown(d, other, 0)


@inner
def _judge(j: Jobs, q: Queue, d: Desk, n: int, now: float) -> None:
    """Undo a growth that did not make its job faster."""
    t = d.ints
    e = t[V_HEAD, n]
    while e != 0:
        i = t[E_JOB, e - 1]
        e = t[E_NEXT, e - 1]
        if t[A_GROWN, i] != WATCHED or not has_run_a_turn(d, i, now):
            continue
        set_grown(d, i, 0)
        sure = seen_rate(j, q, i, now) * (1.0 - error(q)) > d.floats[F_BEFORE, i] * (1.0 + error(q))
        if not sure:
            stop(q, d, i)
            resize(d, i, t[A_BEFORE, i])
            set_grown(d, i, STUBBORN)


@inner
def _who_grows(d: Desk, n: int, now: float) -> int:
    """The elastic job of node n that has grown least."""
    t, best = d.ints, -1
    e = t[V_HEAD, n]
    while e != 0:
        i = t[E_JOB, e - 1]
        e = t[E_NEXT, e - 1]
        if t[A_MOST, i] == 0 or t[A_GPUS, i] >= t[A_MOST, i] or t[A_GROWN, i] != 0 or not is_local(d, i):
            continue
        if t[A_MATE, i] != 0 or not has_run_a_turn(d, i, now):  # who shares a GPU gets one to itself first
            continue
        extra = t[A_GPUS, i] - t[A_ASK, i]
        if (
            best < 0
            or extra < t[A_GPUS, best] - t[A_ASK, best]
            or (extra == t[A_GPUS, best] - t[A_ASK, best] and i < best)
        ):
            best = i
    return best


@inner
def _fits_grown(q: Queue, d: Desk, i: int, n: int, gpus: int) -> bool:
    return within_quota(d, q, i, gpus - d.ints[A_GPUS, i]) and has_cpu(d, i, n, gpus - d.ints[A_GPUS, i], False)


@inner
def grow(j: Jobs, q: Queue, d: Desk, now: float) -> None:
    """Where GPUs of a node have been idle for long enough, its elastic jobs get them."""
    t = d.ints
    n = following(d.cells, t[SCALARS, X_GROWERS], t[SCALARS, X_NODES], 0)
    while n >= 0:
        after = n + 1
        _judge(j, q, d, n, now)
        idle = t[V_UP, n] != 0 and t[V_LOAD, n] < t[V_CAP, n] and t[V_READY, n] == 0
        if idle and now - d.floats[F_CHANGED, n] >= d.floats[0, Y_IDLE]:
            i = _who_grows(d, n, now)
            if i >= 0:
                gpus = min(t[A_MOST, i], t[A_GPUS, i] + t[V_CAP, n] - t[V_LOAD, n])
                while gpus > t[A_GPUS, i] and not _fits_grown(q, d, i, n, gpus):
                    gpus -= 1
                if gpus > t[A_GPUS, i]:
                    d.floats[F_BEFORE, i] = seen_rate(j, q, i, now)
                    t[A_BEFORE, i] = t[A_GPUS, i]
                    stop(q, d, i)
                    set_grown(d, i, WATCHED)
                    resize(d, i, gpus)
        n = following(d.cells, t[SCALARS, X_GROWERS], t[SCALARS, X_NODES], after)
