"""`fairlead submit`: a job file, or options and a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from fairlead.cli.live.connect import Reach, talks
from fairlead.cli.render import Output, OutputOption, emit, say
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from fairlead.client import Client, DryRun, Job, Submitted

_COMMAND = "fairlead.command"
_INTERRUPTED = 130


class TakesCommand(TyperCommand):
    """What stands behind `--` is the job's command, and none of our options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def register(app: typer.Typer, panel: str) -> None:
    app.command("submit", cls=TakesCommand, rich_help_panel=panel)(submit)


def _option(name: str, metavar: str, says: str) -> Any:
    return typer.Option(name, metavar=metavar, help=says)


@talks
def submit(
    file: Annotated[
        Path | None, typer.Argument(metavar="JOB.yaml", help="A job file; options stand over what it says.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end and exit with its own exit code.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say whether it would run, and when; submit nothing.")
    ] = False,
    output: OutputOption = Output.table,
    name: Annotated[str | None, _option("--name", "NAME", "What people call it.")] = None,
    tenant: Annotated[str | None, _option("--tenant", "NAME", "Whose quota it counts against.")] = None,
    gpus: Annotated[str | None, _option("--gpus", "N", "Whole GPUs: 1 unless said, 0 for none.")] = None,
    gpu_type: Annotated[str | None, _option("--gpu-type", "TYPE", "A GPU type that it must have.")] = None,
    gpu_share: Annotated[str | None, _option("--gpu-share", "PART", "A part of one GPU, such as 0.5.")] = None,
    gpu_memory: Annotated[str | None, _option("--gpu-memory", "SIZE", "Memory on each GPU, such as 40GiB.")] = None,
    cpus: Annotated[str | None, _option("--cpus", "N", "Processors.")] = None,
    memory: Annotated[str | None, _option("--memory", "SIZE", "Main memory, such as 64GiB.")] = None,
    num_nodes: Annotated[str | None, _option("--num-nodes", "N", "Exactly so many nodes, each with the above.")] = None,
    min_gpus: Annotated[str | None, _option("--min-gpus", "N", "Elastic: it can run on so few.")] = None,
    max_gpus: Annotated[str | None, _option("--max-gpus", "N", "Elastic: it can use so many.")] = None,
    env: Annotated[
        list[str] | None, _option("--env", "K=V", "A variable; K alone passes yours on. Repeatable.")
    ] = None,
    workdir: Annotated[str | None, _option("--workdir", "DIR", "Where it runs: here, if not said.")] = None,
    setup: Annotated[str | None, _option("--setup", "SHELL", "Run before the command, every time.")] = None,
    priority: Annotated[str | None, _option("--priority", "N", "Larger goes first.")] = None,
    preemptible: Annotated[
        bool | None, typer.Option("--preemptible/--no-preemptible", help="Whether the policy may suspend it.")
    ] = None,
    time_limit: Annotated[str | None, _option("--time-limit", "TIME", "Stop it after so long, such as 2h30m.")] = None,
    estimate: Annotated[str | None, _option("--estimate", "TIME", "How long it will run, as you think.")] = None,
    deadline: Annotated[str | None, _option("--deadline", "TIME", "When it should be done: 12h, or a time.")] = None,
    topology: Annotated[
        str | None, _option("--topology", "LEVEL", "Keep it inside one such domain: node, rack.")
    ] = None,
    grace_period: Annotated[
        str | None, _option("--grace-period", "TIME", "Between asking it to stop and killing it.")
    ] = None,
    checkpoint_signal: Annotated[
        str | None, _option("--checkpoint-signal", "SIGNAL", "On it the program saves its state and exits.")
    ] = None,
    checkpoint_every: Annotated[
        str | None, _option("--checkpoint-every", "TIME", "It saves its state by itself so often.")
    ] = None,
    suspend: Annotated[str | None, _option("--suspend", "WAYS", "Ways of suspending it that may be tried.")] = None,
    array: Annotated[str | None, _option("--array", "INDICES", "Many tasks: how many, or 0-9, 0-99:10.")] = None,
    depends_on: Annotated[
        list[str] | None, _option("--depends-on", "ID", "Start after this job has ended well. Repeatable.")
    ] = None,
    after_any: Annotated[
        list[str] | None, _option("--after-any", "ID", "Start after this job has ended, however. Repeatable.")
    ] = None,
    key: Annotated[
        str | None, _option("--key", "TEXT", "The same key again gives the same job, not another one.")
    ] = None,
    *,
    context: typer.Context,
    reach: Reach,
) -> None:
    """Submit a job: a job file, or options and `-- COMMAND`.

    `fairlead submit job.yaml`, or `fairlead submit --gpus 2 -- python train.py`. Prints the job's id. docs/job-file.md has what each option means and what a job file holds.
    """
    given = context.params
    options = {one: given[one] for one in _FIELDS}
    options["depends_on"] = _dependencies(depends_on, after_any)
    spec = _job(file, context.meta.get(_COMMAND, []), options)
    with reach.client() as client:
        if dry_run:
            found = client.dry_run(spec)
            emit(_plain(found), output, lambda: _judged(found, client.now_s))
            raise typer.Exit(0 if found.fits else 1)
        made = client.submit(spec, key=key)
        emit(_plain(made), output, lambda: made.id)
        _announce(made)
        if wait:
            raise typer.Exit(wait_for(client, made))


#: options by the names that the job file has for them
_FIELDS = (
    *("name", "tenant", "gpus", "gpu_type", "gpu_share", "gpu_memory", "cpus", "memory", "num_nodes", "min_gpus"),
    *("max_gpus", "env", "workdir", "setup", "priority", "preemptible", "time_limit", "estimate", "deadline"),
    *("topology", "grace_period", "checkpoint_signal", "checkpoint_every", "suspend", "array"),
)


def _plain(value: object) -> Any:
    from fairlead.cli.live.words import plain

    return plain(value)


def _dependencies(after_ok: list[str] | None, after_any: list[str] | None) -> dict[str, list[str]] | None:
    named = {"after_ok": after_ok, "after_any": after_any}
    return {when: ids for when, ids in named.items() if ids} or None


def _job(file: Path | None, command: list[str], options: dict[str, Any]) -> Any:
    from fairlead.workload.job_yaml import job_from_options, read_job_file

    here = Path.cwd()
    if file is not None:
        if not file.exists() and not command:
            accepts = "a job file, or a command behind `--`: fairlead submit --gpus 1 -- python train.py"
            raise InputError("there is no such job file", file=str(file), accepts=accepts)
        return read_job_file(file, options, command, base=here)
    if not command:
        raise InputError(
            "there is nothing to submit",
            accepts="a job file, or a command: fairlead submit --gpus 1 -- python train.py",
        )
    return job_from_options(command, options, base=here)


def _judged(found: DryRun, now_s: float | None) -> str:
    from fairlead.cli.live.words import expected

    if not found.fits:
        return f"it would be refused: {found.reason}"
    return f"it would run: {expected(found.expected_start_s, found.expected_finish_s, now_s) or 'nobody can say when'}"


def _announce(made: Submitted) -> None:
    from fairlead.record.units import count

    what = f"job {made.id}" if made.array_id is None else f"array {made.id} of {count(len(made.jobs), 'task')}"
    if made.duplicate:
        say(f"{what} was submitted before with this key; nothing new was submitted")
    else:
        say(
            f"submitted {what}: `fairlead jobs`, `fairlead explain {made.jobs[0]}` and `fairlead logs -f {made.jobs[0]}` follow it"
        )


def wait_for(client: Client, made: Submitted) -> int:
    """The exit code of the job; of an array, the largest of its tasks'."""
    codes = []
    try:
        for id in made.jobs:
            job = client.wait(id)
            codes.append(job.shell_code)
            _tell_end(job)
    except KeyboardInterrupt:
        say(f"{made.id} goes on without you; `fairlead cancel {made.id}` ends it")
        return _INTERRUPTED
    return max(codes)


def _tell_end(job: Job) -> None:
    from fairlead.cli.live.words import ended, lasting

    rest = "; ".join(one for one in (ended(job), job.message) if one)
    say(f"job {job.id} {job.state} after running {lasting(job.ran_s)}{': ' + rest if rest else ''}")
