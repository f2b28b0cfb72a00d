"""`fairlead bench`: is it as fast as it promises, by a yardstick measured in the same run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.panels import SIMULATION
from fairlead.cli.render import Output, OutputOption, emit, grid, say
from fairlead.model.errors import InputError
from fairlead.model.suggest import unknown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.cli.work import Done
    from fairlead.workload.trace import Trace

#: set to a number of jobs, the workloads have that size: for trying it out, since the bars are for the full size
JOBS_VARIABLE = "FAIRLEAD_BENCH_JOBS"
JOBS, QUICK_JOBS = 1_000_000, 100_000
NODES, GPUS_PER_NODE, LOAD = 800, 8, 0.92
#: the least ratio to the yardstick
POLICIES = {"fifo-backfill": 0.5, "sjf": 0.5, "srtf": 0.1, "las": 0.1, "tiresias": 0.1}
#: cells, divided among the workload's twelve tenants by what they ask for
CELLS, CELLS_BAR = "hived:vcs=demand,order=fifo-backfill", 0.01
#: a planner that is asked at every instant, on a workload of so many jobs and at loads that the cluster can bear and can't
GANDIVA, GANDIVA_JOBS, GANDIVA_BAR, OVERLOAD = "gandiva", 100_000, 0.002, 1.1
#: at most so many times the time for ten times the jobs, ten times the nodes, and per event for ten times the queue
TENFOLD_JOBS, TENFOLD_NODES, TENFOLD_QUEUE = 13.0, 2.0, 1.5
MEMORY_GIB, SMALL_RUN_S, COMPILE_S = 1.5, 2.0, 30.0
#: a run is repeated at least so often, unless that takes longer than this; and more often as long as all take less than this
_LEAST_REPEATS, _LONG_S = 3, 15.0
_REPEATS, _ENOUGH_S = 40, 12.0
#: for so long before it is another one's turn
_TURN_S = 1.5
#: rounds in which two runs are compared
_ROUNDS = 7
_SMALL = "job_id,submit_s,gpus,duration_s\na,0,2,2\nb,0,1,8\nc,0,2,6\n"


@dataclass(frozen=True)
class Row:
    case: str
    measured: float
    unit: str
    bar: float
    at_least: bool = False
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.measured >= self.bar if self.at_least else self.measured <= self.bar

    def to_json(self) -> dict[str, Any]:
        bound = {"bar": self.bar, "bound": "at least" if self.at_least else "at most", "ok": self.ok}
        return {"case": self.case, "measured": self.measured, "unit": self.unit, **bound, "detail": self.detail}


@dataclass(frozen=True)
class Task:
    """What is run: the whole path that `sim run` takes."""

    trace: Trace
    nodes: int
    policy: str

    def run(self) -> tuple[float, int]:
        """Its wall_s, and how many events it handled and decisions it recorded."""
        done = _run(self.trace, self.nodes, self.policy)
        return done.wall_s, done.run.events + len(done.run.journal)


@dataclass(frozen=True)
class Timed:
    wall_s: float
    steps: int  #: events handled and decisions recorded
    rounds_per_s: float  #: the yardstick at that time


@dataclass(frozen=True)
class Compared:
    """Two tasks, the second the larger one."""

    ratio: float  #: the second's time by the first's
    walls_s: tuple[float, float]
    steps: tuple[int, int]


def register(app: typer.Typer) -> None:
    app.command("bench", rich_help_panel=SIMULATION, short_help="Measure speed, memory and start-up.")(bench)


def bench(
    cases: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CASE]...",
            help="speed, jobs, nodes, queue, hived, gandiva, memory, start, compile, live; all of these without any. "
            "live-memory takes minutes.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A hundred thousand jobs, and no compiling.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Measure speed, scaling, memory and start-up against what is promised of them.

    Speed is a ratio to Python's heapq doing push, push, pop, pop on an empty heap, a round per job. Exits with 1 if a
    bar is missed.
    """
    from fairlead.cli.work import announce_compiling
    from fairlead.sim.yardstick import machine_facts

    left_out = ("live-memory", "compile", "live") if quick else ("live-memory",)
    chosen = list(dict.fromkeys(cases or (name for name in CASES if name not in left_out)))
    for name in chosen:
        if name not in CASES:
            raise unknown("case", name, CASES)
    announce_compiling()
    run = Bench(_jobs(quick))
    rows: list[Row] = []
    for name in chosen:
        for row in CASES[name](run):
            say(f"{row.case}: {row.measured:.3g} {row.unit}{'' if row.ok else ', which misses the bar'}")
            rows.append(row)
    ok = all(row.ok for row in rows)
    result = {
        "machine": machine_facts(),
        "jobs": run.jobs,
        "quick": quick,
        "yardstick": run.yardstick_facts(),
        "rows": [row.to_json() for row in rows],
        "ok": ok,
    }
    emit(result, output, lambda: _table(rows, result))
    if not ok:
        raise typer.Exit(1)


def _jobs(quick: bool) -> int:
    text = os.environ.get(JOBS_VARIABLE)
    if not text:
        return QUICK_JOBS if quick else JOBS
    if not text.isdigit() or int(text) < 100:
        raise InputError("this is no number of jobs", file=JOBS_VARIABLE, value=text, accepts="100 or more")
    return int(text)


class Bench:
    """What the cases share: the yardstick, and runs that more than one of them needs."""

    def __init__(self, jobs: int) -> None:
        from fairlead.sim.yardstick import ROUNDS, Yardstick

        self.jobs = jobs
        self.in_earnest = jobs >= QUICK_JOBS  #: else it is only tried out, and once is enough
        self.yardstick = Yardstick(min(ROUNDS, jobs))
        self._trace = cache(_philly)

    def yardstick_facts(self) -> dict[str, float]:
        samples = self.yardstick.samples or self.yardstick.measure()
        return {"rounds_per_s": self.yardstick.rounds_per_s, "lowest": min(samples), "highest": max(samples)}

    def philly(self, policy: str, jobs: int, nodes: int) -> Task:
        return Task(self._trace(jobs, nodes * GPUS_PER_NODE), nodes, policy)

    def time(self, task: Task) -> Timed:
        return self.times([task])[0]

    def times(self, tasks: list[Task]) -> list[Timed]:
        """The best of a few runs of each, with a look at the yardstick before, between and after them: the machine is not the same
        for seconds on end. Nor for a minute, so they take turns."""
        walls: list[list[float]] = [[] for _ in tasks]
        samples = [self.yardstick.measure() for _ in tasks]
        steps = [0] * len(tasks)
        while any(self._once_more(one) for one in walls):
            for x, task in enumerate(tasks):
                turn = 0.0
                while turn < _TURN_S and self._once_more(walls[x]):
                    wall_s, steps[x] = task.run()
                    walls[x].append(wall_s)
                    samples[x] += self.yardstick.measure()
                    turn += wall_s
        return [Timed(min(walls[x]), steps[x], statistics.median(samples[x])) for x in range(len(tasks))]

    def _once_more(self, walls: list[float]) -> bool:
        """Whether a task that has taken these times is to be run again."""
        repeats = _REPEATS if self.in_earnest else 1
        return len(walls) < repeats and sum(walls) < (_LONG_S if len(walls) < _LEAST_REPEATS else _ENOUGH_S)

    def compare(self, one: Task, ten: Task, runs: int) -> Compared:
        """How the times of two tasks compare, as the median of a few rounds. In each, `runs` of the first, about as long together
        as one of the second, go around that: so both meet with the same. The best of many short runs found a quiet moment where
        a long one never did, and that made the ratio of the best ones a fifth larger on some days."""
        one.run()  # whatever is still to compile or to be read for the first time
        runs, rounds = (runs, _ROUNDS) if self.in_earnest else (1, 1)
        ratios: list[float] = []
        ones, tens, spent = [], [], 0.0
        while len(ratios) < rounds and (len(ratios) < _LEAST_REPEATS or spent < _LONG_S):
            around = [one.run() for _ in range((runs + 1) // 2)]
            wall_s, steps = ten.run()
            around += [one.run() for _ in range(runs // 2)]
            mean_s = statistics.mean(wall for wall, _ in around)
            ratios.append(wall_s / mean_s)
            ones.append(mean_s)
            tens.append(wall_s)
            spent += wall_s + len(around) * mean_s
        walls_s = statistics.median(ones), statistics.median(tens)
        return Compared(statistics.median(ratios), walls_s, (around[0][1], steps))


def _philly(jobs: int, gpus: int, load: float = LOAD, steady: bool = True) -> Trace:
    from fairlead.workload.generate import generate

    # steady: the shorter trace would be over before the cluster had filled up, and the load not the same at all
    return generate("philly-like", seed=1, jobs=jobs, gpus=gpus, load=load, steady=steady)


def _run(trace: Trace, nodes: int, policy: str) -> Done:
    from fairlead.cli.inputs import Source
    from fairlead.cli.work import DEFAULT_PLACER, run_once
    from fairlead.model.cluster import parse_cluster_shape
    from fairlead.sim.profiles import Profiles
    from fairlead.state.rules import Options

    spec = parse_cluster_shape(f"{nodes}x{GPUS_PER_NODE}")
    return run_once(Source(trace, 0.0), spec, policy, DEFAULT_PLACER, Options(), Profiles())


def speed(run: Bench) -> Iterator[Row]:
    return _speeds(run, POLICIES)


def _speeds(run: Bench, bars: dict[str, float]) -> Iterator[Row]:
    """Each policy's jobs per second, beside its bar."""
    tasks = [run.philly(policy, run.jobs, NODES) for policy in bars]
    for (policy, bar), took in zip(bars.items(), run.times(tasks)):
        jobs_per_s = run.jobs / took.wall_s
        detail = f"{took.wall_s:.3g} s, {jobs_per_s:,.0f} jobs/s by {took.rounds_per_s:,.0f} rounds/s"
        case = f"{policy}, {run.jobs:,} jobs on {NODES}x{GPUS_PER_NODE}"
        yield Row(case, jobs_per_s / took.rounds_per_s, "of the yardstick", bar, at_least=True, detail=detail)


def more_jobs(run: Bench) -> Iterator[Row]:
    for policy in POLICIES:
        yield _more_jobs(run, policy)


def _more_jobs(run: Bench, policy: str) -> Row:
    few = run.jobs // 10
    compared = run.compare(run.philly(policy, few, NODES), run.philly(policy, run.jobs, NODES), 10)
    return _times(f"{policy}, {few:,} to {run.jobs:,} jobs", compared, TENFOLD_JOBS)


def more_nodes(run: Bench) -> Iterator[Row]:
    """With the same jobs, and per job with ten times the jobs: these come as long as on the small cluster, so that both
    fill up alike."""
    for policy in POLICIES:
        yield from _more_nodes(run, policy)


def _more_nodes(run: Bench, policy: str) -> Iterator[Row]:
    few, many = (run.philly(policy, jobs, NODES) for jobs in (run.jobs // 10, run.jobs))
    wide = run.philly(policy, run.jobs, 10 * NODES)
    case = f"{policy}, {NODES:,} to {10 * NODES:,} nodes"
    yield _times(case, run.compare(many, wide, 1), TENFOLD_NODES)
    yield _times(f"{case}, per job, over the same days", run.compare(few, wide, 10), TENFOLD_NODES, per=10)


def cells(run: Bench) -> Iterator[Row]:
    yield from _speeds(run, {CELLS: CELLS_BAR})
    yield _more_jobs(run, CELLS)
    yield from _more_nodes(run, CELLS)


def _times(case: str, compared: Compared, bar: float, per: int = 1) -> Row:
    (one_s, ten_s), (one, ten) = compared.walls_s, compared.steps
    detail = f"{one_s:.3g} s to {ten_s:.3g} s, {one:,} to {ten:,} events and decisions"
    return Row(case, compared.ratio / per, "times the time", bar, detail=detail)


def _costs(case: str, compared: Compared) -> Row:
    """The same for each event or decision."""
    one, ten = (1e6 * wall_s / steps for wall_s, steps in zip(compared.walls_s, compared.steps))
    ratio = compared.ratio * compared.steps[0] / compared.steps[1]
    return Row(case, ratio, "times the cost", TENFOLD_QUEUE, detail=f"{one:.3g} to {ten:.3g} µs per event or decision")


def longer_queue(run: Bench) -> Iterator[Row]:
    long = run.jobs // 20
    short = long // 10
    # as many jobs come for each that waits: else the short queue is soon one of a few shapes, and every shape is tried by itself
    few, many = (overloaded(waiting, 4 * waiting) for waiting in (short, long))
    for policy in POLICIES:
        compared = run.compare(Task(few, NODES, policy), Task(many, NODES, policy), 10)
        yield _costs(f"{policy}, {short:,} to {long:,} jobs waiting", compared)


def overloaded(waiting: int, jobs: int) -> Trace:
    """`jobs` that come exactly as fast as the cluster works, behind a cluster's fill and `waiting` jobs at the start, so
    that about so many wait all the while."""
    import numpy as np

    from fairlead.workload.generate import generate
    from fairlead.workload.trace import Trace

    gpus, sizes = NODES * GPUS_PER_NODE, (1, 2, 4, 8, 16)
    fill = round(gpus / float(np.mean(sizes)))
    flow = generate("poisson", seed=1, jobs=jobs, gpus=gpus, load=1.0, sizes=sizes)
    first = generate("poisson", seed=2, jobs=waiting + fill, gpus=gpus, load=1.0, sizes=sizes)
    return Trace(
        submit_s=np.concatenate([np.zeros(len(first)), flow.submit_s]),
        gpus=np.concatenate([first.gpus, flow.gpus]),
        duration_s=np.concatenate([first.duration_s, flow.duration_s]),
        source="overloaded",
    )


def gandiva(run: Bench) -> Iterator[Row]:
    """Its speed, and whether a decision costs more after ten times as many jobs, about as many being there all the while."""
    jobs = min(run.jobs, GANDIVA_JOBS)
    for load, steady in ((LOAD, True), (OVERLOAD, False)):
        took = run.time(Task(_philly(jobs, NODES * GPUS_PER_NODE, load, steady), NODES, GANDIVA))
        jobs_per_s = jobs / took.wall_s
        detail = f"{took.wall_s:.3g} s, {jobs_per_s:,.0f} jobs/s, {took.steps:,} events and decisions"
        case = f"{GANDIVA}, {jobs:,} jobs on {NODES}x{GPUS_PER_NODE} at {load:.0%} load"
        case += "" if steady else ", empty at first"
        yield Row(case, jobs_per_s / took.rounds_per_s, "of the yardstick", GANDIVA_BAR, at_least=True, detail=detail)
    few, many = jobs // 20, jobs // 2
    one, ten = (Task(overloaded(jobs // 200, flow), NODES, GANDIVA) for flow in (few, many))
    yield _costs(f"{GANDIVA}, {few:,} to {many:,} jobs finished", run.compare(one, ten, 10))


def memory(run: Bench) -> Iterator[Row]:
    for policy in ("fifo-backfill", "tiresias"):
        workload = f"gen:philly-like:jobs={run.jobs},gpus={NODES * GPUS_PER_NODE},load={LOAD},steady=true,seed=1"
        peak = peak_gib(_sim_run(workload, f"{NODES}x{GPUS_PER_NODE}", policy))
        yield Row(f"peak memory, {policy}, {run.jobs:,} jobs", peak, "GiB", MEMORY_GIB, detail="of a whole `sim run`")


def peak_gib(command: list[str]) -> float:
    """A process's peak resident memory. A small one in between starts it: what a parent holds counts as a child's too."""
    between = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    told = subprocess.run([sys.executable, "-c", between, *command], stdout=subprocess.PIPE, text=True, check=True)
    # in KiB, but in bytes on macOS
    return int(told.stdout) / (2**30 if sys.platform == "darwin" else 2**20)


def start(run: Bench) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        _timed_small_run(folder, {})  # whatever is still to compile
        best = min(_timed_small_run(folder, {}) for _ in range(_LEAST_REPEATS))
    yield Row("a small run from a warm cache", best, "s", SMALL_RUN_S, detail="the whole process")


def first_compile(run: Bench) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        spent = _timed_small_run(folder, {"FAIRLEAD_CACHE_DIR": os.path.join(folder, "cache")})
    yield Row("the first run of all, compiling", spent, "s", COMPILE_S, detail="the whole process")


def _timed_small_run(folder: str, env: dict[str, str]) -> float:
    jobs = Path(folder, "jobs.csv")
    jobs.write_text(_SMALL, encoding="utf-8")
    command = _sim_run(str(jobs), "1x2", "tiresias")
    started = time.perf_counter()
    subprocess.run(command, env={**os.environ, **env}, capture_output=True, check=True)
    return time.perf_counter() - started


def _sim_run(trace: str, cluster: str, policy: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "fairlead",
        "sim",
        "run",
        trace,
        "--cluster",
        cluster,
        "--policy",
        policy,
        "-o",
        "json",
    ]


def live(run: Bench) -> Iterator[Row]:
    from fairlead.cli import bench_live

    return bench_live.live(run)


def live_memory(run: Bench) -> Iterator[Row]:
    from fairlead.cli import bench_live

    return bench_live.live_memory(run)


CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "speed": speed,
    "jobs": more_jobs,
    "nodes": more_nodes,
    "queue": longer_queue,
    "hived": cells,
    "gandiva": gandiva,
    "memory": memory,
    "start": start,
    "compile": first_compile,
    "live": live,
    "live-memory": live_memory,
}


def _table(rows: list[Row], result: dict[str, Any]) -> RenderableType:
    heads = ("case", "measured", "bar", "ok", "detail")
    lines = [
        (
            row.case,
            f"{row.measured:.3g} {row.unit}",
            f"{'≥' if row.at_least else '≤'} {row.bar:g}",
            "yes" if row.ok else "NO",
            row.detail,
        )
        for row in rows
    ]
    about, yard = result["machine"], result["yardstick"]
    caption = (
        f"{about['cpu']}, {about['cores']} cores, Python {about['python']}, numba {about['numba']}; "
        f"yardstick {yard['rounds_per_s']:,.0f} rounds/s ({yard['lowest']:,.0f} to {yard['highest']:,.0f})"
    )
    return grid(heads, lines, caption=caption)
