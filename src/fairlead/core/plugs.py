"""Choosing and preparing what is plugged into the core: parsing `name:key=value,…`, working out traits, compiling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np

from fairlead.kernels.columns import (
    COMPILED_PLANNER,
    F8,
    PLANNER,
    Cluster,
    Desk,
    JobRow,
    Jobs,
    Log,
    PlanFunction,
    Plug,
    Queue,
    TenantRow,
)
from fairlead.kernels.desk import empty_desk
from fairlead.kernels.jit import PACKAGE, compiled_as, one_compiles, settle_types
from fairlead.kernels.signatures import JOB_FUNCTION, PLACE_FUNCTION, PLAN_FUNCTION, TENANT_FUNCTION, TYPES
from fairlead.model.cluster import ClusterSpec
from fairlead.model.errors import InputError
from fairlead.model.suggest import unknown
from fairlead.placement.base import Placer
from fairlead.placement.registry import find_placer
from fairlead.policy.base import (
    COMMON_PARAMETERS,
    CompiledPlanner,
    History,
    Memo,
    Planner,
    Policy,
    QueuePolicy,
    changes_of,
)
from fairlead.policy.forecast import FORECAST_PARAMETERS, Forecaster
from fairlead.policy.registry import find_policy
from fairlead.state.rules import Traits
from fairlead.state.state import State
from fairlead.state.view import View

_CHANGES = {"never": 0, "running": 1, "always": 2}


@dataclass(frozen=True)
class Choice:
    """A policy or placer as someone asked for it: its name and the parameters they set."""

    name: str
    values: Mapping[str, str]

    def __str__(self) -> str:
        return self.name + ("" if not self.values else ":" + ",".join(f"{k}={v}" for k, v in self.values.items()))


def parse_choice(text: str) -> Choice:
    """`name`, `name:key=value,key=value` or `file.py:Class:key=value`."""
    head, colon, tail = text.partition(":")
    if head.endswith(".py"):
        cls, colon, tail = tail.partition(":")
        head = f"{head}:{cls}"
    values: dict[str, str] = {}
    for item in tail.split(",") if colon else ():
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise InputError("a parameter is written key=value", value=item, accepts="name:key=value,key=value")
        values[key.strip()] = value.strip()
    return Choice(head, values)


def _as(kind: object, name: str, text: str) -> Any:
    if isinstance(kind, bool):
        if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise InputError("this parameter is a switch", column=name, value=text, accepts="true or false")
        return text.lower() in ("true", "1", "yes")
    if isinstance(kind, int | float):
        try:
            return float(text)
        except ValueError:
            raise InputError("this parameter is a number", column=name, value=text, accepts="a number") from None
    return text


def _values(choice: Choice, parameters: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    known = {**parameters, **common}
    for key in choice.values:
        if key not in known:
            raise unknown(f"parameter of {choice.name}", key, known)
    return {k: _as(v, k, choice.values[k]) if k in choice.values else v for k, v in known.items()}


def _zero(job: JobRow, now: float, p: F8) -> float:
    return 0.0


def _never(job: JobRow, now: float, p: F8) -> float:
    return np.inf


def _no_group(tenant: TenantRow, now: float, p: F8) -> float:
    return 0.0


@cache
def _job_function(function: Callable[..., Any]) -> Callable[..., Any]:
    return compiled_as(JOB_FUNCTION, cached=_ours(function), for_python=False)(function)


@cache
def _tenant_function(function: Callable[..., Any]) -> Callable[..., Any]:
    return compiled_as(TENANT_FUNCTION, cached=_ours(function), for_python=False)(function)


def _no_plan(c: Cluster, j: Jobs, q: Queue, log: Log, desk: Desk, now: float) -> float:
    return np.inf


@cache
def _plan_function(function: Callable[..., Any]) -> Callable[..., Any]:
    compile_it = compiled_as(PLAN_FUNCTION, cached=_ours(function), for_python=False)
    if not _ours(function):
        return compile_it(function)
    with one_compiles(function) as missing:
        if missing:
            settle_types(TYPES, function)
        return compile_it(function)


@cache
def _place_function(function: Callable[..., Any]) -> Callable[..., Any]:
    compile_it = compiled_as(PLACE_FUNCTION, cached=_ours(function))
    if not _ours(function):
        return compile_it(function)
    with one_compiles(function):
        return compile_it(function)


def _ours(function: Callable[..., Any]) -> bool:
    return function.__code__.co_filename.startswith(str(PACKAGE))


@dataclass(frozen=True)
class Functions:
    """What a policy and a placer are made of, as it is written."""

    order: type[QueuePolicy]
    p: F8
    pp: F8
    place: Callable[..., int]
    plan: Callable[..., float]

    def compiled(self) -> Plug:
        order = self.order
        return Plug(
            p=self.p,
            pp=self.pp,
            key=_job_function(getattr(order, "key", None) or _zero),
            level=_job_function(order.level or _zero),
            drift=_job_function(order.drift or _zero),
            wake=_job_function(order.wake or _never),
            resets=_job_function(order.resets or _zero),
            group=_tenant_function(order.group or _no_group),
            place=_place_function(self.place),
        )


@dataclass(frozen=True)
class Plugged:
    """A policy and a placer, ready to run."""

    policy: str
    placer: str
    functions: Functions = field(repr=False)
    traits: Traits
    planner: Planner | CompiledPlanner | None
    uses_estimates: bool
    forecaster: Forecaster | None = None

    @cached_property
    def plug(self) -> Plug:
        """What the core calls, compiled when that is first asked for."""
        return self.functions.compiled()

    @cached_property
    def plan(self) -> PlanFunction:
        return _plan_function(self.functions.plan)

    @property
    def our_place(self) -> Callable[..., int] | None:
        """The placer's function where it is one of ours, so that others can find it by its name."""
        return self.functions.place if _ours(self.functions.place) else None

    @property
    def uses_utilization(self) -> bool:
        return find_placer(parse_choice(self.placer).name).needs_utilization

    def take_over(self, state: State, now: float, memos: Mapping[int, Memo]) -> Desk:
        """A desk for a state in which jobs wait and run already."""
        if isinstance(self.planner, CompiledPlanner):
            return self.planner.take_over(View(state, now), memos)
        return self.desk(state)

    def recall(self, state: State, now: float, desk: Desk) -> Mapping[int, Memo]:
        """What the planner knows of jobs beyond where they stand."""
        if isinstance(self.planner, CompiledPlanner):
            return self.planner.recall(View(state, now), desk)
        return {}

    def desk(self, state: State) -> Desk:
        if isinstance(self.planner, CompiledPlanner):
            return self.planner.desk(View(state, 0.0))
        if self.forecaster is not None:
            return self.forecaster.desk()
        return empty_desk(0, 0)


def plug_in(policy: Choice, placer: Choice, history: History, cluster: ClusterSpec) -> Plugged:
    found, spot = find_policy(policy.name), find_placer(placer.name)
    placer_values = _values(placer, spot.parameters, {})
    pp = np.array([*spot.numbers(placer_values, cluster), 0.0])
    place, reach = spot.place, spot.reach(placer_values, cluster)
    gated, parts = spot.takes_fewest_nodes(placer_values), spot.needs_gpu_parts
    if issubclass(found, Planner | CompiledPlanner):
        return _plug_planner(policy, placer, found, history, (pp, place), (gated, parts, reach))
    common = {"strict": found.strict, "preempt": found.preempts, "quantum": found.quantum}
    assert set(common) == set(COMMON_PARAMETERS)
    values = _values(policy, found.parameters, common)
    found = found.variant(values)
    _check(found, values)
    p = np.array([*found.numbers(values, history), 0.0])
    forecaster = _forecaster(policy, values, history)
    traits = Traits(
        strict=values["strict"],
        preempts=values["preempt"],
        easy=found.easy,
        by_tenant=found.by_tenant,
        queues=found.queues,
        borrows=found.borrows,
        changes=_CHANGES[changes_of(found)],
        drifts=values["preempt"] and found.drift is not None,
        levels=found.level is not None,
        rises=_rises(found, p),
        timers=found.wake is not None,
        quantum=values["quantum"],
        half_life=float(values[found.half_life]) if found.half_life else 0.0,
        fewest_nodes=gated,
        gpu_parts=parts,
        reach=reach,
        retrain_s=0.0 if forecaster is None or not forecaster.trains else forecaster.retrain_s,
        forecasts=forecaster is not None,
    )
    uses_estimates = values.get("estimate") == "given"
    functions = Functions(found, p, pp, place, _no_plan)
    return Plugged(str(policy), str(placer), functions, traits, None, uses_estimates, forecaster)


def _forecaster(policy: Choice, values: Mapping[str, Any], history: History) -> Forecaster | None:
    """Who predicts durations, where the policy is to go by predictions."""
    if "estimate" not in values:
        return None
    estimate = values["estimate"]
    if estimate not in ("actual", "given", "predicted"):
        raise unknown("estimate", str(estimate), ("actual", "given", "predicted"))
    if estimate == "predicted":
        if history.labels is None:
            raise InputError(
                "there is no record of jobs that have ended to predict from", column="estimate", value=estimate,
                accepts="actual or given; predicted is for simulations",
            )  # fmt: skip
        return Forecaster(values, history.labels)
    for name in policy.values:
        if name in FORECAST_PARAMETERS:
            raise InputError(f"{name} is for predictions", column="estimate", value=estimate, accepts="predicted")
    return None


def _plug_planner(
    policy: Choice,
    placer: Choice,
    found: type[Planner] | type[CompiledPlanner],
    history: History,
    placing: tuple[F8, Callable[..., int]],
    placer_traits: tuple[bool, bool, int],
) -> Plugged:
    """Waiting jobs are ranked by the queue policy that the planner names, which does not preempt."""
    gated, parts, reach = placer_traits
    named = found.order(_values(_only(policy, found.parameters), found.parameters, {}))
    order = find_policy(named) if named else QueuePolicy
    if not issubclass(order, QueuePolicy):
        raise InputError(
            f"{found.name} can't be ordered by {named}", column="order", value=named, accepts="a queue policy"
        )
    values = _values(policy, {**order.parameters, **found.parameters}, {})
    order = order.variant(values)
    compiled, planner = issubclass(found, CompiledPlanner), found(values)
    traits = Traits(
        planned=COMPILED_PLANNER if compiled else PLANNER,
        tenant_classes=found.tenant_classes,
        priority_classes=found.priority_classes,
        own_quotas=found.own_quotas,
        changes=_CHANGES[changes_of(order)] if named else 0,
        levels=order.level is not None,
        timers=order.wake is not None,
        fewest_nodes=gated,
        gpu_parts=parts,
        reach=reach,
        packs=planner.packs,
        resizes=planner.resizes,
    )
    plan = found.plan if issubclass(found, CompiledPlanner) else _no_plan
    functions = Functions(order, np.array([*order.numbers(values, history), 0.0]), *placing, plan)
    return Plugged(str(policy), str(placer), functions, traits, planner, True)


def _only(choice: Choice, names: Mapping[str, Any]) -> Choice:
    return Choice(choice.name, {key: value for key, value in choice.values.items() if key in names})


def _rises(policy: type[QueuePolicy], p: F8) -> bool:
    """Whether a running job's key grows with time, judged by a job of one GPU that has run for a second."""
    sample = JobRow(0.0, 2.0, 2.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    return policy.drift is not None and policy.drift(sample, 1.0, p) > 0.0


def _check(policy: type[QueuePolicy], values: Mapping[str, Any]) -> None:
    if not hasattr(policy, "key"):
        raise InputError(f"policy class {policy.__name__} has no `key` function", accepts="key(job, now, p) -> number")
    if values["quantum"] < 0:
        raise InputError("a quantum is not negative", column="quantum", value=values["quantum"], accepts="0 or more")
    if policy.easy and values["preempt"]:
        raise InputError("EASY backfilling does not preempt", column="preempt", value=True, accepts="false")


__all__ = ["Choice", "Placer", "Plugged", "Policy", "parse_choice", "plug_in"]
