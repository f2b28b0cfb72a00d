"""What the report needs of one run, folded so that the journal itself can be let go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.model.cluster import ClusterSpec
from fairlead.record.journal import Journal, Outcome
from fairlead.record.metrics import Metrics, fold_metrics
from fairlead.record.outcome import fold_outcome, wait_s
from fairlead.record.runs import fold_runs
from fairlead.record.series import Cdf, Lines, Raster, WaitBox, fold_cdf, fold_lines, fold_raster, tenant_waits
from fairlead.record.units import count


@dataclass(frozen=True)
class RunReport:
    name: str
    metrics: Metrics
    lines: Lines
    jct_s: Cdf
    wait_s: Cdf
    waits: tuple[WaitBox, ...]
    raster: Raster
    gpus: int
    submission_s: float  #: from the first to the last submission
    cluster: str  #: in words
    run: Mapping[str, Any]  #: policy, placer, seed and options, as the journal has them

    @classmethod
    def fold(
        cls,
        name: str,
        journal: Journal,
        outcome: Outcome | None = None,
        metrics: Metrics | None = None,
    ) -> RunReport:
        """Pass what is folded already. Takes a second or two for a million jobs."""
        runs = fold_runs(journal)
        outcome = fold_outcome(journal, runs) if outcome is None else outcome
        return cls(
            name=name,
            metrics=fold_metrics(journal, outcome, runs) if metrics is None else metrics,
            lines=fold_lines(journal, outcome, runs),
            jct_s=fold_cdf(outcome.finish_s - journal.jobs.submit_s),
            wait_s=fold_cdf(wait_s(journal.jobs, outcome)),
            waits=tenant_waits(journal.jobs, outcome),
            raster=fold_raster(journal, runs),
            submission_s=float(np.ptp(journal.jobs.submit_s)) if len(journal.jobs.submit_s) else 0.0,
            gpus=journal.cluster.gpus,
            cluster=describe_cluster(journal.cluster),
            run=dict(journal.run),
        )


def describe_cluster(cluster: ClusterSpec) -> str:
    """`64 nodes, 512 GPUs: 64 of 8 V100`."""
    shapes = Counter((node.gpus, node.gpu_type) for node in cluster.nodes)
    parts = [f"{nodes:,} of {gpus} {kind or 'GPUs'}" for (gpus, kind), nodes in shapes.most_common(6)]
    if len(shapes) > 6:
        parts.append(f"{count(len(shapes) - 6, 'more shape')}")
    return f"{count(len(cluster.nodes), 'node')}, {count(cluster.gpus, 'GPU')}: {', '.join(parts)}"
