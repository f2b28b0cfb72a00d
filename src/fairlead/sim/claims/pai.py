"""What the claims of Alibaba's MLaaS paper share: its machines, and workloads like its own.

PAI's job tables could not be had. Its machine list could, and so could openb, Alibaba's pods of 2023.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.model.cluster import ClusterSpec, parse_cluster_shape
from fairlead.sim.claims.result import Ask
from fairlead.sim.claims.workloads import data_file
from fairlead.workload.clusters import load_cluster
from fairlead.workload.trace import Floats, Longs, Names, Trace

MACHINES = Path("cluster", "pai2020_machines.csv.gz")
#: of the machine list, so that a workload of a hundred thousand jobs fills it for days
EVERY = 5
#: the same machines where the list is not there, as the authors' simulator has them, its V100 in PAI's two kinds
BUILT_IN = "56x8@MISC+100x2@T4+160x2@P100+27x8@V100M32+21x8@V100"


def machines(ask: Ask) -> tuple[ClusterSpec, str]:
    """A fifth of PAI's machines, and what to call them."""
    if ask.data is None:
        return parse_cluster_shape(BUILT_IN), f"{BUILT_IN} (no data folder)"
    whole = load_cluster(str(data_file(ask.data, MACHINES)))
    fifth = replace(whole, nodes=whole.nodes[::EVERY])
    return fifth, f"every fifth of PAI's {len(whole.nodes):,} machines, {fifth.gpus:,} GPUs"


def taken(trace: Trace, jobs: Longs, submit_s: Floats) -> Trace:
    """These jobs of a trace, submitted at other times."""

    def of(column: Any) -> Any:
        return replace(column, codes=column.codes[jobs]) if isinstance(column, Names) else np.asarray(column)[jobs]

    columns = {name: of(column) for name, column in trace.columns().items()}
    return Trace(**{**columns, "submit_s": submit_s}, source=trace.source)
