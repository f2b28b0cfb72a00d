"""Why jobs were refused, in sentences with numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairlead.model.reason import Reason
from fairlead.record.units import count

if TYPE_CHECKING:
    from fairlead.record.journal import Journal, Outcome

    Where = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Refusal:
    reason: str  #: the Reason's name in lower case
    jobs: int
    sentence: str


def refusals(journal: Journal, outcome: Outcome) -> list[Refusal]:
    """One per reason, in the order of the reasons."""
    counts = np.bincount(outcome.refused)
    found = []
    for code in np.flatnonzero(counts).tolist():
        if code:
            reason, jobs = Reason(code), int(counts[code])
            why = _SENTENCES.get(reason, _never)(journal, np.flatnonzero(outcome.refused == code))
            found.append(Refusal(reason.name.lower(), jobs, f"{count(jobs, 'job')} refused: {why}"))
    return found


def _too_many(journal: Journal, where: Where) -> str:
    most, gpus = int(journal.jobs.gpus[where].max()), journal.cluster.gpus
    if most > gpus:
        return f"asking for more GPUs than the cluster has (up to {most:,} of {gpus:,})"
    return f"asking for more GPUs of one type than the cluster has (up to {most:,}; the cluster has {_types(journal)})"


def _types(journal: Journal) -> str:
    have: dict[str, int] = {}
    for node in journal.cluster.nodes:
        kind = node.gpu_type or "without a type"
        have[kind] = have.get(kind, 0) + node.gpus
    return ", ".join(f"{gpus:,} {kind}" for kind, gpus in sorted(have.items()))


def _no_type(journal: Journal, where: Where) -> str:
    return f"asking for a GPU type that no node has (the cluster has {_types(journal)})"


def _too_small(journal: Journal, where: Where) -> str:
    most = int(journal.jobs.gpus[where].max())
    return f"not fitting the empty cluster as the placer would place them (up to {count(most, 'GPU')} a job)"


def _over_quota(journal: Journal, where: Where) -> str:
    jobs = journal.jobs
    if jobs.tenant is None:
        return "asking for more than their tenant's quota"
    parts = []
    for tenant in np.unique(jobs.tenant[where]).tolist():
        name = jobs.tenant_names[tenant]
        most = int(jobs.gpus[where][jobs.tenant[where] == tenant].max())
        spec = journal.cluster.tenants.get(name)
        parts.append(f"{name or 'no tenant'} up to {most:,} of {spec.quota_gpus if spec else 0:,}")
    shown = parts[:5] + ([f"{len(parts) - 5} more tenants"] if len(parts) > 5 else [])
    return f"asking for more GPUs than their tenant's quota ({'; '.join(shown)})"


def _over_cells(journal: Journal, where: Where) -> str:
    most = int(journal.jobs.gpus[where].max())
    return f"not fitting the cells of their tenant, even if all were free (up to {count(most, 'GPU')} a job)"


def _too_few_nodes(journal: Journal, where: Where) -> str:
    most, nodes = int(journal.jobs.gpus[where].max()), journal.cluster.nodes
    return (
        f"asking for more nodes than could hold an equal part (up to {count(most, 'GPU')} a job; the cluster has "
        f"{count(len(nodes), 'node')} of up to {max(node.gpus for node in nodes)})"
    )


def _levels(journal: Journal) -> str:
    return ", ".join(("node", *reversed(journal.cluster.levels)))


def _no_level(journal: Journal, where: Where) -> str:
    return f"their topology names a level that the cluster does not have (it has {_levels(journal)})"


def _domain_too_small(journal: Journal, where: Where) -> str:
    most = int(journal.jobs.gpus[where].max())
    return f"not fitting inside one domain of their topology (up to {count(most, 'GPU')} a job; levels: {_levels(journal)})"


def _not_by_policy(journal: Journal, where: Where) -> str:
    return "the policy can't keep to what they say in preemptible, num_nodes or topology"


def _never(journal: Journal, where: Where) -> str:
    """Nodes were lost for good, so those left waiting could never have started."""
    most = int(journal.jobs.gpus[where].max())
    return f"still waiting when nothing could free enough GPUs any more (up to {count(most, 'GPU')} a job)"


_SENTENCES: dict[Reason, Callable[[Any, Any], str]] = {
    Reason.TOO_MANY_GPUS: _too_many,
    Reason.NO_SUCH_GPU_TYPE: _no_type,
    Reason.NODE_TOO_SMALL: _too_small,
    Reason.OVER_QUOTA: _over_quota,
    Reason.OVER_CELLS: _over_cells,
    Reason.TOO_FEW_NODES: _too_few_nodes,
    Reason.NO_SUCH_LEVEL: _no_level,
    Reason.DOMAIN_TOO_SMALL: _domain_too_small,
    Reason.NOT_BY_POLICY: _not_by_policy,
}
