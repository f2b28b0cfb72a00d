"""Generators by name: one function each, whose keyword arguments are the parameters that people can set."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairlead.model.errors import InputError
from fairlead.model.suggest import unknown
from fairlead.workload.trace import Trace

Make = Callable[..., Trace]


@dataclass(frozen=True)
class Generator:
    """A registered generator. `parameters` maps each keyword to its default."""

    name: str
    summary: str
    parameters: dict[str, object]
    make: Make


_BY_NAME: dict[str, Generator] = {}


def generator(name: str) -> Callable[[Make], Make]:
    """Register `make(rng, *, keyword=default, ...) -> Trace`; its docstring's first line is the summary."""

    def register(make: Make) -> Make:
        if name in _BY_NAME:
            raise ValueError(f"two generators are called {name!r}")
        keywords = list(inspect.signature(make).parameters.values())[1:]
        summary = (make.__doc__ or "").strip().partition("\n")[0]
        _BY_NAME[name] = Generator(name, summary, {p.name: p.default for p in keywords}, make)
        return make

    return register


def generators() -> tuple[Generator, ...]:
    """All of them, by name."""
    return tuple(_BY_NAME[name] for name in sorted(_BY_NAME))


def generate(
    name: str,
    *,
    seed: int,
    jobs: int | None = None,
    days: float | None = None,
    gpus: int | None = None,
    load: float | None = None,
    **params: object,
) -> Trace:
    """A workload of the named kind; the same arguments (and numpy version) give the same bytes.

    `gpus` is the cluster that it is meant for and `load` the GPU time offered over that cluster's GPU time,
    from the first submission to the last. `jobs` and `load` fix the time span; `days` and `load` fix the
    number of jobs; `jobs` and `days` fix the load. What is left out takes the generator's own default.
    """
    found = _BY_NAME.get(name)
    if found is None:
        raise unknown("generator", name, _BY_NAME)
    common = {"jobs": jobs, "days": days, "gpus": gpus, "load": load}
    given = {key: value for key, value in common.items() if value is not None} | params
    for key in given:
        if key not in found.parameters:
            raise unknown(f"parameter of {name}", key, found.parameters)
    _check_common(given)
    if seed < 0:
        raise InputError("a seed can't be negative", value=seed, accepts="a whole number from 0")
    return found.make(np.random.Generator(np.random.PCG64(seed)), **given)


def _check_common(given: dict[str, object]) -> None:
    for key in ("jobs", "gpus"):
        value = given.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{key} must be a whole number from 1", column=key, value=value)
    for key in ("days", "load"):
        value = given.get(key, 1.0)
        if not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise InputError(f"{key} must be a number above 0", column=key, value=value)
