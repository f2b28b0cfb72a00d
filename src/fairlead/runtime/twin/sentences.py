"""What stands in a job's way, in words and numbers."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.model.cluster import NodeSpec
from fairlead.model.reason import Reason
from fairlead.record.units import digits
from fairlead.runtime.live_jobs import LiveJob
from fairlead.runtime.twin.ahead import Ahead
from fairlead.runtime.twin.look import Look
from fairlead.runtime.twin.words import Part, asks_text, gpus_text, rest_text


def _on(job: LiveJob, look: Look) -> str:
    """How few nodes it must be on."""
    if not look.fewest_nodes or job.num_nodes or job.topology == "node":
        return ""  # it says so itself
    return " on one node" if look.fewest_nodes == 1 else f" on {look.fewest_nodes} nodes"


def _free(look: Look) -> str:
    """`9 of 64 are free`."""
    return f"{look.free_gpus} of {look.all_gpus} {'is' if look.free_gpus == 1 else 'are'} free"


def hindrance(ahead: Ahead, job: LiveJob, look: Look) -> str:
    """Why job waits, where it is not for the sake of another that waits."""
    asks = f"needs {asks_text(job)}{_on(job, look)}"
    if look.reason == Reason.QUOTA_USED:
        held = gpus_text(look.tenant_gpus)
        return f"needs {asks_text(job)}; tenant {job.tenant} holds {held} of the {look.limit_gpus} that it may hold"
    if look.reason == Reason.PLANNED:
        return f"{asks}, and {_free(look)}; policy {ahead.policy} gives it none of them now"
    if job.gpus == 0:
        return f"{asks}; no node has that left"
    if job.share_milli < 1000:
        return f"{asks}; at most {digits(look.most_of_a_gpu)} of one is free"
    if look.reason == Reason.FRAGMENTED:
        return f"{asks}; {_free(look)}, {_apart(ahead, job, look)}"
    together = look.fewest_nodes and look.free_gpus
    return f"{asks}; {_free(look)}{f', at most {look.most_on_a_node} on one node' if together else ''}"


def _apart(ahead: Ahead, job: LiveJob, look: Look) -> str:
    """Why free GPUs are of no use to it."""
    if look.lacks_room:
        return f"but not with the {rest_text(job)} that it asks for"
    if job.num_nodes > 1:
        return f"but not {job.gpus // job.num_nodes} on each of so many nodes" + _inside(job, " of one")
    if job.topology not in ("", "node"):
        return "but not enough" + _inside(job, " in one")
    if look.fewest_nodes == 1:
        return f"but at most {look.most_on_a_node} on one node"
    if look.fewest_nodes:
        return f"but not on so few nodes, at most {look.most_on_a_node} on one"
    return f"but not as placer {ahead.placer} wants them"


def _inside(job: LiveJob, word: str) -> str:
    return f"{word} {job.topology}" if job.topology else ""


def behind(job: LiveJob, look: Look, head: LiveJob, when: str) -> Part:
    """Why job waits for the sake of the head of the queue, which is expected to start at `when`, "" if that can't be said."""
    if look.reason == Reason.RESERVED:
        reserved = f"whose start at about {when} is reserved" if when else "which goes first"
        delays = f"needs {asks_text(job)}, and {_free(look)}; starting now it would delay"
        return Part(f"{delays} job {head.id}, {reserved}", (head.id,), f"{delays} another job, {reserved}")
    start = f"is expected to start at about {when}"
    needs = f"which needs {asks_text(head)}{f' and {start}' if when else ''}"
    return Part(
        f"waits behind job {head.id}, the head of the queue, {needs}; {_free(look)}",
        (head.id,),
        f"waits behind another job, the head of the queue{f', which {start}' if when else ''}; {_free(look)}",
    )


# -- refusals ---------------------------------------------------------------------------------------------------------------


def _no_such_type(ahead: Ahead, job: LiveJob) -> str:
    types = sorted({node.gpu_type for node in ahead.spec.nodes if node.gpu_type})
    return f"the cluster's GPUs are {', '.join(types)}" if types else "the cluster's GPUs are of no stated type"


def _eligible(ahead: Ahead, job: LiveJob) -> list[NodeSpec]:
    return [node for node in ahead.spec.nodes if job.gpu_type in ("", node.gpu_type)]


def _too_many(ahead: Ahead, job: LiveJob) -> str:
    nodes = _eligible(ahead, job)
    there = sum(node.gpus for node in nodes)
    if there < job.gpus:
        return f"the cluster has {there}"
    largest = max(node.gpus for node in nodes)
    return f"placer {ahead.placer} could not place them on an empty cluster of {there}, {largest} on its largest node"


def _too_small(ahead: Ahead, job: LiveJob) -> str:
    nodes = _eligible(ahead, job)
    cpus = [node.cpu_milli / 1000 for node in nodes if node.cpu_milli is not None]
    mib = [node.memory_mib for node in nodes if node.memory_mib is not None]
    most = [
        *([f"{digits(max(cpus))} CPUs"] if cpus else []),
        *([f"{digits(max(mib) / 1024)} GiB"] if mib else []),
    ]
    return f"the largest node has {' and '.join(most)}"


def _over_quota(ahead: Ahead, job: LiveJob) -> str:
    return f"tenant {job.tenant} may hold {ahead.spec.tenants[job.tenant].quota_gpus}"


def _over_cells(ahead: Ahead, job: LiveJob) -> str:
    return f"more than the cells of tenant {job.tenant} hold"


def _too_few_nodes(ahead: Ahead, job: LiveJob) -> str:
    part, rest = divmod(job.gpus, max(job.num_nodes, 1))
    if rest or not part:
        return "its GPUs can't be divided evenly over so many nodes"
    enough = sum(node.gpus >= part for node in _eligible(ahead, job))
    return f"{enough} of the cluster's nodes have {gpus_text(part)} or more" + _inside(job, ", and they must be in one")


def _no_such_level(ahead: Ahead, job: LiveJob) -> str:
    return f"the cluster's levels are {', '.join(('node', *reversed(ahead.spec.levels)))}"


def _domain_too_small(ahead: Ahead, job: LiveJob) -> str:
    depth = ("cluster", *ahead.spec.levels, "node").index(job.topology)
    sizes: dict[tuple[str, ...], int] = {}
    for node in _eligible(ahead, job):
        domain = (*node.path, node.name)[:depth]
        sizes[domain] = sizes.get(domain, 0) + node.gpus
    return f"the largest {job.topology} has {gpus_text(max(sizes.values(), default=0))}"


def _not_by_policy(ahead: Ahead, job: LiveJob) -> str:
    says = ["that it is not preemptible"] * (not job.preemptible) + ["where it must be"] * bool(
        job.num_nodes or job.topology
    )
    return f"policy {ahead.policy} can't keep to what it says: {' or '.join(says)}"


#: why jobs like it can never run here
REFUSED: dict[Reason, Callable[[Ahead, LiveJob], str]] = {
    Reason.NO_SUCH_GPU_TYPE: _no_such_type,
    Reason.TOO_MANY_GPUS: _too_many,
    Reason.NODE_TOO_SMALL: _too_small,
    Reason.OVER_QUOTA: _over_quota,
    Reason.OVER_CELLS: _over_cells,
    Reason.TOO_FEW_NODES: _too_few_nodes,
    Reason.NO_SUCH_LEVEL: _no_such_level,
    Reason.DOMAIN_TOO_SMALL: _domain_too_small,
    Reason.NOT_BY_POLICY: _not_by_policy,
}


def refused(ahead: Ahead, job: LiveJob, reason: Reason) -> str:
    beside = f" with {rest_text(job)}" if job.gpus and reason == Reason.NODE_TOO_SMALL else ""
    return f"can never run here: needs {asks_text(job)}{beside}; {REFUSED[reason](ahead, job)}"


__all__ = ["REFUSED", "behind", "hindrance", "refused"]
