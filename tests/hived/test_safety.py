"""A legal request never fails: a million random ones, on random clusters, with and without failing nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead.model.cells import CellsSpec
from fairlead.policy.hived import churn as module
from fairlead.policy.hived.churn import Churned, churn
from fairlead.policy.hived.layout import Layout
from fairlead.policy.hived.tables import H_LEVELS, L_LEFT, LEVEL_SIZE
from fairlead.sim.claims.claim_13 import FAILING, churned
from fairlead.sim.claims.random_cells import random_spec


def cells(seed: int) -> CellsSpec:
    spec = random_spec(np.random.Generator(np.random.PCG64(seed)), ("a", "b", "c")).cells
    assert spec is not None
    return spec


def test_a_million_steps_with_healthy_nodes() -> None:
    found = churned(trees=200, steps=5_000, failing=0)
    assert found.steps == 1_000_000
    assert (found.denied, found.wrongly_denied, found.unsafe) == (0, 0, 0)
    assert found.granted == found.asked


def test_a_million_steps_with_failing_nodes() -> None:
    found = churned(trees=200, steps=6_500, failing=FAILING)
    assert found.steps > 1_000_000
    assert (found.wrongly_denied, found.unsafe) == (0, 0)
    assert 0 < found.denied < found.asked / 10
    assert found.turned > 100_000


def test_every_other_step_a_node_fails() -> None:
    found = churned(trees=40, steps=2_000, failing=2)
    assert (found.wrongly_denied, found.unsafe) == (0, 0)
    assert found.turned > 30_000


def test_more_than_the_cluster_has_is_found_out() -> None:
    """The same search, with owners that do not fit: so it can fail."""
    spec = cells(3)
    total = Churned(0, 0, 0, 0, 0, 0, 0)
    for seed in range(20):
        spec = cells(seed)
        doubled = {
            name: replace(vc, cells=tuple(replace(quota, count=2 * quota.count + 1) for quota in vc.cells))
            for name, vc in spec.virtual.items()
        }
        total += churn(replace(spec, virtual=doubled), seed, 500)
    assert total.unsafe > 0
    assert total.denied > 0


def test_a_miscounted_level_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(spec: CellsSpec) -> Layout:
        layout = made(spec)
        for row in range(len(layout.levels)):
            layout.x[layout.x[H_LEVELS] + row * LEVEL_SIZE + L_LEFT] -= 1
        return layout

    made = module.tables_of
    monkeypatch.setattr(module, "tables_of", short)
    assert sum(churn(cells(seed), seed, 200).unsafe for seed in range(10)) > 0
