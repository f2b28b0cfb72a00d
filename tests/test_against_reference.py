"""The compiled core equals the slow reference, job by job and row by row, on random small workloads.

Each case draws a cluster, a trace and options from its seed; a failure names the seed, which is all that is needed to
repeat it. `NUMBA_DISABLE_JIT=1` runs the same cases without compilation (tests/test_without_compilation.py does).
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairlead.model.event import EventKind
from fairlead.sim.run import Run, simulate
from fairlead.state.rules import Options
from fairlead.workload.trace import Trace
from reference import Options as ReferenceOptions
from reference import simulate as reference_simulate
from reference.workloads import random_case, random_features

#: per policy: variants of its parameters, as (text for the core, parameters for the reference)
POLICIES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "fifo": [("", {}), (":strict=false", {"strict": False})],
    "fifo-backfill": [("", {}), (":strict=true", {"strict": True})],
    "easy-backfill": [
        ("", {}),
        (":estimate=actual", {"estimate": "actual"}),
        (":strict=true", {"strict": True}),
        (":estimate=predicted,model=moving", {"estimate": "predicted", "model": "moving"}),
    ],
    "sjf": [
        ("", {}),
        (":preempt=true", {"preempt": True}),
        (":strict=true", {"strict": True}),
        (":estimate=predicted,model=mean", {"estimate": "predicted", "model": "mean"}),
        (
            ":estimate=predicted,model=moving,window=2,preempt=true",
            {"estimate": "predicted", "model": "moving", "window": 2, "preempt": True},
        ),
        (":estimate=predicted,model=harmonic", {"estimate": "predicted", "model": "harmonic"}),
    ],
    "srtf": [("", {}), (":quantum=3", {"quantum": 3.0}), (":strict=true", {"strict": True})],
    "srsf": [("", {}), (":quantum=8", {"quantum": 8.0})],
    "smallest-first": [("", {}), (":preempt=true", {"preempt": True})],
    "las": [
        (":quantum=1", {"quantum": 1.0}),
        (":quantum=4", {"quantum": 4.0}),
        (":quantum=0", {"quantum": None}),
        ("", {}),
    ],
    "priority": [("", {}), (":preempt=true", {"preempt": True})],
    "fair-share": [("", {}), (":half_life_s=16", {"half_life_s": 16.0}), (":strict=true", {"strict": True})],
    "drf": [("", {})],
    "quota": [("", {}), (":strict=false", {"strict": False})],
    "yarn-cs": [("", {}), (":preempt=false", {"preempt": False}), (":strict=false", {"strict": False})],
    "tiresias": [
        ("", {}),
        (":thresholds=8", {"thresholds": [8.0]}),
        (":thresholds=4/16/64,knob=2", {"thresholds": [4.0, 16.0, 64.0], "knob": 2.0}),
        (":thresholds=6,knob=0.5,strict=true", {"thresholds": [6.0], "knob": 0.5, "strict": True}),
    ],
}
PLACERS: list[tuple[str, str, dict[str, Any]]] = [
    ("consolidate", "", {}),
    ("consolidate", ":relaxed=true", {"relaxed": True}),
    ("spread", "", {}),
    ("first-fit", "", {}),
    ("random", "", {}),
    ("rack", "", {}),
    ("rack", ":within=rack", {"within": "rack"}),
    ("fragmentation", "", {}),
    ("balance", "", {}),
    ("balance", ":gpu=2,cpu=0.5,memory=0", {"gpu": 2.0, "cpu": 0.5, "memory": 0.0}),
    ("reserve-and-pack", "", {}),
    ("reserve-and-pack", ":keep=0.5,gpus=3", {"keep": 0.5, "gpus": 3}),
    ("reserve-and-pack", ":waits=true", {"waits": True}),
]
#: "rough" times cannot be added exactly in two orders, so two right simulators may differ on them
EXACT = (
    "types", "cpu", "shares", "tenants", "priorities", "estimates", "failures", "node-events", "costs", "levels", "speeds",
)  # fmt: skip
CASES = int(os.environ.get("FAIRLEAD_REFERENCE_CASES", "8"))


def rows_of(run: Run) -> list[tuple[float, EventKind, int, Any]]:
    journal = run.journal
    rows = []
    for t, kind, subject, arg in zip(
        journal.time_s.tolist(), journal.kind.tolist(), journal.job.tolist(), journal.arg.tolist()
    ):
        detail: Any = arg
        if kind == EventKind.START:
            count = max(int(journal.jobs.gpus[subject]), 1)
            detail = tuple(sorted(journal.gpu_ids[arg : arg + count].tolist()))
        rows.append((t, EventKind(kind), subject, detail))
    return rows


def in_powers_of_two(trace: Trace) -> Trace:
    """The time to reach a service is service / GPUs: exact in floating point for these sizes, and rounded for others."""

    def down(column: np.ndarray[Any, np.dtype[np.int32]], unit: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        return np.array([v and unit << ((int(v) // unit).bit_length() - 1) for v in column], np.int32)

    shares, gpus, nodes = trace.gpu_share_milli, down(trace.gpus, 1), trace.num_nodes
    return replace(
        trace,
        gpus=gpus,
        gpu_share_milli=None if shares is None else down(shares, 125),
        num_nodes=None if nodes is None else np.minimum(down(nodes, 1), gpus),
    )


def check(policy: str, placer: str, variant: int, seed: int, more: frozenset[str] = frozenset()) -> None:
    text, params = POLICIES[policy][variant]
    name, placer_text, placer_params = next(p for p in PLACERS if p[0] + p[1] == placer)
    features = random_features(seed, EXACT) | more
    if ":within" in placer_text:
        features |= {"levels"}
    trace, cluster, wanted = random_case(seed, features)
    if policy == "tiresias":
        trace = in_powers_of_two(trace)
    quantum = params.get("quantum") or (3600.0 if policy == "las" and "quantum" not in params else None)
    if quantum and wanted.resume_cost_s >= quantum:
        wanted = ReferenceOptions(**{**wanted.__dict__, "resume_cost_s": 0.0})
    options = Options(
        seed=wanted.seed,
        start_cost_s=wanted.start_cost_s,
        resume_cost_s=wanted.resume_cost_s,
        job_failures=wanted.job_failures,
        retries=wanted.retries,
        checkpoint_s=wanted.checkpoint_s or 0.0,
        node_events=tuple(wanted.node_events),
    )
    want = reference_simulate(trace, cluster, policy, params, name, placer_params, wanted)
    got = simulate(trace, cluster, policy + text, name + placer_text, options)
    where = f"{policy}{text} {name}{placer_text} seed {seed} features {sorted(features)}"
    got_rows = rows_of(got)
    for i, (a, b) in enumerate(zip(want.rows, got_rows)):
        assert a == b, f"{where}: row {i} of {len(want.rows)}: want {a}, got {b}"
    assert len(want.rows) == len(got_rows), f"{where}: {len(want.rows)} rows wanted, {len(got_rows)} got"
    np.testing.assert_array_equal(got.outcome.start_s, want.start_s, err_msg=where)
    np.testing.assert_array_equal(got.outcome.finish_s, want.finish_s, err_msg=where)
    np.testing.assert_array_equal(got.outcome.preemptions, want.preemptions, err_msg=where)
    np.testing.assert_array_equal(got.outcome.refused, want.refused, err_msg=where)


@pytest.mark.parametrize("placer", [p[0] + p[1] for p in PLACERS])
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_the_core_equals_the_reference(policy: str, placer: str) -> None:
    for variant in range(len(POLICIES[policy])):
        for case in range(CASES):
            check(policy, placer, variant, seed=1000 * variant + case)


@pytest.mark.parametrize("placer", [p[0] + p[1] for p in PLACERS])
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_it_does_where_jobs_say_where_they_must_be_and_that_they_stay(policy: str, placer: str) -> None:
    for variant in range(len(POLICIES[policy])):
        for case in range(max(CASES // 2, 1)):
            levels = {"levels"} if case % 4 else set()
            check(policy, placer, variant, 20_000 + 1000 * variant + case, frozenset({"fixed", "bounds"} | levels))
