"""From an order to what is told to Slurm, and to the agents on the nodes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Any

from fairlead.backends.local.rundir import dir_name
from fairlead.backends.orders import (
    LOGIN_PATH,
    Refused,
    check_texts,
    environment,
    ranks_of,
    signal_number,
    unix_user,
)
from fairlead.backends.slurm.inventory import Machine, Site
from fairlead.backends.slurm.settings import PILOT, SlurmSettings, capabilities
from fairlead.model.suggest import unknown
from fairlead.runtime.protocols import Order, Place, Suspension

Doc = dict[str, Any]
#: what of the scheduler's own environment its own user's jobs get to see; the rest may hold its secrets
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "HOME", "USER", "LOGNAME", "SHELL", "LD_LIBRARY_PATH")
AGENT = "fairlead.backends.slurm.agent"


def identity(instance: str, job: str, run: int) -> str:
    """What a Slurm job is found again by."""
    return f"fairlead:{instance}:{dir_name(job, run)}"


def plan(order: Order, site: Site, settings: SlurmSettings) -> Doc:
    """What goes into order.json. Raises Refused."""
    if not order.foreign:
        check_texts(order)
    for place in order.places:
        if place.node not in site.nodes:
            raise Refused(str(unknown("node", place.node, site.nodes)))
        count = site.nodes[place.node].spec.gpus
        if len(place.gpus) > count:
            raise Refused(f"node {place.node!r} has {count} GPUs; it was to use {len(place.gpus)}")
        if settings.mode == PILOT and any(not 0 <= gpu < count for gpu in place.gpus):
            raise Refused(f"node {place.node!r} has {count} GPUs; it was to use {list(place.gpus)}")
    if len({place.node for place in order.places}) < len(order.places):
        raise Refused("it was to have two places on one node")
    user = None if order.foreign else unix_user(order.user)
    is_pilot = settings.mode == PILOT
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {
        "job": order.job,
        "run": order.run,
        "foreign": order.foreign,
        "command": list(order.command),
        "workdir": order.workdir,
        "umask": 0o022,
        # a pilot's steps are the scheduler's own, and become the user; Slurm's jobs are the user's from the beginning
        "user": user if is_pilot else None,
        "env": environment(order, user, passed_on),
        "parts": _parts(order, site, is_pilot),
        "log": order.log,
        "grace_s": order.grace_s,
        "checkpoint_signal": signal_number(order.checkpoint_signal),
        "methods": methods(order, settings),
        "memory_mib": order.memory_mib if is_pilot else None,
        "lease_s": settings.lease_s,
        "resumes": order.resumes,
    }


def methods(order: Order, settings: SlurmSettings) -> list[str]:
    """The ways to suspend it, in the order's own order of preference. A Slurm job that is stopped keeps its GPUs, and no other
    job gets them: stopping is for runs that share a pilot's allocation."""
    ways = capabilities(settings.mode).ways
    knows = [way for way in order.suspend if way != Suspension.CHECKPOINT or order.checkpoint_signal]
    return [str(way) for way in knows if way in ways]


def _parts(order: Order, site: Site, is_pilot: bool) -> list[Doc]:
    master = {"MASTER_ADDR": site.nodes[order.places[0].node].address}
    ranks = list(ranks_of(order))
    found: list[Doc] = []
    for number, place in enumerate(order.places):
        own = [rank for rank in ranks if rank.node_rank == number]
        env = {"FAIRLEAD_GPUS": ",".join(map(str, place.gpus)) if is_pilot else str(len(place.gpus))}
        if is_pilot or not place.gpus:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, place.gpus))
        if place.milli < 1000:
            env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(max(1, round(place.milli / 10)))
        found.append(
            {
                "node": place.node,
                "gpus": list(place.gpus),
                "first_rank": int(own[0].env["RANK"]),
                "memory_mib": own[0].memory_mib,
                "ranks": [env | rank.env | master for rank in own],
            }
        )
    return found


def submission(order: Order, doc: Doc, site: Site, settings: SlurmSettings, instance: str) -> list[str]:
    """The words of sbatch, without the script. Held: it is released by its number once that is written down, so one that was
    submitted twice runs once. Slurm counts GPUs for each node of a job, all alike; a run with more on one node than on another
    is a job of several components, one for each number."""
    user = unix_user(order.user)
    common = ["--no-requeue", f"--partition={site.runs_in}", f"--time={site.time_limit}"]
    if settings.account:
        common.append(f"--account={settings.account}")
    words = [
        "sbatch",
        "--parsable",
        "--hold",
        "--export=NIL",
        "--chdir=/",
        f"--job-name=fairlead-{order.job}",
        f"--comment={identity(instance, order.job, order.run)}",
        f"--output={doc['log'].replace('%', '%%')}",
        "--open-mode=append",
    ]
    if user:
        words += [f"--uid={user['uid']}", f"--gid={user['gid']}"]
    first, *others = components(order)
    words += [*common, *_amounts(order, first, site)]
    for places in others:
        words += [":", "--comment=fairlead:component", *common, *_amounts(order, places, site)]
    return words


def components(order: Order) -> list[list[Place]]:
    """Places with as many GPUs each; the one with rank 0, where the script runs, first."""
    found: dict[int, list[Place]] = {}
    for place in order.places:
        found.setdefault(len(place.gpus), []).append(place)
    return list(found.values())


def _amounts(order: Order, places: Sequence[Place], site: Site) -> list[str]:
    """CPUs and memory go with the GPUs where the order does not say: Slurm's own idea would be one CPU and all the memory."""
    machines = [site.nodes[place.node] for place in places]
    cpus = min(_cpus(machine, place) for machine, place in zip(machines, places, strict=True))
    if order.memory_mib is not None:
        shares = dict(zip(order.places, _shares(order), strict=True))
        memory = max(int(order.memory_mib * shares[place]) for place in places)
    else:
        memory = min(_memory(machine, place) for machine, place in zip(machines, places, strict=True))
    gpus = len(places[0].gpus)
    words = [
        f"--nodelist={','.join(place.node for place in places)}",
        f"--nodes={len(places)}",
        f"--ntasks={len(places)}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={cpus}",
        f"--mem={max(memory, 1)}M",
    ]
    return words + ([f"--gres=gpu:{gpus}"] if gpus else [])


def _shares(order: Order) -> list[float]:
    """Each place's part of what the whole job has."""
    total = sum(len(place.gpus) for place in order.places)
    return [len(place.gpus) / total if total else 1 / len(order.places) for place in order.places]


def _cpus(machine: Machine, place: Place) -> int:
    return max(1, machine.cpus * len(place.gpus) // max(1, machine.spec.gpus))


def _memory(machine: Machine, place: Place) -> int:
    """Of a job without GPUs: a GPU's part, as it takes a CPU at the least."""
    return machine.memory_mib * max(1, len(place.gpus)) // max(1, machine.spec.gpus)


def script(rundir: str, library: str, order: Order, settings: SlurmSettings) -> str:
    """What Slurm runs: our agent, once on each node."""
    agent = f"{shlex.quote(settings.python)} -s -m {AGENT} {shlex.quote(rundir)}"
    head = f"#!/bin/bash\nexport PATH=${{PATH:-{LOGIN_PATH}}} PYTHONPATH={shlex.quote(library)} PYTHONDONTWRITEBYTECODE=1\n"
    if len(order.places) == 1:
        return f"{head}exec {agent}\n"
    out = shlex.quote(os.path.join(rundir, "out", "failed"))
    parts = len(components(order))
    if parts > 1:
        which = f"--het-group=0-{parts - 1} --cpu-bind=none"
    else:
        which = (
            f'--nodes={len(order.places)} --ntasks={len(order.places)} --ntasks-per-node=1 -c "$SLURM_CPUS_PER_TASK"'
        )
    return (
        f"{head}"
        "port=$((20000 + RANDOM % 12000))\n"
        "while (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null; do port=$((20000 + RANDOM % 12000)); done\n"
        "export FAIRLEAD_MASTER_PORT=$port\n"
        f"srun --export=ALL --kill-on-bad-exit=1 {which} {agent}\n"
        f"code=$?\n[ -r {out} ] && read -r code < {out}\nexit $code\n"
    )
