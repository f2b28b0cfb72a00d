"""Gandiva in a core that is built anew: its tables from where jobs are, and what it notes of them for the next core.

Where a running job is at home is where it runs. What can't be told from that is noted per job: the home of one that waits for
its turn, what each has had of its node's time, what was seen of its speed, whom it was tried with, and in which order things
came that are looked at in their order. Without notes, as after a restart, waiting jobs find new homes, all jobs of a node are
on a par, and a pair is parted when its turn is over, since nobody knows that it pays.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from fairlead.kernels.columns import (
    C_FIXED,
    C_SHAPE,
    C_TENANT,
    G_NEXT,
    G_ROWS,
    I8,
    J_BEGUN,
    J_FIRST,
    K_CLASS,
    K_LEAST,
    K_MOST,
    K_OWN,
    K_PRIORITY,
    K_STARTS,
    K_STATE,
    R_RESHAPES,
    RUNNING,
    S_BOUND,
    S_CPU,
    S_GPUS,
    S_MEM,
    S_MILLI,
    S_SPLIT,
    S_TYPE,
    S_WITHIN,
    T_WEIGHT,
    U_NODE,
    WAITING,
    WHOLE,
    WITHDRAWN,
    Desk,
)
from fairlead.kernels.nodes import part_from_python
from fairlead.policy.base import OWN_DOING, Memo
from fairlead.policy.gandiva.tables import (
    A_ASK,
    A_BAD,
    A_BEFORE,
    A_BESIDE,
    A_CLASS,
    A_CPU,
    A_FIXED,
    A_FOLLOWS,
    A_GPUS,
    A_GROWN,
    A_LEAST,
    A_LOST,
    A_MATE,
    A_MEM,
    A_MILLI,
    A_MOST,
    A_NEXT,
    A_PAIR,
    A_PARTS,
    A_PRIORITY,
    A_SPLIT,
    A_SPLIT_NEXT,
    A_SPLIT_PREV,
    A_STATE,
    A_TENANT,
    A_TRIAL,
    A_TRIAL_AT,
    A_TRIES,
    A_TYPE,
    A_WITHIN,
    E_COUNT,
    E_JOB,
    E_MORE,
    E_NEXT,
    E_NODE,
    E_PREV,
    F_BEFORE,
    F_CHANGED,
    F_SERVED,
    F_SINCE,
    F_SOLO,
    F_START,
    F_USE,
    F_WEIGHT,
    H_HOSTED,
    KEPT,
    O_FIRST,
    QUEUED,
    READY,
    RUNS,
    SCALARS,
    STUBBORN,
    TRIAL,
    V_AFFINITY,
    V_CAP,
    V_CPU_LOAD,
    V_FREE,
    V_GROWERS,
    V_HEAD,
    V_IS_DUE,
    V_LIST,
    V_LOAD,
    V_MEM_LOAD,
    V_PAIRS,
    V_PARTS,
    V_READY,
    V_SLACK,
    V_SPANS,
    V_TOUCHED,
    V_TYPE,
    W_HEAD,
    W_LIST,
    W_TAIL,
    WATCHED,
    X_DEMANDS,
    X_FREED,
    X_GROWS,
    X_JOB,
    X_LOAD,
    X_LOST,
    X_QUEUED,
    X_ROW,
    X_SLACK,
    X_SPARE,
    X_SPLIT,
    X_TOUCHED,
    X_TRIALS,
    Y_NOW,
    Y_QUANTUM,
    Y_TICK,
    affinity,
    blank,
    shelve,
)
from fairlead.state.view import View

#: a rate alone that no pair beats: what counts for one of which nothing is known
UNBEATABLE = 1e300


@dataclass(frozen=True)
class Part:
    """What a node hosts of a job."""

    node: float
    count: float  #: GPUs that it counts for
    age: float  #: its place among the parts on the node, the oldest first
    affinity: float  #: of the node
    changed_s: float  #: when the node's load last changed
    due: float  #: 1: jobs of the node take turns


@dataclass(frozen=True)
class Note:
    """What is known of a job. `number` is its own in the core that it was noted in, by which others name it."""

    number: float
    asked_s: float  #: when the planner was last asked
    news: float  #: 1: something has happened since
    state: float
    gpus: float
    served: float
    since_s: float
    solo: float
    use: float
    tries: float
    bad: float  #: 1 + number, as is the mate's
    grown: float
    before: float
    rate_before: float
    mate: float
    follows: float
    pair: float
    trial: float  #: its place among the pairs that are being tried
    split: float  #: its place among the jobs with parts on several nodes, the oldest first
    queued: float  #: its place in the queue of its class
    parts: tuple[Part, ...] = field(default=())


_SINGLES, _PER_PART = len(fields(Note)) - 1, len(fields(Part))


def _note(memo: Memo) -> Note:
    rest = memo[_SINGLES:]
    parts = tuple(Part(*rest[at : at + _PER_PART]) for at in range(0, len(rest), _PER_PART))
    numbers: list[Any] = [*memo[:_SINGLES], parts]
    return Note(*numbers)


# -- noting ------------------------------------------------------------------------------------------------------------------


def _chain(first: int, after: Sequence[int] | I8) -> Iterator[int]:
    """What a chain of links runs through."""
    while first != 0:
        yield first - 1
        first = int(after[first - 1])


def recall(view: View, desk: Desk) -> dict[int, Memo]:
    c, j, _ = view.columns()
    t, f, one = desk.ints, desk.floats, desk.ints[SCALARS]
    upto = int(one[X_JOB])
    trial, split, queued = (np.zeros(upto) for _ in range(3))
    trial[t[A_TRIAL, : one[X_TRIALS]]] = np.arange(one[X_TRIALS])
    for at, i in enumerate(_chain(int(one[X_SPLIT]), t[A_SPLIT_NEXT])):
        split[i] = -at  # the newest stands first
    for k in t[W_LIST, : one[X_QUEUED]].tolist():
        for at, i in enumerate(_chain(int(t[W_HEAD, k]), t[A_NEXT])):
            queued[i] = at
    news = float(any(kind not in OWN_DOING for kind, _ in view.happened(int(one[X_ROW]))))
    numbers = {
        "number": np.arange(upto),
        "asked_s": np.full(upto, f[0, Y_NOW]),
        "news": np.full(upto, news),
        "state": t[A_STATE, :upto],
        "gpus": t[A_GPUS, :upto],
        "served": f[F_SERVED, :upto],
        "since_s": f[F_SINCE, :upto],
        "solo": f[F_SOLO, :upto],
        "use": f[F_USE, :upto],
        "tries": t[A_TRIES, :upto],
        "bad": t[A_BAD, :upto],
        "grown": t[A_GROWN, :upto],
        "before": t[A_BEFORE, :upto],
        "rate_before": f[F_BEFORE, :upto],
        "mate": t[A_MATE, :upto],
        "follows": t[A_FOLLOWS, :upto],
        "pair": t[A_PAIR, :upto],
        "trial": trial,
        "split": split,
        "queued": queued,
    }
    there = np.flatnonzero(np.isin(j.ints[K_STATE, :upto], (WAITING, RUNNING, WITHDRAWN)))
    rows = np.column_stack([numbers[one.name] for one in fields(Note) if one.name in numbers])[there].tolist()
    parts = _parts(desk, c.node.shape[1])
    return {i: tuple(row + parts.get(i, [])) for i, row in zip(there.tolist(), rows, strict=True)}


def _parts(desk: Desk, nodes: int) -> dict[int, list[float]]:
    """Per hosted job, the numbers of its parts."""
    t, f = desk.ints, desk.floats
    found: dict[int, dict[int, list[float]]] = {}
    after, job, count = (t[column].tolist() for column in (E_NEXT, E_JOB, E_COUNT))
    for n in range(nodes):
        there = list(_chain(int(t[V_HEAD, n]), after))
        node = [float(t[V_AFFINITY, n]), float(f[F_CHANGED, n]), float(t[V_IS_DUE, n])]
        for at, e in enumerate(there):
            age = float(len(there) - at)  # the newest stands first
            found.setdefault(job[e], {})[n] = [float(n), float(count[e]), age, *node]
    return {i: [number for n in sorted(parts) for number in parts[n]] for i, parts in found.items()}


# -- taking over -------------------------------------------------------------------------------------------------------------


def take_over(view: View, numbers: dict[str, float], memos: Mapping[int, Memo]) -> Desk:
    desk = blank(view, numbers)
    _Takeover(view, desk, {i: _note(memo) for i, memo in memos.items()}).run()
    return shelve(desk, view)


class _Takeover:
    """Fills blank tables, one kind of thing after the other."""

    def __init__(self, view: View, desk: Desk, notes: Mapping[int, Note]) -> None:
        self.view, self.notes = view, notes
        self.c, self.j, self.q = view.columns()
        self.t, self.f, self.one = desk.ints, desk.floats, desk.ints[SCALARS]
        self.seen = int(self.q.counter[G_NEXT])  #: jobs that have arrived
        self.status = self.j.ints[K_STATE, : self.seen]
        self.number = {int(note.number): i for i, note in notes.items()}
        #: who is hosted: on which nodes, by how many GPUs
        self.home: dict[int, dict[int, int]] = {}

    def run(self) -> None:
        self._meet()
        self._find_homes()
        self._pair_up()
        self._host()
        self._count_nodes()
        self._queue()
        self._set_clock()

    def _meet(self) -> None:
        """What each job asks for, and what was noted of it wherever it is."""
        t, f, c, q, ints, upto = self.t, self.f, self.c, self.q, self.j.ints, self.seen
        own = ints[K_OWN if q.counter[R_RESHAPES] else K_CLASS, :upto]
        shape = q.classes[C_SHAPE, own]
        t[A_CLASS, :upto], t[A_TENANT, :upto] = own, q.classes[C_TENANT, own]
        for column, row in ((A_ASK, S_GPUS), (A_GPUS, S_GPUS), (A_MILLI, S_MILLI), (A_TYPE, S_TYPE)):
            t[column, :upto] = c.shape[row, shape]
        t[A_CPU, :upto], t[A_MEM, :upto] = c.shape[S_CPU, shape], c.shape[S_MEM, shape]
        t[A_PRIORITY, :upto] = ints[K_PRIORITY, :upto]
        bound, stays = c.shape[S_BOUND, shape] != 0, q.classes[C_FIXED, own] != 0
        t[A_FIXED, :upto] = stays
        t[A_SPLIT, :upto] = np.where(bound, c.shape[S_SPLIT, shape], 0)
        t[A_WITHIN, :upto] = np.where(bound, c.shape[S_WITHIN, shape], -1)
        if self.one[X_GROWS]:
            t[A_LEAST, :upto], t[A_MOST, :upto] = (np.where(stays, 0, ints[k, :upto]) for k in (K_LEAST, K_MOST))
        f[F_WEIGHT, :upto] = q.tenants[T_WEIGHT, t[A_TENANT, :upto]]
        for i, note in self.notes.items():
            t[[A_TRIES, A_GROWN, A_BEFORE], i] = int(note.tries), int(note.grown), int(note.before)
            t[A_BAD, i] = self._link(note.bad)
            f[[F_SERVED, F_SOLO, F_USE, F_BEFORE], i] = note.served, note.solo, note.use, note.rate_before

    def _link(self, noted: float) -> int:
        """A link to the job that had this number in the core before, 0 if it is gone."""
        return self.number.get(int(noted) - 1, -1) + 1

    def _find_homes(self) -> None:
        t, f, floats = self.t, self.f, self.j.floats
        for one in self.view.running():
            i, note = one.job, self.notes.get(one.job)
            t[A_STATE, i] = RUNS
            begun = float(floats[J_FIRST if self.j.ints[K_STARTS, i] == 1 else J_BEGUN, i])
            f[F_START, i], f[F_SINCE, i] = begun, self.view.now if note is None else note.since_s
            if t[A_ASK, i] == 0:
                self.t[E_NODE, i] = -1 - one.gpu_ids[0]
                continue
            t[A_GPUS, i] = len(one.gpu_ids)
            self.home[i] = dict(sorted(Counter(self.c.gpu[U_NODE, list(one.gpu_ids)].tolist()).items()))
            for gpu in one.gpu_ids:
                t[A_BESIDE, i], t[O_FIRST, gpu] = t[O_FIRST, gpu], i + 1
        for i, note in self.notes.items():
            if note.state == READY and self.status[i] == WAITING and self._still_there(i, note):
                t[A_STATE, i], t[A_GPUS, i] = READY, int(note.gpus)
                self.home[i] = {int(one.node): int(one.count) for one in note.parts}

    def _still_there(self, i: int, note: Note) -> bool:
        """Whether a home that was noted is one in this cluster."""
        t, nodes = self.t, self.c.node.shape[1]
        return bool(note.parts) and all(
            one.node < nodes and one.count <= t[V_CAP, int(one.node)] and t[A_TYPE, i] in (-1, t[V_TYPE, int(one.node)])
            for one in note.parts
        )

    def _pair_up(self) -> None:
        """Two who hold half of the same GPU are a pair, and so are two who were noted as one and wait together."""
        t = self.t
        halves: dict[int, list[int]] = {}
        for one in self.view.running():
            if one.gpus > 0 and one.held_milli < one.share_milli == WHOLE:
                halves.setdefault(one.gpu_ids[0], []).append(one.job)
        pairs = [(min(both), max(both)) for both in halves.values() if len(both) == 2]
        for i in sorted(self.home):
            mate = self._link(self.notes[i].mate) - 1 if i in self.notes else -1
            wait = t[A_STATE, i] == READY and i < mate and t[A_STATE, mate] == READY
            if wait and self.home[i].keys() == self.home[mate].keys():
                pairs.append((i, mate))
        tried = []
        for leader, other in pairs:
            t[A_MATE, leader], t[A_MATE, other], t[A_FOLLOWS, other] = other + 1, leader + 1, 1
            note = self.notes.get(leader)
            known = note is not None and note.pair != 0 and self._link(note.mate) == other + 1
            t[A_PAIR, leader] = int(note.pair) if note is not None and known else TRIAL
            if t[A_PAIR, leader] == KEPT:
                self.home[other] = dict.fromkeys(self.home[other], 0)
            else:
                tried.append((note.trial if note is not None and known else math.inf, leader))
            if not known:
                self.f[F_SOLO, [leader, other]] = UNBEATABLE
            t[V_PAIRS, next(iter(self.home[leader]))] += 1
        for at, (_, leader) in enumerate(sorted(tried)):
            t[A_TRIAL, at], t[A_TRIAL_AT, leader] = leader, at
        self.one[X_TRIALS] = len(tried)
        for i, home in self.home.items():
            if t[A_MATE, i] == 0 and list(home.values()) == [0]:
                self.home[i] = dict.fromkeys(home, 1)  # it followed one that is gone

    def _host(self) -> None:
        """Parts onto the lists of their nodes, the oldest first, so that the newest stand first."""
        t, order = self.t, []
        for i, home in self.home.items():
            noted = {int(one.node): one for one in self.notes[i].parts} if i in self.notes else {}
            t[A_PARTS, i] = len(home)
            e = i
            for at, (n, count) in enumerate(home.items()):
                if at > 0:
                    more = int(self.one[X_SPARE])
                    self.one[X_SPARE] = t[E_NEXT, more - 1]
                    t[E_MORE, e], e = more, more - 1
                t[E_JOB, e], t[E_NODE, e], t[E_COUNT, e], t[E_MORE, e] = i, n, count, 0
                if n in noted:
                    t[[V_AFFINITY, V_IS_DUE], n] = int(noted[n].affinity), int(noted[n].due)
                    self.f[F_CHANGED, n] = noted[n].changed_s
                age = noted[n].age if n in noted else math.inf
                order.append((n, age, float(self.f[F_START, i]), i, e))
            self.t[H_HOSTED, t[A_TENANT, i]] += t[A_GPUS, i] * t[A_MILLI, i]
        for n, age, start, i, e in sorted(order):
            t[E_NEXT, e], t[E_PREV, e] = t[V_HEAD, n], 0
            if t[V_HEAD, n] != 0:
                t[E_PREV, t[V_HEAD, n] - 1] = e + 1
            elif t[V_AFFINITY, n] == 0:
                t[V_AFFINITY, n] = affinity(int(t[A_ASK, i]))
            t[V_HEAD, n] = e + 1
            if age == math.inf:
                self.f[F_CHANGED, n] = max(float(self.f[F_CHANGED, n]), start)
        self._list_split()

    def _list_split(self) -> None:
        t = self.t
        split = [i for i in self.home if t[A_PARTS, i] > 1]
        for i in sorted(split, key=lambda i: (self.notes[i].split if i in self.notes else 1.0, i)):
            t[A_SPLIT_NEXT, i] = self.one[X_SPLIT]
            if self.one[X_SPLIT] != 0:
                t[A_SPLIT_PREV, self.one[X_SPLIT] - 1] = i + 1
            self.one[X_SPLIT] = i + 1

    def _count_nodes(self) -> None:
        """What each node hosts, in sums."""
        t, c, nodes = self.t, self.c, self.c.node.shape[1]
        for i, home in self.home.items():
            for n, count in home.items():
                t[V_PARTS, n] += 1
                t[V_LOAD, n] += count
                t[V_READY, n] += t[A_STATE, i] == READY
                t[V_SPANS, n] += len(home) > 1
                if self.one[X_DEMANDS]:
                    t[V_CPU_LOAD, n] += part_from_python(t[A_CPU, i], max(count, 1), t[A_ASK, i])
                    t[V_MEM_LOAD, n] += part_from_python(t[A_MEM, i], max(count, 1), t[A_ASK, i])
            if len(home) == 1 and t[A_MOST, i] > 0:
                n = next(iter(home))
                slack = t[A_GPUS, i] - t[A_LEAST, i]
                t[V_SLACK, n] += slack
                self.one[X_SLACK] += slack
                t[V_GROWERS, n] += t[A_GROWN, i] == WATCHED or (
                    t[A_GPUS, i] < t[A_MOST, i] and t[A_GROWN, i] != STUBBORN
                )
        self.one[X_LOAD] = t[V_LOAD, :nodes].sum()
        taken = np.bincount(c.gpu[U_NODE], t[O_FIRST, : c.gpu.shape[1]] != 0, minlength=nodes)
        t[V_FREE, :nodes] -= taken.astype(np.int64)
        t[V_IS_DUE, :nodes] |= t[V_READY, :nodes] > 0

    def _queue(self) -> None:
        """Those who were queued are again, in their order; who has no home otherwise must find one."""
        t, waiting = self.t, [i for i in np.flatnonzero(self.status == WAITING).tolist() if i not in self.home]
        was = {i: note for i, note in self.notes.items() if note.state == QUEUED}
        for i in sorted((i for i in waiting if i in was), key=lambda i: (int(t[A_CLASS, i]), was[i].queued, i)):
            k = int(t[A_CLASS, i])
            t[A_STATE, i] = QUEUED
            if t[W_HEAD, k] == 0:
                t[W_HEAD, k], t[W_LIST, self.one[X_QUEUED]] = i + 1, k
                self.one[X_QUEUED] += 1
            else:
                t[A_NEXT, t[W_TAIL, k] - 1] = i + 1
            t[W_TAIL, k] = i + 1
        lost = [i for i in waiting if i not in was]
        t[A_LOST, : len(lost)], self.one[X_LOST] = lost, len(lost)

    def _set_clock(self) -> None:
        """The tick that comes after the planner was last asked, and whether there is news that nobody has told it."""
        t, f, one = self.t, self.f, self.one
        one[X_JOB], one[X_ROW] = self.seen, self.q.counter[G_ROWS]
        asked = max((note.asked_s for note in self.notes.values()), default=self.view.now)
        f[0, Y_NOW] = asked
        nodes = self.c.node.shape[1]
        if t[V_IS_DUE, :nodes].any() or t[V_GROWERS, :nodes].any() or one[X_TRIALS] > 0:
            turn = math.floor(asked / f[0, Y_QUANTUM]) + 1.0
            while turn * f[0, Y_QUANTUM] <= asked:
                turn += 1.0
            f[0, Y_TICK] = turn * f[0, Y_QUANTUM]
        if any(note.news for note in self.notes.values()):
            one[X_FREED], one[X_TOUCHED] = 1, nodes
            t[V_TOUCHED, :nodes], t[V_LIST, :nodes] = 1, np.arange(nodes)
