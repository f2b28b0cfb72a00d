"""Claim 13: whoever asks for cells that he owns gets them, always."""

from __future__ import annotations

import numpy as np

from fairlead.policy.hived.churn import Churned, churn
from fairlead.sim.claims.random_cells import random_spec
from fairlead.sim.claims.result import Ask, Figure, Form, Result

TREES, STEPS = 200, 5_000
#: some steps come to nothing where nodes fail, so there are more
MORE_STEPS = 1.3
#: where nodes fail: one step in so many turns a node bad or healthy
FAILING = 8
OWNERS = ("a", "b", "c")


def churned(trees: int, steps: int, failing: int) -> Churned:
    """Random steps on random clusters, as many on each."""
    total = Churned(0, 0, 0, 0, 0, 0, 0)
    for seed in range(trees):
        cells = random_spec(np.random.Generator(np.random.PCG64(seed)), OWNERS).cells
        assert cells is not None
        total += churn(cells, seed, steps, failing)
    return total


def measure(ask: Ask) -> Result:
    trees, steps = (TREES, STEPS) if ask.jobs is None else (max(ask.jobs // 50, 2), 50)
    figures = []
    holds = True
    for name, failing in (("all nodes healthy", 0), ("nodes failing", FAILING)):
        found = churned(trees, int(steps * MORE_STEPS) if failing else steps, failing)
        wrong = found.wrongly_denied + (0 if failing else found.denied)
        holds = holds and not wrong and not found.unsafe
        figures.append(
            Figure(
                f"{name}, {found.steps:,} steps",
                ("requests refused that could have been granted", "steps after which somebody's claim was not covered"),
                (0, 0),
                (wrong, found.unsafe),
                form=Form.whole,
            )
        )
        if failing:
            share = found.denied / max(found.asked, 1)
            figures.append(
                Figure("requests that had to wait for healthy nodes", ("",), (None,), (share,), form=Form.share)
            )
    return Result(
        claim=13,
        title="Cells are safe",
        setting=(
            f"{trees} random clusters (GPUs in halves and quarters, nodes, racks, rows; one or two kinds of nodes) with random"
            f" feasible owners; {steps:,} random steps each ({int(steps * MORE_STEPS):,} with failing nodes): a cell that is owned and not in use is asked for, whole or in"
            f" part, or one in use is given back; with failing nodes one step in {FAILING} turns a node bad or healthy"
        ),
        figures=tuple(figures),
        differs=_DIFFERS,
        holds=holds,
    )


_DIFFERS = (
    "Nothing. The invariant is checked after every step in a stronger form than the original's (which compares each level"
    " by itself): that all owners together can have all they own at once. To keep it with failing nodes, two of the original's"
    " steps had to be narrowed. It binds a bad cell to a virtual cluster that is short of healthy ones even if a larger cell"
    " that another one owns must be split for it, and its relaxed split for bad nodes looks at the level that it splits only,"
    " not at those in between: here either is done only as far as the owners of the larger cells can spare them."
)
