"""What people name on the command line, read: traces, generated workloads, clusters, lists of policies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.cli.render import say
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from fairlead.model.cluster import ClusterSpec
    from fairlead.workload.readers import Loaded
    from fairlead.workload.trace import Trace

GENERATED = "gen:"
_GENERATED_FORM = "gen:NAME:key=value,... such as gen:philly-like:jobs=100000,gpus=6400,load=0.92,seed=1"
#: bad rows are counted all, shown so many
_SHOWN_BAD = 10


@dataclass(frozen=True)
class Source:
    """A trace in memory and the seconds that took."""

    trace: Trace
    load_s: float


def read_source(
    names: Sequence[str],
    *,
    format: str | None = None,
    skip_bad: bool = False,
    limit: int | None = None,
    seed: int = 0,
) -> Source:
    """Files, a folder, or `gen:NAME:key=value,...`. `seed` is the generator's, where its own text names none."""
    started = time.perf_counter()
    if any(name.startswith(GENERATED) for name in names):
        if len(names) > 1:
            raise InputError("a generated workload stands alone", value=" ".join(names), accepts=_GENERATED_FORM)
        if format is not None:
            raise InputError("a generated workload has no format", file="--format", value=format)
        trace = _generated(names[0], seed)
        if limit is not None:
            trace = first_jobs(trace, limit)
    else:
        loaded = _loaded(names, format, skip_bad, limit)
        _tell_bad(loaded)
        trace = loaded.trace
    return Source(trace, time.perf_counter() - started)


def _loaded(names: Sequence[str], format: str | None, skip_bad: bool, limit: int | None) -> Loaded:
    from fairlead.workload.readers import load_trace

    return load_trace(names[0] if len(names) == 1 else names, format=format, skip_bad=skip_bad, limit=limit)


def _tell_bad(loaded: Loaded) -> None:
    """The rows that could not be read, on stderr; the trace's notes say what else is not in it."""
    from fairlead.record.units import count

    if loaded.bad_count:
        say(f"skipped {count(loaded.bad_count, 'bad row')}:")
        for row in loaded.bad[:_SHOWN_BAD]:
            say(f"  {row.error()}")
        if loaded.bad_count > _SHOWN_BAD:
            say(f"  and {loaded.bad_count - _SHOWN_BAD:,} more")


def _generated(text: str, seed: int) -> Trace:
    from fairlead.workload.generate import generate

    name, _, tail = text.removeprefix(GENERATED).partition(":")
    values = settings(tail.split(",") if tail else (), accepts=_GENERATED_FORM)
    own_seed = values.pop("seed", seed)
    if not isinstance(own_seed, int):
        raise InputError("a seed is a whole number", column="seed", value=own_seed, accepts="0 or more")
    return replace(made(generate, name, own_seed, values), source=text)


def made(generate: Callable[..., Trace], name: str, seed: int, values: dict[str, Any]) -> Trace:
    """A generator's workload; what it can't make of its parameters is the fault of whoever set them."""
    try:
        return generate(name, seed=seed, **values)
    except (TypeError, ValueError, OverflowError) as error:
        given = ",".join(f"{key}={value}" for key, value in values.items())
        raise InputError(
            f"{name} can't be made so: {error}", value=given, accepts="see fairlead trace generate --list"
        ) from None


def settings(items: Iterable[str], *, accepts: str = "key=value") -> dict[str, Any]:
    """`key=value` each, the value as the number or switch that it looks like; `a/b` is a list."""
    found: dict[str, Any] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise InputError("a setting is written key=value", value=item, accepts=accepts)
        found[key.strip()] = _plain(value.strip())
    return found


def _plain(text: str) -> object:
    if "/" in text:
        return tuple(_plain(part) for part in text.split("/"))
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def first_jobs(trace: Trace, limit: int) -> Trace:
    if limit < 1:
        raise InputError("the limit is too small", value=limit, accepts="1 or more")
    from fairlead.workload.trace import Names

    cut: dict[str, Any] = {}
    for name, column in trace.columns().items():
        if isinstance(column, Names):
            cut[name] = Names(column.codes[:limit], column.values)
        else:
            cut[name] = column[:limit]
    return replace(trace, **cut)


def scaled(trace: Trace, load: float) -> Trace:
    """The same jobs submitted `load` times as fast."""
    return trace if load == 1.0 else replace(trace, submit_s=trace.submit_s / load)


def read_cluster(text: str) -> ClusterSpec:
    from fairlead.workload.clusters import load_cluster

    return load_cluster(text)


def with_quotas(cluster: ClusterSpec, quotas: Sequence[str], trace: Trace) -> ClusterSpec:
    """The cluster with the quotas of `TENANT=GPUS` over those of its file."""
    if not quotas:
        return cluster
    from fairlead.model.cluster import TenantSpec

    tenants = dict(cluster.tenants)
    for item in quotas:
        name, equals, gpus = item.rpartition("=")
        if not equals or not gpus.isdigit():
            raise InputError("this is no quota", file="--quota", value=item, accepts="TENANT=GPUS, such as team-a=64")
        _check_tenant(name, tenants, trace)
        tenants[name] = replace(tenants.get(name, TenantSpec(name)), quota_gpus=int(gpus))
    return replace(cluster, tenants=tenants)


def _check_tenant(name: str, tenants: dict[str, Any], trace: Trace) -> None:
    """A misspelt tenant would be a quota that holds for nobody."""
    from fairlead.model.suggest import unknown

    if trace.tenant is None:
        raise InputError("the trace names no tenants, so a quota would hold for nobody", file="--quota", value=name)
    if name not in tenants and name not in trace.tenant.values:
        raise unknown("tenant", name, trace.tenant.values)


def split_policies(text: str) -> list[str]:
    """`a,b:x=1,y=2,c` is three: a piece that is only key=value belongs to the one before it."""
    found: list[str] = []
    for piece in text.split(","):
        setting = "=" in piece and ":" not in piece.partition("=")[0]
        if setting and found:
            found[-1] += f",{piece}"
        elif piece.strip():
            found.append(piece.strip())
    return found


def numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError("this is no list of numbers", file=option, value=text, accepts="e.g. 0.8,1,1.2") from None


def output_file(path: Path | None, *endings: str) -> Path | None:
    """Complain now rather than after the run where this can't be written."""
    if path is None:
        return None
    if path.is_dir():
        raise InputError("this is a folder", file=str(path), accepts="the name of a file")
    if endings and not path.name.endswith(endings):
        raise InputError("this kind of file can't be written", file=str(path), accepts=" or ".join(endings))
    if not path.parent.is_dir():
        raise InputError("there is no such folder", file=str(path.parent), accepts="a folder that exists")
    return path
