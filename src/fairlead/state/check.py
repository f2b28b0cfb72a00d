"""What must hold of a state between two instants, checked the slow way: everything that is counted is counted again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from fairlead.kernels.columns import (
    C_ACTIVE,
    C_LIST,
    C_ROOT,
    C_SHAPE,
    C_TENANT,
    DONE,
    F_ROW,
    G_ACTIVE,
    G_COUNT,
    G_COUNTED,
    G_DONE,
    G_EVENTS,
    G_FRONT,
    G_FRONT_END,
    G_FRONTS,
    G_LANES,
    G_LISTED,
    G_LIVE,
    G_NEXT,
    G_RUNNING,
    G_STALE,
    G_WAITING,
    J_DUE,
    J_KEY,
    K_CHILD,
    K_CLASS,
    K_LEVEL,
    K_NEXT,
    K_OWN,
    K_ROW,
    K_RUNLIST,
    K_RUNPOS,
    K_STAMP,
    K_STATE,
    L_FINGER,
    LIMITS,
    N_CAP,
    N_COUNTED,
    N_CPU,
    N_FREE,
    N_GPU0,
    N_MEM,
    N_POOL,
    N_SLOT,
    N_TYPE,
    N_UP,
    N_WORD0,
    P_BITS,
    P_COUNT,
    P_FREE,
    P_NODES,
    P_STRIDE,
    PENDING,
    Q_FRONT_AT,
    Q_RANKS_AT,
    R_DEMANDS,
    R_GROUPED,
    R_INDEXED,
    R_LARGEST,
    R_LISTED,
    R_LIVE,
    R_OWNERS,
    R_PREEMPTS,
    R_QUOTAS,
    R_RESHAPES,
    R_SHARES,
    RUNNING,
    S_CPU,
    S_GPUS,
    S_MEM,
    S_MILLI,
    S_SPLIT,
    S_TYPE,
    S_WITHIN,
    T_CPU,
    T_HELD,
    T_MEM,
    T_QUOTA,
    U_FREE,
    U_NODE,
    U_ROW,
    UNLIMITED,
    WAITING,
    WHOLE,
    WITHDRAWN,
    X_ALLOC,
    X_FRONT,
    X_GPUS,
    X_JOB,
    X_LANE,
    X_LEVEL,
    X_ORDER,
)
from fairlead.kernels.counts import ANEW
from fairlead.kernels.events import END
from fairlead.kernels.guards import FIRST, KNOWN, NOTED, SEATED, SIZES, STALE
from fairlead.kernels.lanes import next_in_lane_from_python, worst_of_from_python
from fairlead.state.state import State


class BrokenState(Exception):
    """Something that must hold does not: a mistake in the core. The message says what, all of it."""


def check(state: State) -> None:
    """Raise BrokenState with everything that is wrong. Meant for tests and for doubt: it looks at every job and GPU."""
    wrong = [
        *_gpus(state),
        *_nodes(state),
        *_pools(state),
        *_waiting(state),
        *_running(state),
        *_tenants(state),
        *_events(state),
        *_counters(state),
    ]
    if wrong:
        raise BrokenState("; ".join(wrong))


def _jobs_in(state: State, status: int) -> list[int]:
    jobs: list[int] = np.flatnonzero(state.jobs.ints[K_STATE] == status).tolist()
    return jobs


def _shape_of(state: State, job: int) -> int:
    return int(state.queue.classes[C_SHAPE, state.jobs.ints[K_CLASS, job]])


def _free_bit(state: State, gpu: int) -> bool:
    c = state.cluster
    node = int(c.gpu[U_NODE, gpu])
    local = gpu - int(c.node[N_GPU0, node])
    return bool(int(c.cells[int(c.node[N_WORD0, node]) + (local >> 5)]) >> (local & 31) & 1)


def _gpus(state: State) -> Iterator[str]:
    """No GPU is held by more than there is of it, and what is not held is free."""
    c = state.cluster
    held: Counter[int] = Counter()
    owner: dict[int, int] = {}
    for job in _jobs_in(state, RUNNING):
        s = _shape_of(state, job)
        if c.shape[S_GPUS, s] == 0:
            continue
        ids = state.gpus_of(job)
        if len(set(ids)) != c.shape[S_GPUS, s]:
            yield f"job {job} holds {ids}, and should hold {c.shape[S_GPUS, s]} GPUs"
        for gpu in ids:
            held[gpu] += int(c.shape[S_MILLI, s])
            owner[gpu] = job
    for gpu in range(c.gpu.shape[1]):
        free = WHOLE - held[gpu]
        if free < 0:
            yield f"GPU {gpu} is held by more than one: {held[gpu]} of {WHOLE} milli-GPUs"
        if _free_bit(state, gpu) != (free == WHOLE):
            yield f"GPU {gpu} has {free} milli-GPUs free, its bit says {_free_bit(state, gpu)}"
        if state.counter[R_SHARES] and c.gpu[U_FREE, gpu] != free:
            yield f"GPU {gpu} has {free} milli-GPUs free, its column says {c.gpu[U_FREE, gpu]}"
        if state.counter[R_OWNERS] and state.counter[R_PREEMPTS] and not state.counter[R_INDEXED]:
            row = int(state.jobs.ints[K_ROW, owner[gpu]]) if gpu in owner else -1
            if c.gpu[U_ROW, gpu] != row:
                yield f"GPU {gpu} is held by row {row}, its column says {c.gpu[U_ROW, gpu]}"


def _places(state: State, job: int) -> Counter[int]:
    """How many GPUs a running job holds on each of its nodes; a CPU job holds 0 on one."""
    places: Counter[int] = Counter()
    for gpu in state.gpus_of(job):
        if gpu < 0:
            places[-1 - gpu] = 0
        else:
            places[int(state.cluster.gpu[U_NODE, gpu])] += 1
    return places


def _nodes(state: State) -> Iterator[str]:
    """Jobs run on nodes that are up and of their type; free GPUs, CPU and memory are what the jobs leave."""
    c = state.cluster
    cpu = np.array([UNLIMITED if n.cpu_milli is None else n.cpu_milli for n in state.spec.nodes])
    memory = np.array([UNLIMITED if n.memory_mib is None else n.memory_mib for n in state.spec.nodes])
    for job in _jobs_in(state, RUNNING):
        s = _shape_of(state, job)
        gpus, kind = int(c.shape[S_GPUS, s]), int(c.shape[S_TYPE, s])
        yield from _bounds(state, job, s)
        for node, count in _places(state, job).items():
            if not c.node[N_UP, node] and not state.counter[R_LIVE]:  # live, who runs on a closed node runs on
                yield f"job {job} runs on node {node}, which is down"
            if kind >= 0 and c.node[N_TYPE, node] != kind:
                yield f"job {job} needs GPU type {kind} and runs on node {node} of type {c.node[N_TYPE, node]}"
            cpu[node] -= _part(int(c.shape[S_CPU, s]), count, gpus)
            memory[node] -= _part(int(c.shape[S_MEM, s]), count, gpus)
    for node in range(c.node.shape[1]):
        first, cap = int(c.node[N_GPU0, node]), int(c.node[N_CAP, node])
        free = sum(_free_bit(state, gpu) for gpu in range(first, first + cap))
        if c.node[N_FREE, node] != free:
            yield f"node {node} has {free} free GPUs, its column says {c.node[N_FREE, node]}"
        if not state.counter[R_DEMANDS]:
            continue
        for what, left, column in (("milli-CPUs", cpu[node], N_CPU), ("MiB", memory[node], N_MEM)):
            if left < 0 or c.node[column, node] != left:
                yield f"node {node} should have {left} {what} free, its column says {c.node[column, node]}"


def _bounds(state: State, job: int, s: int) -> Iterator[str]:
    """A running job is on as many nodes, and as close together, as it says it must be."""
    split, out, held = int(state.cluster.shape[S_SPLIT, s]), int(state.cluster.shape[S_WITHIN, s]), _places(state, job)
    if split and (len(held) != split or len(set(held.values())) > 1):
        yield f"job {job} needs {split} nodes with an equal part on each, it holds {dict(held)}"
    paths = {(*state.spec.nodes[node].path, node) for node in held}
    if out >= 0 and len({path[: len(path) - out] for path in paths}) > 1:
        yield f"job {job} must be inside one domain {out} levels out, it is on nodes {sorted(held)}"


def _part(demand: int, gpus: int, of: int) -> int:
    return demand if of == 0 else -(-demand * gpus // of)


def _pools(state: State) -> Iterator[str]:
    """A node that is up is in the set of its free count and in no other; the counts and sums are those of the sets."""
    c = state.cluster
    for p in range(c.pool.shape[1]):
        nodes = np.flatnonzero(c.node[N_POOL] == p)
        up = nodes[c.node[N_UP, nodes] != 0]
        if c.pool[P_FREE, p] != c.node[N_FREE, up].sum():
            yield f"pool {p} has {c.node[N_FREE, up].sum()} free GPUs, its column says {c.pool[P_FREE, p]}"
        size, stride = int(c.pool[P_NODES, p]), int(c.pool[P_STRIDE, p])
        for level in range(int(c.node[N_CAP, nodes[0]]) + 1):
            want = set(c.node[N_SLOT, up[c.node[N_FREE, up] == level]].tolist())
            at = int(c.pool[P_BITS, p]) + level * stride
            if _members(c.cells[at : at + stride].tolist(), size) != want:
                yield f"pool {p} level {level}: the set is not {sorted(want)}, or its summary is wrong"
            count = int(c.cells[int(c.pool[P_COUNT, p]) + level])
            if count != len(want):
                yield f"pool {p} has {len(want)} nodes with {level} free GPUs, its count says {count}"


def _members(words: list[int], size: int) -> set[int] | None:
    """The members of a set of bits.py; None where a summary word does not tell the truth about the words below."""
    members = {32 * w + bit for w in range((size + 31) >> 5) for bit in range(32) if words[w] >> bit & 1}
    below, at = members, 0
    while size > 32:
        words_below = (size + 31) >> 5
        at, size = at + words_below, words_below
        above = {32 * w + bit for w in range((size + 31) >> 5) for bit in range(32) if words[at + w] >> bit & 1}
        if above != {i >> 5 for i in below}:
            return None
        below = above
    return members


def _heap(state: State, root: int) -> Iterator[tuple[int, int]]:
    """(parent, job) for each job of a pairing heap; the root's parent is -1."""
    ints = state.jobs.ints
    to_visit = [(-1, root)] if root >= 0 else []
    while to_visit:
        parent, job = to_visit.pop()
        yield parent, job
        kid = int(ints[K_CHILD, job])
        while kid > 0:
            to_visit.append((job, kid - 1))
            kid = int(ints[K_NEXT, kid - 1])


def _waiting(state: State) -> Iterator[str]:
    """A waiting job is in its class's heap, where no job stands above a better one; its class is listed once."""
    j, classes = state.jobs, state.queue.classes
    of_class: dict[int, set[int]] = {}
    for job in _jobs_in(state, WAITING):
        of_class.setdefault(int(j.ints[K_CLASS, job]), set()).add(job)
    listed = classes[C_LIST, : state.counter[G_ACTIVE]].tolist()
    if sorted(listed) != sorted(of_class):
        yield f"classes {sorted(of_class)} have waiting jobs, the list says {sorted(listed)}"
    for k in range(state.classes):
        found = list(_heap(state, int(classes[C_ROOT, k])))
        if sorted(job for _, job in found) != sorted(of_class.get(k, ())):
            yield f"jobs {sorted(of_class.get(k, ()))} of class {k} wait, its heap has {sorted(job for _, job in found)}"
        for parent, job in found:
            if parent >= 0 and _rank(state, job) < _rank(state, parent):
                yield f"job {job} ranks before job {parent} and stands below it in class {k}"
        at = int(classes[C_ACTIVE, k])
        if (at >= 0) != (k in of_class) or (at >= 0 and classes[C_LIST, at] != k):
            yield f"class {k} is not where it says in the list of classes with waiting jobs"


def _rank(state: State, job: int) -> tuple[int, float, int]:
    return int(state.jobs.ints[K_LEVEL, job]), float(state.jobs.floats[J_KEY, job]), job


def _running(state: State) -> Iterator[str]:
    """A running job is in one lane, where no job stands above a worse one, and in the list where one is kept."""
    j, running = state.jobs, _jobs_in(state, RUNNING)
    if state.counter[R_LISTED]:
        listed = j.ints[K_RUNLIST, : state.counter[G_LISTED]].tolist()
        if sorted(listed) != running:
            yield f"jobs {running} run, the list says {sorted(listed)}"
        elif any(listed[int(j.ints[K_RUNPOS, job])] != job for job in running):
            yield "a running job is not where it says in the list"
    if not state.counter[R_PREEMPTS]:
        return
    if state.counter[R_INDEXED]:
        yield from _index(state, running)
        return
    in_lanes: list[int] = []
    for lane in range(int(state.counter[G_LANES])):
        before, row = -1, worst_of_from_python(state.queue, lane)
        while row >= 0:
            job = int(state.queue.run_ints[row, X_JOB])
            in_lanes.append(job)
            if int(j.ints[K_ROW, job]) != row:
                yield f"running job {job} is in row {row} and says {int(j.ints[K_ROW, job])}"
            if before >= 0 and _order(state, row) > _order(state, before):
                yield f"running job {job} ranks behind the one before it in lane {lane}"
            before, row = row, next_in_lane_from_python(state.queue, row)
    if sorted(in_lanes) != running:
        yield f"jobs {running} run, the lanes have {sorted(in_lanes)}"
    yield from _front(state)


def _front(state: State) -> Iterator[str]:
    """Where it is of the ranks that count: it has the worst of the running jobs in order, and the lanes go on behind it."""
    q = state.queue
    if state.counter[G_FRONTS] == 0 or q.limit[Q_FRONT_AT] != q.limit[Q_RANKS_AT]:
        return
    rows = []
    for lane in range(int(state.counter[G_LANES])):
        row = worst_of_from_python(q, lane)
        while row >= 0:
            key = float(q.run_floats[row, X_ORDER] + q.limit[LIMITS + lane] * q.limit[Q_RANKS_AT])
            rows.append((int(q.run_ints[row, X_LEVEL]), key, int(q.run_ints[row, X_JOB]), row))
            row = next_in_lane_from_python(q, row)
    listed = q.front_ints[state.counter[G_FRONT] : state.counter[G_FRONT_END], F_ROW].tolist()
    worst = [row for *_, row in sorted(rows, reverse=True)]
    if worst[: len(listed)] != listed:
        yield f"the rows with the worst ranks are {worst[: len(listed)]}, the front has {listed}"
    if any(int(q.run_ints[row, X_FRONT]) == state.counter[G_FRONTS] for row in worst[len(listed) :]):
        yield "a row that is not in the front says that it is"
    for lane in range(int(state.counter[G_LANES])):
        behind = [row for row in worst[len(listed) :] if int(q.run_ints[row, X_LANE]) == lane]
        if int(q.classes[L_FINGER, lane]) != (behind[0] if behind else -1):
            yield f"behind the front lane {lane} goes on with row {behind[:1]}, and its finger is on {int(q.classes[L_FINGER, lane])}"
    yield from _counts(state, listed)


def _counts(state: State, listed: list[int]) -> Iterator[str]:
    """Those of the front who are counted are counted on their nodes, and without them no node has room for the largest job."""
    c, q, ids = state.cluster, state.queue, state.log.gpu_ids
    counted = int(state.counter[G_COUNTED] - state.counter[G_FRONT])
    if not 0 <= counted <= len(listed):
        if state.counter[G_COUNTED] != ANEW:
            yield f"{counted} of {len(listed)} rows of the front are counted"
        return
    held = np.zeros(c.node.shape[1], np.int64)
    for row in listed[:counted]:
        at = int(q.run_ints[row, X_ALLOC])
        np.add.at(held, c.gpu[U_NODE, ids[at : at + int(q.run_ints[row, X_GPUS])]], 1)
    said = np.maximum(c.node[N_COUNTED] - state.counter[G_COUNT], 0)
    if (said != held).any():
        yield f"of the rows that are counted, nodes hold {held.tolist()} GPUs, and {said.tolist()} are counted"
    roomy = np.flatnonzero((held > 0) & (c.node[N_UP] != 0) & (c.node[N_FREE] + held >= state.counter[R_LARGEST]))
    if len(roomy):
        yield f"nodes {roomy.tolist()} have room for the largest job without those who are counted"


def _index(state: State, running: list[int]) -> Iterator[str]:
    """A node has the rows of its running jobs, worst rank first; one that nothing has changed on since it was looked at has the
    guards that these give it, and no guard is worse than the one that its tournament says is worst."""
    c, q = state.cluster, state.queue
    nodes, needs = c.node.shape[1], q.guard.shape[1]
    held: dict[int, Counter[int]] = defaultdict(Counter)
    for job in running:
        for gpu in state.gpus_of(job):
            held[int(c.gpu[U_NODE, gpu])][int(state.jobs.ints[K_ROW, job])] += 1
    sizes = q.guard[nodes + SIZES].tolist()
    for n in range(nodes):
        rows = sorted(held[n].items(), key=lambda item: _order(state, item[0]), reverse=True)
        seated = q.seats[n, FIRST : FIRST + 2 * int(q.seats[n, SEATED])].reshape(-1, 2)
        if [tuple(pair) for pair in seated.tolist()] != rows:
            yield f"on node {n} are the rows {rows}, and it has {seated.tolist()}"
        if q.touched[NOTED, n] == STALE:
            continue
        room, guards = int(c.node[N_FREE, n]), [0] * needs
        for row, gpus in rows:
            room += gpus
            guards = [g or (row + 1 if need <= room and c.node[N_UP, n] else 0) for g, need in zip(guards, sizes)]
        if guards != q.guard[n].tolist():
            yield f"node {n} has the guards {q.guard[n].tolist()}, and should have {guards}"
    if (q.touched[NOTED, :nodes] == STALE).any():
        return
    for d in range(needs):
        rows_of = [int(g) - 1 for g in q.guard[:nodes, d] if g]
        worst = max(rows_of, key=lambda row: _order(state, row), default=-1)
        said = int(q.guard[nodes + KNOWN, d]) - 1
        if said >= 0 and int(q.guard[said, d]) - 1 != worst:
            yield f"row {worst} is the worst guard of need {d}, and node {said} is said to have it"
    below = q.worst[2:].reshape(-1, 2, needs).max(1)
    if (q.worst[1 : len(q.worst) // 2] != below).any():
        yield "in the tournament of guards a vertex is not the worse of the two below it"


def _order(state: State, row: int) -> tuple[int, float, int]:
    q = state.queue
    return int(q.run_ints[row, X_LEVEL]), float(q.run_floats[row, X_ORDER]), int(q.run_ints[row, X_JOB])


def _tenants(state: State) -> Iterator[str]:
    """A tenant holds what its running jobs hold, and never more than its quota."""
    if not (state.counter[R_QUOTAS] or state.counter[R_GROUPED]):
        return
    c, tenants = state.cluster, state.queue.tenants
    held = np.zeros((3, tenants.shape[1]))
    for job in _jobs_in(state, RUNNING):
        s = _shape_of(state, job)
        t = int(state.queue.classes[C_TENANT, state.jobs.ints[K_CLASS, job]])
        held[:, t] += (c.shape[S_GPUS, s] * c.shape[S_MILLI, s], c.shape[S_CPU, s], c.shape[S_MEM, s])
    for t in range(tenants.shape[1]):
        for row, (column, unit) in enumerate(((T_HELD, "milli-GPUs"), (T_CPU, "milli-CPUs"), (T_MEM, "MiB"))):
            if tenants[column, t] != held[row, t]:
                yield f"tenant {t} holds {held[row, t]:g} {unit}, its column says {tenants[column, t]:g}"
        if 0 <= tenants[T_QUOTA, t] < held[0, t]:
            yield f"tenant {t} holds {held[0, t]:g} milli-GPUs of a quota of {tenants[T_QUOTA, t]:g}"


def _events(state: State) -> Iterator[str]:
    """Each running job has one end that is due, nothing that is due lies in the past of what is before it."""
    q, size = state.queue, int(state.counter[G_EVENTS])
    entries = list(zip(q.event_time[:size].tolist(), q.event_code[:size].tolist()))
    for i in range(1, size):
        if entries[i] < entries[(i - 1) >> 2]:
            yield f"event {i} comes before event {(i - 1) >> 2}, which stands above it"
    due: Counter[int] = Counter()
    for time_s, code in entries:
        kind, job, stamp = code >> 56, (code >> 20) & 0xFFFFFFFFF, code & 0xFFFFF
        if kind != END or (int(state.jobs.ints[K_STAMP, job]) & 0xFFFFF) != stamp:
            continue
        due[job] += 1
        if not state.counter[R_LIVE] and time_s != state.jobs.floats[J_DUE, job]:
            yield f"the end of job {job} is due at {state.jobs.floats[J_DUE, job]}, its event is at {time_s}"
    running = _jobs_in(state, RUNNING)
    if not state.counter[R_LIVE] and sorted(due.elements()) != running:
        yield f"jobs {running} run, ends are due for {sorted(due.elements())}"
    if not 0 <= state.counter[G_STALE] <= size:
        yield f"{state.counter[G_STALE]} of {size} events are said not to hold any more"


def _counters(state: State) -> Iterator[str]:
    """The totals are those of the state column, jobs arrive in order, and who does not run is of its own class."""
    states = state.jobs.ints[K_STATE]
    if state.counter[R_RESHAPES]:
        strange = (state.jobs.ints[K_CLASS] != state.jobs.ints[K_OWN]) & (states != RUNNING)
        for job in np.flatnonzero(strange).tolist():
            yield f"job {job} does not run, and is of class {state.jobs.ints[K_CLASS, job]}, not its own"
    known = np.isfinite(state.jobs.submit)  # live, there is room for more jobs
    count = np.bincount(states[known], minlength=7)
    for name, column, want in (
        ("wait", G_WAITING, count[WAITING]),
        ("run", G_RUNNING, count[RUNNING]),
        ("are done", G_DONE, count[DONE]),
        ("wait, run or are to come", G_LIVE, count[[PENDING, WAITING, RUNNING, WITHDRAWN]].sum()),
    ):
        if state.counter[column] != want:
            yield f"{want} jobs {name}, the counter says {state.counter[column]}"
    arrived = int(state.counter[G_NEXT])
    if (states[:arrived] == PENDING).any() or (states[arrived:] != PENDING).any():
        yield f"{arrived} jobs have arrived, but the states say otherwise"
