"""From an order to what a supervisor does: which processes, with which environment, limits and ways to be suspended."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping

from fairlead.backends.local.inventory import Machine
from fairlead.backends.local.rundir import Doc
from fairlead.backends.local.settings import LocalSettings
from fairlead.backends.ranks import ranks_of
from fairlead.model.suggest import unknown
from fairlead.runtime.protocols import Order, Place, Suspension


def plan(order: Order, machine: Machine, settings: LocalSettings) -> Doc:
    """What goes into order.json. Raises Refused."""
    check(order, {node: len(own) for node, own in machine.gpus.items()})
    user = _user(order.user)
    token = os.urandom(12).hex()
    return {
        "job": order.job,
        "run": order.run,
        "token": token,
        "command": list(order.command),
        "workdir": order.workdir or _home(user),
        "umask": settings.umask,
        "user": user,
        "env": environment(order, user, _passed_on(settings)) | {"FAIRLEAD_RUN_TOKEN": token},
        "ranks": _ranks(order, machine, settings),
        "log": {"path": _log(order, settings), "limit_bytes": settings.log_limit_bytes, "keep": settings.log_keep},
        "grace_s": order.grace_s,
        "checkpoint_signal": signal_number(order.checkpoint_signal),
        "methods": methods(order, machine, settings),
        "memory_mib": order.memory_mib,
        "gpus": [[place.node, [machine.gpus[place.node][i].name for i in place.gpus]] for place in order.places],
        "resumes": order.resumes,
        "moves": {},
    }


def methods(order: Order, machine: Machine, settings: LocalSettings) -> list[str]:
    """The ways to suspend it, in the order's own order of preference."""
    holds_gpu = not machine.is_virtual and any(place.gpus for place in order.places)
    shared = any(place.milli < 1000 for place in order.places)
    ways = [Suspension.CHECKPOINT] if order.checkpoint_signal else []
    if holds_gpu and machine.checkpoints and not (shared and settings.mps_pipe_dir):
        ways.append(Suspension.DRIVER)
    if not holds_gpu or settings.keep_memory:
        ways.append(Suspension.STOP)
    ways.append(Suspension.REQUEUE)
    return [str(way) for way in order.suspend if way in ways]


def check(order: Order, gpus: Mapping[str, int]) -> None:
    """Raises Refused. `gpus`: how many each node has."""
    if not order.job or len(order.job.encode()) > 80:
        raise Refused(f"a job's id has 1 to 80 bytes; this one is {order.job!r}")
    if not order.command or not order.command[0]:
        raise Refused("it has no command")
    if not order.places:
        raise Refused("it has no place to run at")
    texts = [*order.command, order.workdir, order.log, *order.env, *order.env.values()]
    if any("\0" in text for text in texts):
        raise Refused("its command, environment or a path has a NUL character in it")
    for name in order.env:
        if not name or "=" in name:
            raise Refused(f"{name!r} is no name for an environment variable")
    for place in order.places:
        if place.node not in gpus:
            raise Refused(str(unknown("node", place.node, gpus)))
        count = gpus[place.node]
        if any(not 0 <= gpu < count for gpu in place.gpus):
            raise Refused(f"node {place.node!r} has {count} GPUs; it was to use {list(place.gpus)}")


def signal_number(name: str) -> int:
    if not name:
        return 0
    try:
        return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"]
    except KeyError:
        raise Refused(f"there is no signal {name!r}; SIGUSR1 is one that programs use for checkpoints") from None


def _user(name: str) -> Doc | None:
    """None where the job runs as whoever we are."""
    if not name:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise Refused(f"this machine has no user {name!r}") from None
    if entry.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        who = pwd.getpwuid(os.geteuid()).pw_name
        raise Refused(f"it is to run as {name!r}, but the scheduler runs as {who!r} and only root may change users")
    return {"name": name, "uid": entry.pw_uid, "gid": entry.pw_gid, "home": entry.pw_dir, "shell": entry.pw_shell}


def _home(user: Doc | None) -> str:
    home = user["home"] if user else os.environ.get("HOME", "/")
    return home if os.path.isdir(home) else "/"


def _log(order: Order, settings: LocalSettings) -> str:
    name = order.log or re.sub(r"[^\w.-]", "_", order.job).lstrip(".") + ".log"
    return os.path.join(os.path.abspath(settings.state_dir), "logs", name)


def _ranks(order: Order, machine: Machine, settings: LocalSettings) -> list[Doc]:
    return [
        {
            "node": rank.place.node,
            "env": _gpu_environment(order, rank.place, machine, settings) | rank.env | {"MASTER_ADDR": "127.0.0.1"},
            "memory_mib": rank.memory_mib,
        }
        for rank in ranks_of(order)
    ]


def _gpu_environment(order: Order, place: Place, machine: Machine, settings: LocalSettings) -> dict[str, str]:
    names = ",".join(machine.gpus[place.node][i].name for i in place.gpus)
    env = {"CUDA_VISIBLE_DEVICES": names, "FAIRLEAD_GPUS": ",".join(map(str, place.gpus))}
    if machine.is_virtual or place.milli >= 1000:
        return env
    env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(max(1, round(place.milli / 10)))
    if order.gpu_memory_mib is not None:
        env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={order.gpu_memory_mib}M"
    if settings.mps_pipe_dir:
        env["CUDA_MPS_PIPE_DIRECTORY"] = settings.mps_pipe_dir
    return env
