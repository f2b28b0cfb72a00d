"""From an order to what a supervisor does: which processes, with which environment, limits and ways to be suspended."""

from __future__ import annotations

import os
import re

from fairlead.backends.local.inventory import Machine
from fairlead.backends.local.rundir import Doc
from fairlead.backends.local.settings import LocalSettings
from fairlead.backends.orders import check_places, check_texts, environment, ranks_of, signal_number, unix_user
from fairlead.runtime.protocols import Order, Place, Suspension


def plan(order: Order, machine: Machine, settings: LocalSettings) -> Doc:
    """What goes into order.json. Raises Refused."""
    check_texts(order)
    check_places(order, {node: len(own) for node, own in machine.gpus.items()})
    user = unix_user(order.user)
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


def _passed_on(settings: LocalSettings) -> dict[str, str]:
    return {name: os.environ[name] for name in settings.pass_env if name in os.environ}


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
