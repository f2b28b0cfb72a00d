"""What happened to one job, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairlead.model.cluster import ClusterSpec
from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.record.journal import Journal
from fairlead.record.places import node_of_gpu
from fairlead.record.runs import STARTS, held_by
from fairlead.record.units import count, digits, duration

REFUSED = {
    Reason.NO_SUCH_GPU_TYPE: "no node has the GPU type it asks for",
    Reason.TOO_MANY_GPUS: "it asks for more GPUs than can ever be had",
    Reason.NODE_TOO_SMALL: "no node has the CPU or memory that its part asks for",
    Reason.OVER_QUOTA: "it asks for more than its tenant may ever hold",
    Reason.OVER_CELLS: "it does not fit the cells of its tenant, even if all were free",
    Reason.TOO_FEW_NODES: "fewer nodes than it must run on could hold an equal part",
    Reason.NO_SUCH_LEVEL: "the cluster has no such level as its topology names",
    Reason.DOMAIN_TOO_SMALL: "no one domain of its topology could hold it",
    Reason.NOT_BY_POLICY: "the policy can't keep to what it says of preemption or of its nodes",
}
_SUSPENDED = {
    Reason.OUTRANKED: "a job that the policy ranks higher took its GPUs",
    Reason.PLANNED: "the planner asked for it",
    Reason.RECLAIMED: "its tenant held more than its guarantee, and another tenant asked for its own",
}


def story(journal: Journal, job: int) -> list[str]:
    """One sentence per event of the job, in order of time, and a summary once it has ended.

    Times are seconds of the journal's clock; a job is named by its position in the job table.
    """
    told = [_submitted(journal, job)]
    since_s = float(journal.jobs.submit_s[job])
    ran_s = 0.0
    of_nodes = (journal.kind == EventKind.NODE_DOWN) | (journal.kind == EventKind.NODE_UP)
    rows = np.flatnonzero((journal.job == job) & ~of_nodes)
    for row in rows.tolist():
        now_s, kind, arg = float(journal.time_s[row]), EventKind(journal.kind[row]), int(journal.arg[row])
        past_s, since_s = now_s - since_s, now_s
        if kind in STARTS:
            wait = f"after waiting {duration(past_s)}" if past_s > 0 else "at once"
            told.append(f"It started at {_at(now_s)}, {wait}, on {_where(journal, row)}.")
            continue
        if kind == EventKind.REFUSE:
            told.append(f"It was refused at {_at(now_s)}: {_because(REFUSED, arg)}.")
            continue
        ran_s += past_s
        told.append(_stopped(journal, kind, arg, now_s, past_s))
        if kind in (EventKind.FINISH, EventKind.GIVE_UP):
            told.append(_summary(journal, job, now_s, ran_s))
    if len(rows) == 0:
        told.append("Nothing else is recorded of it.")
    return told


def _submitted(journal: Journal, job: int) -> str:
    jobs = journal.jobs
    gpus = int(jobs.gpus[job])
    asks = count(gpus, "GPU") if gpus else "no GPU"
    if jobs.share_milli is not None and jobs.share_milli[job] < 1000:
        asks = f"{digits(int(jobs.share_milli[job]) / 1000)} of a GPU"
    by = ""
    if jobs.tenant is not None and jobs.tenant[job] >= 0:
        by = f" by {jobs.tenant_names[jobs.tenant[job]]}"
    work = duration(float(jobs.duration_s[job]))
    return f"Job {job} was submitted at {_at(float(jobs.submit_s[job]))}{by}: {asks} for {work}."


def _stopped(journal: Journal, kind: EventKind, arg: int, now_s: float, past_s: float) -> str:
    after = f"at {_at(now_s)}, after {duration(past_s)} on its GPUs"
    if kind == EventKind.FINISH:
        return f"It finished {after}."
    if kind == EventKind.SUSPEND:
        return f"It was suspended {after}: {_because(_SUSPENDED, arg)}."
    if kind == EventKind.KILL:
        return f"It lost {journal.cluster.nodes[arg].name} {after}, and waits to be tried again."
    if kind == EventKind.FAIL:
        return f"Attempt {arg} failed {after}; it waits to be tried again."
    return f"Attempt {arg} failed {after}, and it was given up."


def _summary(journal: Journal, job: int, now_s: float, ran_s: float) -> str:
    total_s = now_s - float(journal.jobs.submit_s[job])
    waited_s = max(total_s - ran_s, 0.0)
    return (
        f"In all {duration(total_s)} from submission to end: {duration(ran_s)} on GPUs, {duration(waited_s)} waiting."
    )


def _where(journal: Journal, row: int) -> str:
    offset = int(journal.arg[row])
    gpus = int(held_by(journal, np.array([row]))[0][0])
    text = where(journal.cluster, journal.gpu_ids[offset : offset + max(gpus, 1)].tolist())
    if journal.kind[row] != EventKind.START_AS:
        return text
    milli = int(journal.gpu_ids[offset - 1])
    return f"{text}, {digits(milli / 1000)} of it" if milli < 1000 else f"{text}, {count(gpus, 'GPU')} in all"


def where(cluster: ClusterSpec, gpu_ids: Sequence[int]) -> str:
    """`node-3 (GPUs 0-3) and node-4 (GPU 1)`; of a job without GPUs, whose one id is -1 - node, the node."""
    nodes = cluster.nodes
    if gpu_ids[0] < 0:
        return nodes[-1 - gpu_ids[0]].name
    held = np.sort(np.array(gpu_ids))
    node_of = node_of_gpu(cluster)
    first_gpu = np.searchsorted(node_of, np.arange(len(nodes)))
    parts = []
    for node in np.unique(node_of[held]).tolist():
        mine = (held[node_of[held] == node] - first_gpu[node]).tolist()
        parts.append(f"{nodes[node].name} ({_gpu_list(mine)})")
    return listed(parts, 8, "more nodes")


def listed(parts: Sequence[str], most: int, rest: str) -> str:
    """`a, b and c`; beyond `most` of them, `a, b and 3 more nodes`."""
    shown = [*parts[:most], *([f"{len(parts) - most} {rest}"] if len(parts) > most else [])]
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]


def _gpu_list(gpus: list[int]) -> str:
    if len(gpus) == 1:
        return f"GPU {gpus[0]}"
    if gpus == list(range(gpus[0], gpus[-1] + 1)):
        return f"GPUs {gpus[0]}-{gpus[-1]}"
    return "GPUs " + ", ".join(map(str, gpus))


def _because(known: dict[Reason, str], arg: int) -> str:
    reason = Reason(arg)
    return known.get(reason, reason.name.lower().replace("_", " "))


def _at(seconds: float) -> str:
    text = f"{seconds:,.3f}".rstrip("0").rstrip(".")
    return f"{text} s"
