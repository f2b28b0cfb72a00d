"""The one mutable state of a run: a cluster, its jobs, who waits and runs, and the log of what happened."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairlead.kernels.columns import (
    C_ACTIVE,
    C_FIXED,
    C_HALF,
    C_LEAST,
    C_MOST,
    C_OTHER,
    C_ROOT,
    C_SHAPE,
    C_TENANT,
    CLASS_COLUMNS,
    F8,
    FRONT_INTS,
    G_IDS,
    G_LIVE,
    G_ROWS,
    J_ESTIMATE,
    J_GIB,
    JOB_FLOATS,
    JOB_INTS,
    K_ALLOC,
    K_CLASS,
    K_LEAST,
    K_LEVEL,
    K_MOST,
    K_OWN,
    K_PRIORITY,
    K_PROFILE,
    K_STATE,
    LIMITS,
    N_ROOM,
    NEVER,
    P_CAP,
    Q_CHECKPOINT,
    Q_FAILURES,
    Q_HALF_LIFE,
    Q_LEARN,
    Q_MTBF,
    Q_MTTR,
    Q_NOISE,
    Q_QUANTUM,
    Q_RESUME_COST,
    Q_RESUME_PER_GIB,
    Q_START_COST,
    Q_TOTALS,
    R_BORROWS,
    R_CHANGES,
    R_DEMANDS,
    R_DRIFTS,
    R_EASY,
    R_ESTIMATES,
    R_FIXED,
    R_FORECASTS,
    R_GATED,
    R_GROUPED,
    R_INDEXED,
    R_LARGEST,
    R_LEVELS,
    R_LISTED,
    R_NODES_FAIL,
    R_OWNERS,
    R_PACKED,
    R_PLANNED,
    R_PREEMPTS,
    R_QUEUES,
    R_QUOTAS,
    R_RATES,
    R_REACH,
    R_RESHAPES,
    R_RETRIES,
    R_RISES,
    R_SCALES,
    R_SEAT_COUNT,
    R_SEATS,
    R_SEED,
    R_SHARES,
    R_SIMPLE,
    R_SPANS,
    R_STRICT,
    R_TIMERS,
    R_USE,
    RULES,
    RUN_FLOATS,
    RUN_INTS,
    RUNNING,
    S_GPUS,
    S_MATTERS,
    S_NEED,
    S_NODES,
    S_PLAIN,
    S_TYPE,
    T_GUARANTEE,
    T_HEAD,
    T_QUOTA,
    T_WEIGHT,
    TENANT_COLUMNS,
    U_ROW,
    U_SEATS,
    WHOLE,
    Cluster,
    Jobs,
    Log,
    Queue,
)
from fairlead.kernels.events import NODE_DOWN, NODE_UP, code_of_from_python, push_event_from_python
from fairlead.kernels.failures import draw_turn
from fairlead.kernels.guards import NOBODY, SIZES
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.state.cluster import copy_of, lay_out, totals
from fairlead.state.jobs import JobInput, sort_into_classes
from fairlead.state.rules import Options, Rates, Traits
from fairlead.state.twins import HALF, Twins, lay_out_twins


@dataclass
class State:
    spec: ClusterSpec
    input: JobInput
    classes: int  #: how many classes of jobs there are
    cluster: Cluster
    shadow: Cluster  #: for trials of the future; the same arrays as `cluster` where no policy makes any
    jobs: Jobs
    queue: Queue
    log: Log

    @property
    def counter(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return self.queue.counter

    def grow_log(self, rows: int, ids: int) -> None:
        """Make room for this many more rows and GPU ids."""
        used_rows, used_ids = int(self.counter[G_ROWS]), int(self.counter[G_IDS])
        if used_rows + rows > len(self.log.time):
            size = max(used_rows + rows, len(self.log.time) * 3 // 2)
            what = np.empty((3, size), np.int32)
            what[:, :used_rows] = self.log.what[:, :used_rows]
            self.log = self.log._replace(time=_longer(self.log.time, size, used_rows), what=what)
        if used_ids + ids > len(self.log.gpu_ids):
            size = max(used_ids + ids, len(self.log.gpu_ids) * 3 // 2)
            self.log = self.log._replace(gpu_ids=_longer(self.log.gpu_ids, size, used_ids))

    def own_class(self, job: int) -> int:
        """The class of what the job asked for, whatever it runs as."""
        return int(self.jobs.ints[K_OWN if self.counter[R_RESHAPES] else K_CLASS, job])

    def gpus_of(self, job: int) -> tuple[int, ...]:
        """The GPU ids that a running job holds (a CPU job: one entry, -1 - node)."""
        at = int(self.jobs.ints[K_ALLOC, job])
        shape = int(self.queue.classes[C_SHAPE, self.jobs.ints[K_CLASS, job]])
        return tuple(self.log.gpu_ids[at : at + max(int(self.cluster.shape[S_GPUS, shape]), 1)].tolist())

    def hash(self) -> str:
        """A digest of everything that decisions depend on; equal states have equal hashes however they came about."""
        digest = hashlib.sha256()
        c, j = self.cluster, self.jobs
        # who sits on which seat of a shared GPU does not matter, nor which row of the running jobs anybody has
        seats = np.sort(c.gpu[U_SEATS:], axis=0)
        for array in (c.node[:N_ROOM], c.pool, c.gpu[:U_ROW], seats, c.cells, self.queue.tenants):
            digest.update(np.ascontiguousarray(array).tobytes())
        states = j.ints[K_STATE]
        digest.update(np.ascontiguousarray(states).tobytes())
        digest.update(np.ascontiguousarray(j.ints[K_LEVEL]).tobytes())
        digest.update(np.ascontiguousarray(j.floats).tobytes())
        for job in np.flatnonzero(states == RUNNING).tolist():
            digest.update(repr((job, self.gpus_of(job))).encode())
        return digest.hexdigest()


def _longer(array: npt.NDArray[Any], size: int, used: int) -> npt.NDArray[Any]:
    longer = np.empty(size, array.dtype)
    longer[:used] = array[:used]
    return longer


def new_state(spec: ClusterSpec, jobs: JobInput, traits: Traits, options: Options, rates: Rates) -> State:
    """The state before anything has happened: an empty cluster, and every job still to come."""
    quotas = any(t.quota_gpus is not None for t in spec.tenants.values()) and jobs.tenant is not None
    quotas = quotas and not traits.borrows and not traits.own_quotas
    grouped = traits.by_tenant
    if traits.preempts and grouped and not traits.queues:
        raise InputError("a policy that ranks tenants cannot preempt", accepts="preempt=false")
    if traits.preempts and 0 < traits.quantum <= options.resume_cost_s:
        raise InputError(
            "resuming a job would take as long as its turn, and nothing would ever finish",
            column="quantum",
            value=traits.quantum,
            accepts=f"more than the resume cost, {options.resume_cost_s} s",
        )
    if len(jobs) and jobs.submit_s[0] < 0:
        raise InputError(
            "a job is submitted before time 0", column="submit_s", value=float(jobs.submit_s[0]), accepts="0 or more"
        )
    layout = sort_into_classes(jobs, quotas or grouped or traits.tenant_classes, traits.priority_classes)
    # a GPU that everybody uses fully has no room for two
    packs = traits.halves or (traits.packs and bool((rates.use < 1).any()))
    twins = lay_out_twins(layout, jobs, packs=packs, resizes=traits.resizes, gpus=spec.gpus)
    layout = twins.layout
    uneven = rates.vary or twins.any
    seats = 0
    if uneven and jobs.share_milli is not None and len(jobs):
        seats = WHOLE // max(int(jobs.share_milli.min()), 1) + 1
    if packs:
        seats = max(seats, WHOLE // HALF + 1)
    cluster = lay_out(spec, layout.shape, seats)
    n, classes = len(jobs), len(layout.class_shape)
    shares = traits.gpu_parts or jobs.share_milli is not None or packs
    drifts = traits.drifts and not uneven
    looks_again = traits.preempts and traits.changes != 0 and not drifts
    listed = traits.easy or looks_again or options.nodes_fail or traits.planned != 0

    rule = np.zeros(RULES, np.int64)
    rule[G_LIVE] = len(jobs)
    rule[R_STRICT], rule[R_PREEMPTS], rule[R_EASY], rule[R_GROUPED] = (
        traits.strict,
        traits.preempts,
        traits.easy,
        grouped,
    )
    rule[R_CHANGES], rule[R_DRIFTS], rule[R_TIMERS] = traits.changes, drifts, traits.timers
    rule[R_SHARES], rule[R_QUOTAS], rule[R_GATED] = shares, quotas, traits.fewest_nodes
    rule[R_DEMANDS] = jobs.cpu_milli is not None or jobs.memory_mib is not None
    surveys = traits.preempts and traits.fewest_nodes and not traits.queues
    rule[R_OWNERS] = surveys and not shares
    rule[R_QUEUES], rule[R_BORROWS], rule[R_FORECASTS] = traits.queues, traits.borrows, traits.forecasts
    rule[R_RETRIES], rule[R_SEED], rule[R_RATES] = options.retries, options.seed, uneven
    rule[R_PLANNED], rule[R_LISTED], rule[R_LEVELS] = traits.planned, listed, traits.levels
    rule[R_SIMPLE] = not (traits.strict or traits.easy or grouped or traits.queues or traits.planned)
    rule[R_NODES_FAIL] = options.nodes_fail
    rule[R_ESTIMATES] = jobs.estimate_s is not None or traits.forecasts
    rule[R_RISES] = drifts and traits.rises
    rule[R_RESHAPES] = twins.any
    rule[R_FIXED], rule[R_REACH] = bool(layout.class_fixed.any()), traits.reach
    needs = _needs(cluster) if rule[R_OWNERS] and traits.preempts and not quotas and not traits.queues else ()
    ticks = traits.quantum > 0 and not traits.timers
    if len(needs) and not rule[R_FIXED] and (traits.changes == 0 or (drifts and traits.changes == 1 and not ticks)):
        rule[R_INDEXED] = 1
    index = _index(cluster, needs if rule[R_INDEXED] else ())
    rule[R_LARGEST] = _largest(cluster)
    lanes = layout.shape.shape[1] + 2
    limit = np.zeros(LIMITS + lanes)
    limit[Q_TOTALS : Q_TOTALS + 3] = totals(spec)
    limit[Q_QUANTUM], limit[Q_START_COST], limit[Q_RESUME_COST] = (
        traits.quantum,
        options.start_cost_s,
        options.resume_cost_s,
    )
    limit[Q_RESUME_PER_GIB], limit[Q_FAILURES] = options.resume_cost_s_per_gib, options.job_failures
    limit[Q_CHECKPOINT], limit[Q_HALF_LIFE] = options.checkpoint_s, traits.half_life
    limit[Q_MTBF], limit[Q_MTTR] = options.node_mtbf_s, options.node_mttr_s
    limit[Q_LEARN] = traits.retrain_s or NEVER
    limit[Q_NOISE] = options.profiler_noise

    rule[R_SPANS] = rates.speed.shape[1]
    rule[R_SEATS], rule[R_SEAT_COUNT] = rule[R_SPANS] + rates.locality.shape[1], rates.sharing.shape[1]
    rule[R_PACKED] = rule[R_SEATS] + rates.sharing.shape[1]
    rule[R_SCALES] = rule[R_PACKED] + rates.packed.shape[1]
    rule[R_USE] = rule[R_SCALES] + rates.scale.shape[1]
    table = np.zeros((CLASS_COLUMNS, max(classes, lanes)), np.int64)
    table[[C_ROOT, C_ACTIVE]] = -1
    table[C_SHAPE, :classes], table[C_TENANT, :classes] = layout.class_shape, layout.class_tenant
    table[C_FIXED, :classes] = layout.class_fixed
    own = len(twins.half)  # classes that jobs wait in; their twins come behind
    table[C_HALF] = -1
    table[C_HALF, :own], table[C_OTHER, :own] = twins.half, twins.other
    table[C_LEAST, :own], table[C_MOST, :own] = twins.least, twins.most
    events = 6 * n + 4 * len(spec.nodes) + len(options.node_events) + 64
    # a longer log is copied, and memory that nobody writes to costs nothing: where jobs are suspended it begins with plenty
    plenty = 3 if traits.preempts else 1
    rows = plenty * 2 * n + 8 * len(spec.nodes) + 1024
    state = State(
        spec=spec,
        input=jobs,
        classes=classes,
        cluster=cluster,
        shadow=copy_of(cluster) if traits.easy else cluster,
        jobs=_job_columns(jobs, twins),
        queue=Queue(
            classes=table,
            tenants=_tenants(spec, jobs, traits),
            event_time=(times := np.empty(events)),
            event_bits=times.view(np.int64),
            event_code=np.empty(events, np.int64),
            counter=rule,
            limit=limit,
            run_ints=np.zeros((n + 1, RUN_INTS) if traits.preempts else (1, RUN_INTS), np.int32),
            run_floats=(floats := np.zeros((n + 1, RUN_FLOATS) if traits.preempts else (1, RUN_FLOATS))),
            run_bits=floats.view(np.int64),
            front_ints=(front := np.zeros((4 * (n + 1) if traits.preempts else 1, FRONT_INTS), np.int32)),
            front_floats=front.view(np.float64),
            **index,
            rates=np.hstack([rates.speed, rates.locality, rates.sharing, rates.packed, rates.scale, rates.use]),
        ),
        log=Log(
            time=np.empty(rows),
            what=np.empty((3, rows), np.int32),
            gpu_ids=np.empty(plenty * int(jobs.gpus.sum()) + n // 8 + 4 * spec.gpus + 1024, np.int32),
        ),
    )
    _plan_node_events(state, options)
    return state


def _needs(cluster: Cluster) -> tuple[int, ...]:
    """The numbers of GPUs that guards.py keeps guards for: those that matter to some shape, and a whole node. None where free
    counts do not decide for every shape, or nodes differ."""
    if cluster.pool.shape[1] != 1 or not (cluster.shape[S_PLAIN] == 1).all():
        return ()
    whole = int(cluster.pool[P_CAP, 0])
    return tuple(sorted({whole, *(need for need in cluster.shape[S_MATTERS].tolist() if need < whole)}))


def _largest(cluster: Cluster) -> int:
    """The most GPUs that a plain job of one node asks for, of whatever type, -1 if there is none."""
    shape = cluster.shape
    counts = (shape[S_PLAIN] == 1) & (shape[S_NODES] == 1) & (shape[S_TYPE] < 0)
    return int(shape[S_GPUS, counts].max(initial=-1))


def _index(cluster: Cluster, needs: tuple[int, ...]) -> dict[str, Any]:
    """The index of guards, empty as the cluster is. Where a run does not use it, it takes no room."""
    nodes, cap = (cluster.node.shape[1], int(cluster.pool[P_CAP, 0])) if needs else (0, 0)
    guard = np.zeros((nodes + 2, max(len(needs), 1)), np.int32)
    for d, need in enumerate(needs):
        guard[nodes + SIZES, d] = need
        cluster.shape[S_NEED, cluster.shape[S_MATTERS] == need] = d
    leaves = 1 << max(nodes - 1, 0).bit_length()
    return {
        "seats": np.zeros((nodes + 1, 1 + 2 * cap), np.int32),
        "seat_rank": np.zeros((nodes + 1, max(cap, 1)), np.int64),
        "guard": guard,
        "worst": np.full((2 * leaves, guard.shape[1]), NOBODY, np.int64),
        "touched": np.zeros((2, nodes + 1), np.int32),
    }


def _job_columns(jobs: JobInput, twins: Twins) -> Jobs:
    """Zeros cost nothing until they are written: a column that the run does not use stays untouched memory."""
    floats = np.zeros((JOB_FLOATS, len(jobs)))
    ints = np.zeros((JOB_INTS, len(jobs)), np.int32)
    if jobs.estimate_s is not None:
        floats[J_ESTIMATE] = jobs.estimate_s
    ints[K_CLASS] = twins.layout.class_of
    if twins.any:
        ints[K_OWN] = twins.layout.class_of
    if twins.job_least is not None and twins.job_most is not None:
        ints[K_LEAST], ints[K_MOST] = twins.job_least, twins.job_most
    if jobs.gpu_memory_gib is not None:
        floats[J_GIB] = jobs.gpu_memory_gib
    if jobs.priority is not None:
        ints[K_PRIORITY] = jobs.priority
    if jobs.profile is not None:
        ints[K_PROFILE] = jobs.profile
    return Jobs(jobs.submit_s, jobs.duration_s, floats, ints)


def _tenants(spec: ClusterSpec, jobs: JobInput, traits: Traits) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    names = jobs.tenant_names or ("",)
    table = np.zeros((TENANT_COLUMNS, len(names)))
    table[T_QUOTA], table[T_WEIGHT] = -1.0, 1.0
    for t, name in enumerate(names):
        if name in spec.tenants:
            tenant = spec.tenants[name]
            table[T_WEIGHT, t] = tenant.weight
            if tenant.quota_gpus is not None:
                table[T_QUOTA, t] = tenant.quota_gpus * WHOLE
    table[T_HEAD] = -1.0
    if traits.queues:
        table[T_GUARANTEE] = _guarantees(table, spec, traits.borrows)
    if traits.borrows:
        table[T_QUOTA] = -1.0
    return table


def _guarantees(tenants: F8, spec: ClusterSpec, borrows: bool) -> F8:
    """Milli-GPUs per tenant: its quota. Where it may borrow and nobody has one, its part of the cluster by weight."""
    quotas, weights = tenants[T_QUOTA], tenants[T_WEIGHT]
    shares: F8 = np.floor(spec.gpus * WHOLE * weights / weights.sum())
    if not borrows:
        shares = np.where(quotas < 0, NEVER, quotas)
    elif (quotas >= 0).any():
        shares = np.maximum(quotas, 0.0)
    return shares


def _plan_node_events(state: State, options: Options) -> None:
    count = len(state.spec.nodes)
    for time, node, up in options.node_events:
        if not 0 <= node < count:
            raise InputError("a node event names a node that is not there", value=node, accepts=f"0..{count - 1}")
        push_event_from_python(state.queue, time, code_of_from_python(NODE_UP if up else NODE_DOWN, node, 0))
    if options.node_mtbf_s > 0:
        for node in range(count):
            draw_turn(state.cluster, state.queue, node, 0.0, options.node_mtbf_s, NODE_DOWN)
