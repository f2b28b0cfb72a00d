"""The compiled HiveD against the obvious one: the same journal on random clusters and workloads, with nodes that fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fairlead.kernels import rows
from fairlead.model.cluster import ClusterSpec, TenantSpec, parse_cluster_shape
from fairlead.policy.hived.algorithm import Hived
from fairlead.policy.hived.check import broken_rules
from fairlead.policy.hived.compiled import FINISH_ROW, KILL_ROW, NODE_DOWN_ROW, NODE_UP_ROW
from fairlead.sim.run import Run, simulate
from fairlead.workload.generate import generate
from fairlead.workload.trace import Names, Trace
from hived.random_cells import random_run
from test_against_reference import rows_of

ORDERS = ("fifo", "fifo-backfill", "sjf", "smallest-first", "tiresias,thresholds=8/20", "srtf", "las", "priority")


def both(seed: int) -> tuple[Run, Run]:
    trace, cluster, options = random_run(seed)
    order = ORDERS[seed % len(ORDERS)]
    return tuple(  # type: ignore[return-value]
        simulate(trace, cluster, f"{policy}:order={order}", options=options) for policy in ("hived", "hived-exact")
    )


def check(seeds: range) -> None:
    preempted, killed = 0, 0
    for seed in seeds:
        fast, exact = both(seed)
        assert rows_of(fast) == rows_of(exact), f"seed {seed}"
        assert fast.journal.sha256 == exact.journal.sha256
        preempted += fast.preemptions
        killed += int((fast.journal.kind == KILL_ROW).sum())
    assert preempted > len(seeds), "the workloads ask too little of it"
    assert killed > len(seeds) // 4


@pytest.mark.parametrize("part", range(8))
def test_the_compiled_one_writes_the_same_journal_as_the_obvious_one(part: int) -> None:
    check(range(50 * part, 50 * (part + 1)))


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_it_does_so_on_thousands_of_workloads(part: int) -> None:
    check(range(10_000 + 400 * part, 10_000 + 400 * (part + 1)))


@pytest.mark.parametrize("policy", ["hived", "hived-exact"])
def test_philly_like_jobs_of_twelve_tenants(policy: str) -> None:
    trace = generate("philly-like", seed=2, jobs=400, gpus=256, load=1.2)
    runs = [simulate(trace, parse_cluster_shape("32x8"), f"{one}:vcs=demand") for one in (policy, "hived")]
    assert rows_of(runs[0]) == rows_of(runs[1])
    assert (runs[0].outcome.finish_s > 0).sum() > 390


def test_every_rule_of_cells_holds_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0

    def watched(name: str) -> Callable[..., Any]:
        does = getattr(Hived, name)

        def step(self: Hived, *args: Any) -> Any:
            nonlocal steps
            result = does(self, *args)
            if name != "claim" or result is None or not any(gpu.user for gpu in result.gpus()):
                steps += 1
                assert broken_rules(self) == []
            return result

        return step

    for name in ("claim", "settle", "end", "set_priority"):
        monkeypatch.setattr(Hived, name, watched(name))
    for seed in range(40):
        trace, cluster, options = random_run(seed)
        simulate(trace, cluster, f"hived-exact:order={ORDERS[seed % len(ORDERS)]}", options=options)
    assert steps > 1000


def test_a_broken_rule_is_found() -> None:
    cluster = ClusterSpec(parse_cluster_shape("2x4").nodes, tenants={"a": TenantSpec("a", 8)})
    trace = Trace(np.zeros(1), np.ones(1, np.int32), np.ones(1), tenant=Names(np.zeros(1, np.int32), ("a",)))
    simulate(trace, cluster, "hived-exact")
    from fairlead.model.cell_shares import owned_cells

    hived = Hived(owned_cells(cluster, {}))
    assert broken_rules(hived) == []
    chain = next(iter(hived.chains.values()))
    chain.free.remove(chain.all[chain.top][0])
    chain.all[1][0].priority = 5
    assert len(broken_rules(hived)) >= 3


def test_the_kinds_of_rows_that_it_reads_are_the_cores() -> None:
    core = (rows.FINISH_ROW, rows.KILL_ROW, rows.NODE_DOWN_ROW, rows.NODE_UP_ROW)
    assert core == (FINISH_ROW, KILL_ROW, NODE_DOWN_ROW, NODE_UP_ROW)
    assert sorted([rows.FINISH_ROW, rows.FAIL_ROW, rows.GIVE_UP_ROW, rows.KILL_ROW]) == [4, 5, 6, 7]
