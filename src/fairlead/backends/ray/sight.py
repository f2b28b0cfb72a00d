"""What there is in a Ray cluster, as plain data. It runs in the process that talks to Ray, and changes nothing there.

Placement groups and actors come whole, a call for each table, from the head's own tables: Ray's state API would say the same, but
needs its dashboard. Tasks that want GPUs have no entry of their own; those that wait are counted by what they ask for.
"""

from __future__ import annotations

from typing import Any

from fairlead.backends.ray.nodes import name_of

Doc = dict[str, Any]


def node(info: Doc) -> Doc:
    """One of `ray.nodes()`."""
    return {
        "id": info["NodeID"],
        "name": name_of(info),
        "alive": bool(info["Alive"]),
        "message": str(info.get("DeathReasonMessage") or ""),
        "resources": {key: float(value) for key, value in (info.get("Resources") or {}).items()},
        "labels": dict(info.get("Labels") or {}),
    }


def scene() -> Doc:
    import ray
    from ray._private.state import state
    from ray.core.generated import gcs_pb2

    tables = state._connect_and_get_accessor()
    jobs = {}
    for data in tables.get_job_table(skip_submission_job_info_field=True, skip_is_running_tasks_field=True):
        one = gcs_pb2.JobTableData.FromString(data)
        jobs[one.job_id.hex()] = {"user": one.config.metadata.get("user", ""), "start_ms": one.start_time}
    groups = [_group(gcs_pb2.PlacementGroupTableData.FromString(data)) for data in tables.get_placement_group_table()]
    actors = [_actor(gcs_pb2.ActorTableData.FromString(data)) for data in tables.get_actor_table(None, None)]
    return {
        "nodes": [node(one) for one in ray.nodes()],
        "jobs": jobs,
        "things": [one for one in groups + actors if any(bundle["gpus"] for bundle in one["bundles"])],
    }


def _group(one: Any) -> Doc:
    kind = type(one)
    phases = {kind.PENDING: "waiting", kind.PREPARED: "waiting", kind.CREATED: "running", kind.RESCHEDULING: "waiting"}
    return {
        "id": one.placement_group_id.hex(),
        "kind": "placement group",
        "name": one.name,
        "job": one.creator_job_id.hex(),
        "phase": phases.get(one.state, "ended"),
        "submit_ms": one.placement_group_creation_timestamp_ms,
        "start_ms": one.placement_group_final_bundle_placement_timestamp_ms,
        "end_ms": 0,
        "strategy": _strategy(one),
        "bundles": [
            {"gpus": bundle.unit_resources.get("GPU", 0.0), "node": bundle.node_id.hex()} for bundle in one.bundles
        ],
    }


def _strategy(one: Any) -> str:
    from ray.core.generated import common_pb2

    return str(common_pb2.PlacementStrategy.Name(one.strategy))


def _actor(one: Any) -> Doc:
    """One in a placement group has its GPUs from there, and is not counted again."""
    kind = type(one)
    waits = (kind.DEPENDENCIES_UNREADY, kind.PENDING_CREATION, kind.RESTARTING)
    gpus = 0.0 if one.placement_group_id else one.required_resources.get("GPU", 0.0)
    return {
        "id": one.actor_id.hex(),
        "kind": "actor",
        "name": one.name or one.class_name,
        "job": one.job_id.hex(),
        "phase": "waiting" if one.state in waits else "running" if one.state == kind.ALIVE else "ended",
        "submit_ms": 0,
        "start_ms": one.start_time,
        "end_ms": one.end_time,
        "strategy": "STRICT_PACK",
        "bundles": [{"gpus": gpus, "node": one.node_id.hex()}],
    }
