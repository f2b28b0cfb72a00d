"""The options of a simulation, shared by `sim run`, `sim compare` and `sim sweep`."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from fairlead.model.cluster import ClusterSpec
    from fairlead.sim.profiles import Profiles
    from fairlead.state.rules import Options

HOUR_S = 3600.0
#: suspend and resume of a whole process on an H200, measured: 0.35 s + 0.42 s/GiB and 0.15 s + 0.14 s/GiB
H200 = (0.5, 0.56)
_COST = re.compile(r"(?P<fixed>[\d.eE+-]+?)(?:\+(?P<per>[\d.]+)/GiB)?")
_COST_FORM = "seconds (30), seconds + seconds/GiB (0.5+0.56/GiB), or h200"


@dataclass(frozen=True)
class SimOptions:
    """As people write them; `options` and `profiles` give what the simulator takes."""

    format: Annotated[str | None, typer.Option(help="The trace's format, where its content does not tell.")] = None
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out rows that can't be read, and say so.")] = False
    limit: Annotated[int | None, typer.Option(help="Only the first N jobs.")] = None
    start_cost: Annotated[float, typer.Option(metavar="S", help="Seconds that every first start takes.")] = 0.0
    preempt_cost: Annotated[
        str,
        typer.Option(
            metavar="S[+S/GiB]",
            help="What suspending and resuming take together: seconds, seconds + seconds/GiB of the job's GPU memory, "
            "or 'h200' (0.5+0.56/GiB, measured).",
        ),
    ] = "0"
    profiles: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="YAML, name: {speed: {TYPE: x}, locality: [...], sharing: [...], scale: [...], utilization: x, ...}.",
        ),
    ] = None
    job_failures: Annotated[float, typer.Option(metavar="P", help="The chance that an attempt fails.")] = 0.0
    retries: Annotated[int, typer.Option(metavar="N", help="Attempts after a failed first one.")] = 0
    checkpoint: Annotated[
        float,
        typer.Option(metavar="S", help="Work between checkpoints; 0: a failure loses all of it."),
    ] = 0.0
    node_mtbf: Annotated[float, typer.Option(metavar="H", help="Hours between failures of a node; 0: none.")] = 0.0
    node_mttr: Annotated[float | None, typer.Option(metavar="H", help="Hours until it is back (1).")] = None
    node_events: Annotated[Path | None, typer.Option(metavar="FILE", help="CSV of time_s,node,up.")] = None
    profiler_noise: Annotated[
        float,
        typer.Option(metavar="P", help="How far off a planner's observations of jobs may be, as a fraction."),
    ] = 0.02
    quota: Annotated[
        list[str],
        typer.Option(metavar="TENANT=GPUS", help="The most a tenant may hold; over the cluster file. Repeatable."),
    ] = field(default_factory=list)

    def options(self, cluster: ClusterSpec, seed: int) -> Options:
        from fairlead.state.rules import Options

        fixed, per_gib = parse_cost(self.preempt_cost)
        if self.node_mttr is not None and not self.node_mtbf:
            raise InputError("nodes that never fail need no repair", file="--node-mttr", accepts="--node-mtbf too")
        if seed < 0:
            raise InputError("a seed is not negative", file="--seed", value=seed, accepts="0 or more")
        return Options(
            seed=seed,
            start_cost_s=_least("--start-cost", self.start_cost),
            resume_cost_s=fixed,
            resume_cost_s_per_gib=per_gib,
            job_failures=_chance("--job-failures", self.job_failures),
            retries=int(_least("--retries", self.retries)),
            checkpoint_s=_least("--checkpoint", self.checkpoint),
            node_mtbf_s=HOUR_S * _least("--node-mtbf", self.node_mtbf),
            node_mttr_s=HOUR_S * _least("--node-mttr", 1.0 if self.node_mttr is None else self.node_mttr)
            if self.node_mtbf
            else 0.0,
            node_events=() if self.node_events is None else read_node_events(self.node_events, cluster),
            profiler_noise=_chance("--profiler-noise", self.profiler_noise),
        )

    def rates(self) -> Profiles:
        from fairlead.sim.profiles import Profiles

        if self.profiles is None:
            return Profiles()
        from fairlead.cli.profile_file import read_profiles

        return read_profiles(self.profiles)


def takes_sim_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command declare `sim: SimOptions` as its last parameter and have each field as an option of its own."""
    shown = list(inspect.signature(command, eval_str=True).parameters.values())[:-1]
    hints = get_type_hints(SimOptions, include_extras=True)
    names = [one.name for one in fields(SimOptions)]
    extra = []
    for one in fields(SimOptions):
        default = one.default_factory() if callable(one.default_factory) else one.default
        kind = inspect.Parameter.KEYWORD_ONLY
        extra.append(inspect.Parameter(one.name, kind, default=default, annotation=hints[one.name]))

    def wrapped(*args: Any, **kwargs: Any) -> None:
        sim = SimOptions(**{name: kwargs.pop(name) for name in names})
        command(*args, **kwargs, sim=sim)

    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    ordered = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in shown]
    wrapped.__signature__ = inspect.Signature([*ordered, *extra])  # type: ignore[attr-defined]
    return wrapped


def parse_cost(text: str) -> tuple[float, float]:
    """Seconds, and seconds per GiB."""
    if text.lower() == "h200":
        return H200
    found = _COST.fullmatch(text.replace(" ", ""))
    try:
        if found is None:
            raise ValueError
        fixed, per = float(found["fixed"]), float(found["per"] or 0)
        if not 0 <= fixed < math.inf or not 0 <= per < math.inf:
            raise ValueError
    except ValueError:
        raise InputError("this is no cost", file="--preempt-cost", value=text, accepts=_COST_FORM) from None
    return fixed, per


def _least(option: str, value: float) -> float:
    if not 0 <= value < math.inf:
        raise InputError("this can't be negative or endless", file=option, value=value, accepts="0 or more")
    return value


def _chance(option: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise InputError("a chance lies between 0 and 1", file=option, value=value, accepts="0 to 1")
    return value


_UP = {"1": True, "true": True, "up": True, "0": False, "false": False, "down": False}


def read_node_events(path: Path, cluster: ClusterSpec) -> tuple[tuple[float, int, bool], ...]:
    """Rows of time_s,node,up; a node by its name or its position."""
    import csv

    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except OSError as error:
        raise InputError(f"this can't be read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("this is not UTF-8", file=str(path), accepts="CSV of time_s,node,up") from None
    if not rows or [cell.strip() for cell in rows[0]] != ["time_s", "node", "up"]:
        raise InputError("the header is not that of node events", file=str(path), line=1, accepts="time_s,node,up")
    number = {node.name: i for i, node in enumerate(cluster.nodes)}
    found = []
    for line, row in enumerate(rows[1:], 2):
        if row:
            found.append(_node_event(row, str(path), line, number))
    return tuple(sorted(found))


def _node_event(row: list[str], file: str, line: int, number: dict[str, int]) -> tuple[float, int, bool]:
    def wrong(what: str, column: str, value: object, accepts: str) -> InputError:
        return InputError(what, file=file, line=line, column=column, value=value, accepts=accepts)

    if len(row) != 3:
        raise InputError(f"the row has {len(row)} fields", file=file, line=line, accepts="time_s,node,up")
    time_text, node_text, up_text = (cell.strip() for cell in row)
    try:
        time_s = float(time_text)
    except ValueError:
        time_s = math.nan
    if not 0 <= time_s < math.inf:
        raise wrong("this is no time", "time_s", time_text, "seconds from the first submission")
    node = number.get(node_text, int(node_text) if node_text.isdigit() else -1)
    if not 0 <= node < len(number):
        first, *_, last = (*number, *number)
        raise wrong("there is no such node", "node", node_text, f"{first} to {last}, or 0 to {len(number) - 1}")
    if up_text.lower() not in _UP:
        raise wrong("a node is up or down", "up", up_text, "1 or 0")
    return time_s, node, _UP[up_text.lower()]
