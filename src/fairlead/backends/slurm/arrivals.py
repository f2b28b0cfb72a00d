"""A job that somebody gave to Slurm, as what it asks for."""

from __future__ import annotations

from fairlead.backends.slurm import parse
from fairlead.backends.slurm.inventory import Site
from fairlead.backends.slurm.rows import Row
from fairlead.model.errors import InputError
from fairlead.model.job import LONGEST_NAME, JobSpec
from fairlead.runtime.protocols import Arrival


def foreign_name(site: Site, row: Row) -> str:
    """Numbers are used again some day, so its submission is part of its name."""
    return f"slurm:{site.cluster}:{row.id}:{row['submit']}"


def arrival(site: Site, row: Row, foreign: str) -> Arrival:
    return Arrival(foreign, spec(site, row), row["user"], row["account"], row.time_s("submit") or 0.0)


def refusal(row: Row, excluded: str) -> str:
    """Why it can't be placed here whatever else it asks for, "" where it can: releasing it would put our nodes in the place of its
    own wishes, or Slurm would never start it. `excluded`: nodes that it must not have."""
    if row.is_component:
        return "a job of several components (a heterogeneous one) is not ours to place"
    for option, value in (("constraint", row["features"]), ("nodelist", row["wanted"]), ("exclude", excluded)):
        if value:
            return f"fairlead chooses the nodes, and can't keep to --{option}={value}; submit it without"
    return ""


def gpus(row: Row) -> tuple[int, str, bool]:
    """How many, of which type, and whether that is for each node."""
    for name, times in (("per_node", 1), ("per_job", 1), ("per_task", max(1, row.count("tasks"))), ("per_socket", 1)):
        count, kind = parse.gres_gpus(row[name])
        if count:
            return count * times, kind, name in ("per_node", "per_socket")
    return 0, "", False


def spec(site: Site, row: Row) -> JobSpec:
    count, kind, is_per_node = gpus(row)
    nodes = max(1, row.count("num_nodes"))
    largest = max((node.gpus for node in site.spec.nodes), default=0)
    num_nodes: int | None = nodes
    if not is_per_node and count:
        if count % nodes == 0 and (nodes > 1 or count <= largest):
            count //= nodes
        else:
            num_nodes = None  # as many nodes as it takes
    of_nodes = nodes if num_nodes else 1
    table = parse.tres(row["tres"])
    memory = parse.memory_mib(table.get("mem", ""))
    can_requeue = row["requeue"] == "1" and row["batch"] != "0"
    name = "".join(c if c.isprintable() else "?" for c in row["name"]).strip()[:LONGEST_NAME]
    limit_s = parse.duration_s(row["limit"])
    if count == 0 and nodes > 1:
        raise InputError("a job without GPUs on several nodes is not ours to place", value=row.id, accepts="GPUs")
    return JobSpec(
        run=name or f"Slurm's job {row.id}",
        name=name,
        tenant=row["account"][:LONGEST_NAME],
        gpus=count,
        gpu_type=kind,
        num_nodes=num_nodes if count else None,
        cpu_milli=1000 * max(1, row.count("cpus")) // of_nodes,
        memory_mib=None if not memory else max(1, memory // of_nodes),
        priority=-row.count("nice"),
        preemptible=can_requeue,
        suspend=("requeue",) if can_requeue else (),
        time_limit_s=limit_s,
    )
