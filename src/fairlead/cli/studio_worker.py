"""The studio's own process: reads a trace, or compares policies on one. The scheduler starts it and tells it what to do.

A line of JSON comes in; lines of JSON go out: {"at": 1, "part": 0.4} on the way, then {"done": ...} or {"problem": ...}.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from fairlead.cli.inputs import Source

_NICE = 15
_LONGEST = 500  #: of a value that is shown again
#: code, threads' stacks and what libraries set aside without using it
_OVERHEAD_BYTES = 2 << 30


def main() -> None:
    task: dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_scheduler, daemon=True).start()
    os.nice(_NICE)
    most = int(task["memory_bytes"]) + _OVERHEAD_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        _tell({"done": TASKS[task["task"]](task)})
    except InputError as error:
        _tell({"problem": _problem(error, task)})
    except MemoryError:
        _tell({"problem": _too_large(task)})
    sys.stdout.flush()
    os._exit(0)  # a library's threads must not keep it


def _end_with_the_scheduler() -> None:
    sys.stdin.buffer.read()
    os._exit(3)


def _tell(said: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(said, allow_nan=False) + "\n")
    sys.stdout.flush()


def _problem(error: InputError, task: Mapping[str, Any]) -> dict[str, Any]:
    value = (
        error.value if isinstance(error.value, bool | int | float | str) or error.value is None else str(error.value)
    )
    own = error.file is not None and error.file == task.get("path")
    return {
        "detail": error.what,
        # where the scheduler keeps it is nobody's business
        "file": str(task.get("name", "")) if own else None,
        "line": error.line,
        "field": error.column,
        "value": value[:_LONGEST] if isinstance(value, str) else value,
        "accepts": error.accepts,
    }


def _too_large(task: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "detail": f"it needs more memory than the {int(task['memory_bytes']) >> 20:,} MiB that it may have",
        "accepts": "fewer jobs or a smaller cluster, or a larger studio_memory",
    }


# -- what it does --------------------------------------------------------------------------------------------------------------


def check(task: Mapping[str, Any]) -> dict[str, Any]:
    """That it is a trace, and what is in it."""
    from fairlead.workload.describe import describe
    from fairlead.workload.readers import load_trace

    loaded = load_trace(Path(task["path"]))
    trace = loaded.trace
    found = describe(trace)
    return {
        "format": loaded.format,
        "jobs": found.jobs,
        "span_s": found.span_s,
        "gpu_hours": found.gpu_hours,
        "largest_gpus": int(trace.gpus.max()),
        "tenants": found.tenants,
        "notes": list(found.notes)[:20],
    }


def compare(task: Mapping[str, Any]) -> dict[str, Any]:
    from fairlead.cli.compare import SideBySide
    from fairlead.cli.options import SimOptions
    from fairlead.cli.work import check_choices, run_once
    from fairlead.sim.profiles import Profiles

    pairs = [(policy, placer) for policy in task["policies"] for placer in task["placers"]]
    check_choices(pairs)
    spec, source = _cluster(task["cluster"]), _source(task)
    options = SimOptions().options(spec, int(task["seed"]))
    side = SideBySide()
    for at, (policy, placer) in enumerate(pairs):
        _tell({"at": at, "part": 0.0})
        done = run_once(source, spec, policy, placer, options, Profiles(), _progress(at))
        side.add(done, str(task["cluster_name"]), charts=True)
        del done
    _tell({"at": len(pairs), "part": 0.0})
    report = side.report(workload=task["workload"], title=task.get("title", ""))
    report.write(Path(task["folder"]) / "report.html")
    kept = ("policy", "placer", "jobs", "finished", "makespan_s", "jct_s", "wait_s", "gpu_utilization", "preemptions")
    rows = [
        {"name": name, **{key: result[key] for key in kept}, "jain_index": result["jain_index"]}
        for (name, _), result in zip(side.metrics, side.results, strict=True)
    ]
    return {"results": rows, "notes": list(dict.fromkeys(side.remarks))[:20]}


def _progress(at: int) -> Callable[[int, int], None]:
    """Not more often than a percent: whoever looks asks once a second."""
    last = -1

    def update(ended: int, total: int) -> None:
        nonlocal last
        now = 100 * ended // max(total, 1)
        if now != last:
            last = now
            _tell({"at": at, "part": min(now / 100, 1.0)})

    return update


def _cluster(given: Mapping[str, Any]) -> ClusterSpec:
    return ClusterSpec(
        tuple(NodeSpec(name, gpus, gpu_type, path=tuple(path)) for name, gpus, gpu_type, path in given["nodes"]),
        tuple(given["levels"]),
        {name: TenantSpec(name, quota, weight) for name, quota, weight in given["tenants"]},
    )


def _source(task: Mapping[str, Any]) -> Source:
    from dataclasses import replace

    from fairlead.cli.inputs import Source, made, read_source
    from fairlead.workload.generate import generate

    if "path" in task:
        source = read_source([task["path"]])
        return replace(source, trace=replace(source.trace, source=task["workload"]))
    values = dict(task["generator"])
    name, seed = values.pop("name"), values.pop("seed")
    return Source(replace(made(generate, name, seed, values), source=task["workload"]), 0.0)


TASKS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {"check": check, "compare": compare}

if __name__ == "__main__":
    main()
