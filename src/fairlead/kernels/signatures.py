"""The types of what is plugged into the core: one signature per kind of function.

Policies and placers are handed to the core as function values of these types, so the core is compiled once for all of
them, and a user's own function is compiled alone, in a fraction of a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.kernels import plain
from fairlead.kernels.columns import (
    FRONT_FLOATS,
    FRONT_INTS,
    RUN_FLOATS,
    RUN_INTS,
    Cluster,
    Desk,
    JobRow,
    Jobs,
    Log,
    Plug,
    Queue,
    TenantRow,
)
from fairlead.kernels.jit import f8, function_type, i8, named_floats, named_tuple, truth, type_of
from fairlead.kernels.slim import Ref, knowing, pass_slim, slim_type


def _array(dtype: Any, dims: int) -> Any:
    return np.zeros((1,) * dims, dtype)


pass_slim(Cluster, {"pick": 3})
pass_slim(Jobs, {})
pass_slim(
    Queue,
    {
        "run_ints": RUN_INTS,
        "run_floats": RUN_FLOATS,
        "run_bits": RUN_FLOATS,
        "front_ints": FRONT_INTS,
        "front_floats": FRONT_FLOATS,
    },
)
pass_slim(Log, {})
pass_slim(Desk, {})

_I8x2, _I8, _I4, _F8 = _array(np.int64, 2), _array(np.int64, 1), _array(np.int32, 1), _array(np.float64, 1)
_I4x2, _F8x2 = _array(np.int32, 2), _array(np.float64, 2)

CLUSTER = type_of(Cluster(node=_I8x2, pool=_I8x2, shape=_I8x2, gpu=_I8x2, cells=_I8, pick=np.zeros((1, 3), np.int64)))
JOBS = type_of(Jobs(submit=_F8, work=_F8, floats=_F8x2, ints=_I4x2))
QUEUE = type_of(
    Queue(
        classes=_I8x2,
        tenants=_F8x2,
        event_time=_F8,
        event_bits=_I8,
        event_code=_I8,
        counter=_I8,
        limit=_F8,
        run_ints=np.zeros((1, RUN_INTS), np.int32),
        run_floats=np.zeros((1, RUN_FLOATS)),
        run_bits=np.zeros((1, RUN_FLOATS), np.int64),
        front_ints=np.zeros((1, FRONT_INTS), np.int32),
        front_floats=np.zeros((1, FRONT_FLOATS)),
        seats=_I4x2,
        seat_rank=_I8x2,
        guard=_I4x2,
        worst=_I8x2,
        touched=_I4x2,
        rates=_F8x2,
    )
)
#: of plain runs
PLAIN_QUEUE = knowing(QUEUE, {"counter": plain.KNOWN_RULES, "limit": plain.KNOWN_LIMITS})
LOG = type_of(Log(time=_F8, what=_I4x2, gpu_ids=_I4))
DESK = type_of(Desk(todo=_I8x2, ids=_I4, ints=_I8x2, floats=_F8x2, cells=_I8))

FLOATS = type_of(_F8)
IDS = type_of(_I4)
JOB_ROW = named_floats(JobRow)
TENANT_ROW = named_floats(TenantRow)

#: key, level, drift, wake, resets: (job, now, parameters) -> float
JOB_FUNCTION = f8(JOB_ROW, f8, FLOATS)
#: group: (tenant, now, parameters) -> float
TENANT_FUNCTION = f8(TENANT_ROW, f8, FLOATS)
#: place: (cluster, shape, seed, job, start, parameters) -> rows of cluster.pick, -1 if it does not fit
PLACE_FUNCTION = i8(CLUSTER, i8, i8, i8, i8, FLOATS)
#: plan: (cluster, jobs, queue, log, desk, now) -> when it wants to be asked again; what it wants done is on the desk
PLAN_FUNCTION = f8(CLUSTER, JOBS, QUEUE, LOG, DESK, f8)

JOB_CALL = function_type(JOB_FUNCTION)
TENANT_CALL = function_type(TENANT_FUNCTION)
PLACE_CALL = function_type(PLACE_FUNCTION)
PLAN_CALL = function_type(PLAN_FUNCTION)

#: a policy and a placer, one after another
PLUGGED = (FLOATS, FLOATS, *[JOB_CALL] * 5, TENANT_CALL, PLACE_CALL)
PLUG = Ref(named_tuple(Plug, *PLUGGED))

# the parts of the core that few runs use, see parts.py
NODE_EVENT_FUNCTION = i8(CLUSTER, JOBS, QUEUE, LOG, i8, i8, f8, *PLUGGED)
BACKFILL_FUNCTION = i8(CLUSTER, CLUSTER, JOBS, QUEUE, LOG, i8, f8, *PLUGGED)
CONSULT_FUNCTION = i8(CLUSTER, JOBS, QUEUE, LOG, DESK, f8, PLAN_CALL, i8, *PLUGGED)
NODE_EVENT_CALL = function_type(NODE_EVENT_FUNCTION)
BACKFILL_CALL = function_type(BACKFILL_FUNCTION)
CONSULT_CALL = function_type(CONSULT_FUNCTION)
WALK_QUEUES_FUNCTION = i8(CLUSTER, JOBS, QUEUE, LOG, f8, *PLUGGED)
FORESEE_FUNCTION = i8(CLUSTER, JOBS, QUEUE, DESK, i8, i8, f8)
WALK_QUEUES_CALL = function_type(WALK_QUEUES_FUNCTION)
FORESEE_CALL = function_type(FORESEE_FUNCTION)

#: what the annotations of kernel functions mean; arrays of two dimensions have no name and stay with numba
TYPES = {
    "Cluster": CLUSTER,
    "Jobs": JOBS,
    "Queue": QUEUE,
    "Log": LOG,
    "Desk": DESK,
    "Plug": PLUG,
    "PlanFunction": PLAN_CALL,
    "NodeEventFunction": NODE_EVENT_CALL,
    "ForeseeFunction": FORESEE_CALL,
    "F8": slim_type(_F8),
    "I4": slim_type(_I4),
    "I8": slim_type(_I8),
    "Table": slim_type(_I8x2),
    "int": i8,
    "float": f8,
    "bool": truth,
}
