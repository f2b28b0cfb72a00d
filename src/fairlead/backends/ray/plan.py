"""From an order to what Ray is asked for and what each node's supervisor does."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from fairlead.backends.local.rundir import Doc
from fairlead.backends.orders import account, check_places, check_texts, login, ranks_of, signal_number
from fairlead.backends.ray.settings import RaySettings
from fairlead.runtime.protocols import Order, Suspension

#: what Ray's placement groups need at least: a bundle of nothing is none
_CPU_SLIVER = 0.001
#: set to 1 in a job's environment, the run holds no GPU in Ray's books: a Ray program takes them, see `integrations.ray`
LENDS = "FAIRLEAD_RAY_LEND"


def plan(order: Order, gpus: Mapping[str, int], settings: RaySettings, namespace: str) -> Doc:
    """What goes into the run's order.json. `gpus`: how many each node has. Raises Refused."""
    check_texts(order)
    check_places(order, gpus)
    name = f"{namespace}/{order.job}@{order.run}"
    token = os.urandom(12).hex()
    lends = order.env.get(LENDS) == "1"
    user = account(order.user)  # a node that may not change users says so
    shared: Doc = {
        "job": order.job,
        "run": order.run,
        "token": token,
        "command": list(order.command),
        "workdir": order.workdir,
        "umask": settings.umask,
        "user": user,
        "env": (login(user) if user else {}) | _environment(order, token, name),
        "log": {"path": _log(order, settings), "limit_bytes": settings.log_limit_bytes, "keep": settings.log_keep},
        "grace_s": order.grace_s,
        "checkpoint_signal": signal_number(order.checkpoint_signal),
        "methods": methods(order),
        "memory_mib": order.memory_mib,
        "cgroup": "",
        "resumes": order.resumes,
        "moves": {},
    }
    ranks = list(ranks_of(order))
    places = []
    for number, place in enumerate(order.places):
        own = [rank for rank in ranks if rank.node_rank == number]
        amount = 0.0 if lends or not place.gpus else len(place.gpus) if place.milli >= 1000 else place.milli / 1000
        lent = {"FAIRLEAD_RAY_LENT": str(len(place.gpus))} if lends else {}
        places.append(
            {
                "node": place.node,
                "resources": {"GPU": amount} if amount else {"CPU": _CPU_SLIVER},
                "num_gpus": amount,
                "order": {
                    **shared,
                    "memory_mib": None if order.memory_mib is None else sum(rank.memory_mib or 0 for rank in own),
                    "gpus": 0 if lends else len(place.gpus),
                    "first_rank": int(own[0].env["RANK"]),
                    "world": len(ranks),
                    "ranks": [
                        {"node": place.node, "env": {**rank.env, **lent}, "memory_mib": rank.memory_mib} for rank in own
                    ],
                },
            }
        )
    return {"job": order.job, "run": order.run, "name": name, "token": token, "places": places}


def methods(order: Order) -> list[str]:
    """A stopped run keeps its placement group, and so its GPUs in Ray's books: a job that holds any is stopped only where
    it allows nothing else."""
    ways = [Suspension.CHECKPOINT] if order.checkpoint_signal else []
    holds_gpu = any(place.gpus for place in order.places)
    if not holds_gpu or not ({*ways, Suspension.REQUEUE} & {*order.suspend}):
        ways.append(Suspension.STOP)
    ways.append(Suspension.REQUEUE)
    return [str(way) for way in order.suspend if way in ways]


def _environment(order: Order, token: str, name: str) -> dict[str, str]:
    env = {key: value for key, value in order.env.items() if key != "FAIRLEAD_RESUME"}
    env |= {"FAIRLEAD_JOB_ID": order.job, "FAIRLEAD_RUN": str(order.run)}
    env |= {"FAIRLEAD_RUN_TOKEN": token, "FAIRLEAD_RAY_GROUP": name}
    if order.resumes:
        env["FAIRLEAD_RESUME"] = "1"
    return env


def _log(order: Order, settings: RaySettings) -> str:
    name = order.log or re.sub(r"[^\w.-]", "_", order.job).lstrip(".") + ".log"
    return os.path.join(os.path.abspath(settings.state_dir), "logs", name)
