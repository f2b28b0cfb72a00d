"""What every engine makes of an order in the same way: whose it is, its environment, its ranks."""

from __future__ import annotations

import os
import pwd
import signal
from collections.abc import Mapping
from typing import Any

from fairlead.runtime.protocols import Order

#: what a login gives on Debian and its like
LOGIN_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"


class Refused(Exception):
    """This order can't be carried out, whoever tries: a sentence."""


def check_texts(order: Order) -> None:
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


def signal_number(name: str) -> int:
    if not name:
        return 0
    try:
        return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"]
    except KeyError:
        raise Refused(f"there is no signal {name!r}; SIGUSR1 is one that programs use for checkpoints") from None


def unix_user(name: str) -> dict[str, Any] | None:
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


def environment(order: Order, user: Mapping[str, Any] | None, passed_on: Mapping[str, str]) -> dict[str, str]:
    """Of all its processes. What describes the run wins over what the job asks for; a job can't lie about its GPUs."""
    env = dict(passed_on)
    env.setdefault("PATH", os.defpath)
    if user:
        # where its own programs are, not the scheduler's; a job that wants more says so in its env
        env["PATH"] = LOGIN_PATH
        env.pop("LD_LIBRARY_PATH", None)
        env |= {"HOME": user["home"], "USER": user["name"], "LOGNAME": user["name"], "SHELL": user["shell"]}
    env |= order.env
    env |= {"FAIRLEAD_JOB_ID": order.job, "FAIRLEAD_RUN": str(order.run)}
    env.pop("FAIRLEAD_RESUME", None)
    if order.resumes:
        env["FAIRLEAD_RESUME"] = "1"
    return env


def rank_variables(order: Order, master_addr: str) -> list[list[dict[str, str]]]:
    """For each place its processes' variables: one process; or one per GPU, each of which sees all of its place and takes its own
    by LOCAL_RANK, as torchrun does it. MASTER_PORT is for whoever knows what is free there."""
    counts = [max(1, len(place.gpus)) if order.per_gpu else 1 for place in order.places]
    world = sum(counts)
    found: list[list[dict[str, str]]] = []
    rank = 0
    for node_rank, (place, count) in enumerate(zip(order.places, counts, strict=True)):
        own = []
        for local_rank in range(count):
            own.append(
                {
                    "RANK": str(rank),
                    "LOCAL_RANK": str(local_rank),
                    "WORLD_SIZE": str(world),
                    "LOCAL_WORLD_SIZE": str(count),
                    "NODE_RANK": str(node_rank),
                    "NNODES": str(len(order.places)),
                    "MASTER_ADDR": master_addr,
                    "FAIRLEAD_NODE": place.node,
                }
            )
            rank += 1
        found.append(own)
    return found
