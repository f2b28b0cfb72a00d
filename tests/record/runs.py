"""Reports to look at: the same random workload under a few made-up policies, with any names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fairlead.record.report import RunReport

from .build import random_journal


def reports(names: Sequence[str], tenants: Sequence[str] = ("t0", "t1", "t2"), jobs: int = 40) -> list[RunReport]:
    out = []
    for seed, name in enumerate(names):
        journal = random_journal(seed, jobs=jobs, tenants=len(tenants), nodes=4)
        table = replace(journal.jobs, tenant_names=tuple(tenants))
        run = {"policy": name, "placer": "consolidate", "seed": seed, "options": {"strict": True}}
        out.append(RunReport.fold(name, replace(journal, jobs=table, run=run)))
    return out
