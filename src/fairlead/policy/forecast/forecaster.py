"""Which jobs are alike, the tables that the core learns in, and the training of the tree at the moments the run stops for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.kernels import forecast as k
from fairlead.kernels.columns import I4, I8, Desk, Log
from fairlead.kernels.desk import empty_desk
from fairlead.kernels.rows import FINISH_ROW
from fairlead.model.errors import InputError
from fairlead.model.suggest import unknown
from fairlead.policy.forecast.tree import Tree, grow

#: what a policy with predicted durations takes beside its own parameters
FORECAST_PARAMETERS: Mapping[str, Any] = {"by": "all", "model": "tree", "window": 10.0, "retrain_s": 86400.0}
MODELS = {"mean": k.MEAN, "moving": k.MOVING, "harmonic": k.HARMONIC, "tree": k.TREE}
#: what jobs can be alike in, coarse to fine
LABELS = ("tenant", "user", "group", "gpu")

#: the tree: so deep, no leaf of fewer jobs, learnt from so many that ended last; before it has so many, the mean
DEPTH = 8
LEAST = 20
SAMPLE = 20_000
ENOUGH = 50
_MOST_NODES = 2 ** (DEPTH + 1)


@dataclass(frozen=True)
class Labels:
    """What is known of each job when it is submitted. Codes are dense, -1 for no name; None: the trace has no such column."""

    gpu_milli: I4
    tenant: I4 | None = None
    user: I4 | None = None
    group: I4 | None = None

    def column(self, name: str) -> I4 | None:
        found: I4 | None = self.gpu_milli if name == "gpu" else getattr(self, name)
        return found

    @property
    def present(self) -> tuple[str, ...]:
        return tuple(name for name in LABELS if self.column(name) is not None)


class Forecaster:
    """One model of durations, for one run."""

    def __init__(self, values: Mapping[str, Any], labels: Labels) -> None:
        if values["model"] not in MODELS:
            raise unknown("model of durations", str(values["model"]), MODELS)
        self.model = MODELS[values["model"]]
        self.window, self.retrain_s = int(values["window"]), float(values["retrain_s"])
        if self.window < 1 or values["window"] != self.window:
            raise InputError(
                "a window is a number of jobs", column="window", value=values["window"], accepts="1 or more"
            )
        if not self.retrain_s > 0:
            raise InputError("this is no time", column="retrain_s", value=self.retrain_s, accepts="seconds above 0")
        self.by = levels(str(values["by"]), labels)
        self.labels = labels
        self.tree: Tree | None = None
        self._ended: list[I4] = []
        self._rows = 0

    @property
    def trains(self) -> bool:
        return self.model == k.TREE

    def desk(self) -> Desk:
        """The tables, before anything has happened."""
        keys = job_keys([self.labels.column(name) for name in self.by])
        jobs, count = len(self.labels.gpu_milli), int(keys.max(initial=-1)) + 1
        rows = max(jobs, count, _MOST_NODES if self.trains else 1)
        ints = np.zeros((k.I_KEY + len(keys), rows), np.int64)
        ints[k.I_KEY :, :jobs] = keys
        ring = self.window if self.model == k.MOVING else 0
        looks = 1 + k.PER_LEVEL * len(keys) if self.trains else 0
        cells = np.zeros(k.FORECAST_CELLS, np.int64)
        cells[[k.F_LEVELS, k.F_MODEL, k.F_WINDOW]] = len(keys), self.model, self.window
        return empty_desk(0, 0, ints, np.zeros((k.D_RING + ring + looks, rows)), cells)

    def train(self, log: Log, rows: int, desk: Desk) -> None:
        """Grow the tree anew from the jobs that ended last, as far as the log goes, and put it on the desk."""
        fresh = slice(self._rows, rows)
        self._rows = rows
        self._ended.append(log.what[1, fresh][log.what[0, fresh] == FINISH_ROW])
        ended = np.concatenate(self._ended)[-SAMPLE:]
        self._ended = [ended]
        if len(ended) < ENOUGH:
            return
        x, y = desk.floats[k.D_RING :, ended], desk.floats[k.D_LEARNT, ended]
        self.tree = grow(x, y, depth=DEPTH, least=LEAST)
        size = len(self.tree.feature)
        desk.ints[k.I_FEATURE, :size] = self.tree.feature
        desk.ints[k.I_CHILD, :size] = self.tree.child
        desk.floats[k.D_LIMIT, :size] = self.tree.limit
        desk.cells[k.F_NODES] = size


def levels(by: str, labels: Labels) -> tuple[str, ...]:
    """`user+group+gpu` as names; `all` is what the trace has of these, the tenant standing in where it names no users."""
    if by == "all":
        return tuple(name for name in labels.present if name != "tenant" or "user" not in labels.present)
    names = tuple(name.strip() for name in by.split("+"))
    for name in names:
        if name not in LABELS:
            raise unknown("label of jobs", name, LABELS)
        if name not in labels.present:
            raise InputError("the trace has no such column", column="by", value=name, accepts="+".join(labels.present))
    if list(names) != [name for name in LABELS if name in names]:
        raise InputError("labels go from coarse to fine, each once", column="by", value=by, accepts="+".join(LABELS))
    return names


def job_keys(columns: Sequence[I4 | None]) -> I8:
    """[level, job]: who is alike in the first label, in the first two, and so on, numbered through all levels."""
    rows: list[I8] = []
    taken = 0
    before: I8 | None = None
    for column in columns:
        assert column is not None
        code = column.astype(np.int64) + 1
        if before is not None:
            code += before * (int(code.max(initial=0)) + 1)
        before = np.unique(code, return_inverse=True)[1].astype(np.int64)
        rows.append(before + taken)
        taken += int(before.max(initial=-1)) + 1
    return np.array(rows, np.int64)
