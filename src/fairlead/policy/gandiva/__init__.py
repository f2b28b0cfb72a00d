"""Gandiva (OSDI'18): time-slicing, packing, migration and grow-shrink, decided by what is seen of jobs as they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.kernels.columns import J_GIB, Q_RESUME_COST, Q_RESUME_PER_GIB, Desk
from fairlead.model.errors import InputError
from fairlead.policy.base import CompiledPlanner, Memo
from fairlead.policy.gandiva.handover import recall, take_over
from fairlead.policy.gandiva.plan import plan_gandiva
from fairlead.policy.gandiva.tables import lay_out
from fairlead.state.view import View


class Gandiva(CompiledPlanner):
    """Everybody runs: turns, shared GPUs where that pays, migration."""

    name = "gandiva"
    parameters = {
        "quantum": 60.0,
        "pack": True,
        "migrate": True,
        "grow": True,
        "idle": 60.0,
        "tries": 3.0,
        "spare": 1.0,
    }
    tenant_classes = True
    takes_over = True
    plan = staticmethod(plan_gandiva)

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.packs, self.resizes = bool(values["pack"]), bool(values["grow"])
        for name, low, accepts in (("quantum", 0.0, "seconds"), ("idle", None, "seconds"), ("tries", None, "a number")):
            value = values[name]
            if value < 0 or value == low:
                above = "0 or more" if low is None else "more than 0"
                raise InputError(
                    "gandiva can't work with this", column=name, value=value, accepts=f"{accepts}, {above}"
                )

    def desk(self, view: View) -> Desk:
        return lay_out(view, self._numbers(view))

    def take_over(self, view: View, memos: Mapping[int, Memo]) -> Desk:
        return take_over(view, self._numbers(view), memos)

    def recall(self, view: View, desk: Desk) -> Mapping[int, Memo]:
        return recall(view, desk)

    def _numbers(self, view: View) -> dict[str, float]:
        _, j, q = view.columns()
        memory_gib = float(j.floats[J_GIB].max(initial=0.0)) if q.limit[Q_RESUME_PER_GIB] else 0.0
        cost = float(q.limit[Q_RESUME_COST] + q.limit[Q_RESUME_PER_GIB] * memory_gib)
        quantum = float(self.values["quantum"])
        if quantum <= cost:
            raise InputError(
                "resuming a job would take as long as its turn, and nothing would ever finish",
                column="quantum",
                value=quantum,
                accepts=f"more than the resume cost, {cost} s",
            )
        return {name: float(value) for name, value in self.values.items()}


__all__ = ["Gandiva"]
