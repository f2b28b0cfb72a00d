"""The one mutable state of a run: a cluster, its jobs, who waits and runs, and the log of what happened."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from fairlead.kernels.columns import (
    C_ACTIVE,
    C_REASON,
    C_ROOT,
    C_SHAPE,
    C_TENANT,
    CLASS_COLUMNS,
    COUNTERS,
    G_IDS,
    G_LIVE,
    G_ROWS,
    JOB_FLOATS,
    JOB_INTS,
    K_ALLOC,
    K_LEVEL,
    K_STATE,
    LIMITS,
    Q_CHECKPOINT,
    Q_FAILURES,
    Q_HALF_LIFE,
    Q_MTBF,
    Q_MTTR,
    Q_QUANTUM,
    Q_RESUME_COST,
    Q_RESUME_PER_GIB,
    Q_START_COST,
    R_CHANGES,
    R_DEMANDS,
    R_DRIFTS,
    R_EASY,
    R_GATED,
    R_GROUPED,
    R_LISTED,
    R_OWNERS,
    R_PLANNED,
    R_PREEMPTS,
    R_QUOTAS,
    R_RATES,
    R_RETRIES,
    R_SEED,
    R_SHARES,
    R_STRICT,
    R_TIMERS,
    RULES,
    RUNNING,
    S_GPUS,
    T_QUOTA,
    T_WEIGHT,
    TENANT_COLUMNS,
    WHOLE,
    Cluster,
    Jobs,
    Log,
    Queue,
)
from fairlead.kernels.events import NODE_DOWN, NODE_UP, push_event
from fairlead.kernels.loop import draw_turn
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.state.cluster import copy_of, lay_out, totals
from fairlead.state.jobs import JobInput, judge_shapes, sort_into_classes
from fairlead.state.rules import Options, Rates, Traits


@dataclass
class State:
    spec: ClusterSpec
    input: JobInput
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
            self.log = self.log._replace(
                time=_longer(self.log.time, size, used_rows),
                kind=_longer(self.log.kind, size, used_rows),
                job=_longer(self.log.job, size, used_rows),
                arg=_longer(self.log.arg, size, used_rows),
            )
        if used_ids + ids > len(self.log.gpu_ids):
            size = max(used_ids + ids, len(self.log.gpu_ids) * 3 // 2)
            self.log = self.log._replace(gpu_ids=_longer(self.log.gpu_ids, size, used_ids))

    def gpus_of(self, job: int) -> tuple[int, ...]:
        """The GPU ids that a running job holds (a CPU job: one entry, -1 - node)."""
        at = int(self.jobs.ints[K_ALLOC, job])
        shape = int(self.queue.classes[C_SHAPE, self.jobs.class_of[job]])
        return tuple(self.log.gpu_ids[at : at + max(int(self.cluster.shape[S_GPUS, shape]), 1)].tolist())

    def hash(self) -> str:
        """A digest of everything that decisions depend on; equal states have equal hashes however they came about."""
        digest = hashlib.sha256()
        c, j = self.cluster, self.jobs
        for array in (c.node, c.pool, c.bits, c.level_count, c.gpu_words, c.gpu_free, self.queue.tenants):
            digest.update(np.ascontiguousarray(array).tobytes())
        states = j.ints[K_STATE]
        digest.update(np.ascontiguousarray(states).tobytes())
        digest.update(np.ascontiguousarray(j.ints[K_LEVEL]).tobytes())
        digest.update(np.ascontiguousarray(j.floats).tobytes())
        for job in np.flatnonzero(states == RUNNING).tolist():
            digest.update(repr((job, self.gpus_of(job))).encode())
        return digest.hexdigest()


def _longer(array, size, used):  # type: ignore[no-untyped-def]
    longer = np.empty(size, array.dtype)
    longer[:used] = array[:used]
    return longer


def new_state(spec: ClusterSpec, jobs: JobInput, traits: Traits, options: Options, rates: Rates) -> State:
    """The state before anything has happened: an empty cluster, and every job still to come."""
    quotas = any(t.quota_gpus is not None for t in spec.tenants.values()) and jobs.tenant is not None
    grouped = traits.by_tenant
    if traits.preempts and grouped:
        raise InputError("a policy that ranks tenants cannot preempt", accepts="preempt=false")
    layout = sort_into_classes(jobs, quotas or grouped)
    cluster = lay_out(spec, layout.shape)
    judge_shapes(cluster)
    n, classes = len(jobs), len(layout.class_shape)
    shares = traits.gpu_parts or jobs.share_milli is not None
    uneven = rates.vary
    drifts = traits.drifts and not uneven and traits.quantum == 0
    looks_again = traits.preempts and traits.changes != 0 and not drifts
    fails = bool(options.node_events) or options.node_mtbf_s > 0
    listed = traits.easy or looks_again or fails or traits.planned

    rule = np.zeros(RULES, np.int64)
    rule[R_STRICT], rule[R_PREEMPTS], rule[R_EASY], rule[R_GROUPED] = (
        traits.strict,
        traits.preempts,
        traits.easy,
        grouped,
    )
    rule[R_CHANGES], rule[R_DRIFTS], rule[R_TIMERS] = traits.changes, drifts, traits.timers
    rule[R_SHARES], rule[R_QUOTAS], rule[R_GATED] = shares, quotas, traits.fewest_nodes
    rule[R_DEMANDS] = jobs.cpu_milli is not None or jobs.memory_mib is not None
    rule[R_OWNERS] = traits.preempts and traits.fewest_nodes and not shares
    rule[R_RETRIES], rule[R_SEED], rule[R_RATES] = options.retries, options.seed, uneven
    rule[R_PLANNED], rule[R_LISTED] = traits.planned, listed
    limit = np.zeros(LIMITS)
    limit[Q_QUANTUM], limit[Q_START_COST], limit[Q_RESUME_COST] = (
        traits.quantum,
        options.start_cost_s,
        options.resume_cost_s,
    )
    limit[Q_RESUME_PER_GIB], limit[Q_FAILURES] = options.resume_cost_s_per_gib, options.job_failures
    limit[Q_CHECKPOINT], limit[Q_HALF_LIFE] = options.checkpoint_s, traits.half_life
    limit[Q_MTBF], limit[Q_MTTR] = options.node_mtbf_s, options.node_mttr_s

    table = np.zeros((CLASS_COLUMNS, classes), np.int64)
    table[C_ROOT] = table[C_ACTIVE] = -1
    table[C_SHAPE], table[C_TENANT] = layout.class_shape, layout.class_tenant
    counter = np.zeros(COUNTERS, np.int64)
    counter[G_LIVE] = n
    events = 4 * n + 2 * len(spec.nodes) + len(options.node_events) + 64
    zeros_i4, zeros_f8 = _constant(n, np.int32), _constant(n, np.float64)
    state = State(
        spec=spec,
        input=jobs,
        cluster=cluster,
        shadow=copy_of(cluster) if traits.easy else cluster,
        jobs=Jobs(
            submit=jobs.submit_s,
            work=jobs.duration_s,
            estimate=jobs.duration_s if jobs.estimate_s is None else jobs.estimate_s,
            priority=zeros_i4 if jobs.priority is None else jobs.priority,
            profile=zeros_i4 if jobs.profile is None else jobs.profile,
            memory_gib=zeros_f8 if jobs.gpu_memory_gib is None else jobs.gpu_memory_gib,
            class_of=layout.class_of,
            floats=np.zeros((JOB_FLOATS, n)),
            ints=np.zeros((JOB_INTS, n), np.int32),
        ),
        queue=Queue(
            classes=table,
            active=np.zeros(classes + 1, np.int32),
            running=np.empty(n + 1 if listed else 1, np.int32),
            lane_root=np.full(layout.shape.shape[1] + 2, -1, np.int32),
            lane_drift=np.zeros(layout.shape.shape[1] + 2),
            tenants=_tenants(spec, jobs),
            victims=np.empty(n + 2, np.int32),
            event_time=np.empty(events),
            event_code=np.empty(events, np.int64),
            counter=counter,
            rule=rule,
            limit=limit,
            speed=rates.speed,
            locality=rates.locality,
            sharing=rates.sharing,
            totals=np.array(totals(spec)),
        ),
        log=_new_log(spec, n, jobs, uneven),
    )
    _plan_node_events(state, options)
    return state


def _constant(n, dtype):  # type: ignore[no-untyped-def]
    """n zeros that cost nothing until they are read: pages of a fresh array are the zero page."""
    return np.zeros(n, dtype)


def _tenants(spec: ClusterSpec, jobs: JobInput) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    names = jobs.tenant_names or ("",)
    table = np.zeros((TENANT_COLUMNS, len(names)))
    table[T_QUOTA], table[T_WEIGHT] = -1.0, 1.0
    for t, name in enumerate(names):
        if name in spec.tenants:
            tenant = spec.tenants[name]
            table[T_WEIGHT, t] = tenant.weight
            if tenant.quota_gpus is not None:
                table[T_QUOTA, t] = tenant.quota_gpus * WHOLE
    return table


def _new_log(spec: ClusterSpec, n: int, jobs: JobInput, uneven: bool) -> Log:
    rows = 2 * n + 8 * len(spec.nodes) + 1024
    ids = int(jobs.gpus.sum()) + n // 8 + 4 * spec.gpus + 1024
    seats = 1
    if uneven and jobs.share_milli is not None and n:
        seats = WHOLE // max(int(jobs.share_milli.min()), 1) + 1
    return Log(
        time=np.empty(rows),
        kind=np.empty(rows, np.int8),
        job=np.empty(rows, np.int32),
        arg=np.empty(rows, np.int32),
        gpu_ids=np.empty(ids, np.int32),
        gpu_job=np.full(spec.gpus, -1, np.int32),
        seats=np.full((spec.gpus if seats > 1 else 1, seats), -1, np.int32),
    )


def _plan_node_events(state: State, options: Options) -> None:
    count = len(state.spec.nodes)
    for time, node, up in options.node_events:
        if not 0 <= node < count:
            raise InputError("a node event names a node that is not there", value=node, accepts=f"0..{count - 1}")
        push_event(state.queue, time, ((NODE_UP if up else NODE_DOWN) << 32) | node)
    if options.node_mtbf_s > 0:
        for node in range(count):
            draw_turn(state.cluster, state.queue, node, 0.0, options.node_mtbf_s, NODE_DOWN)


def refuse_class(state: State, k: int, reason: int) -> None:
    """Jobs of class k can never run here."""
    state.queue.classes[C_REASON, k] = reason
