"""What every engine makes of an order in the same way: whose it is, its environment, its ranks."""

from __future__ import annotations

import os
import pwd
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.model.suggest import unknown
from fairlead.runtime.protocols import Order, Place

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


def check_places(order: Order, gpus: Mapping[str, int]) -> None:
    """`gpus`: how many each node has."""
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


def account(name: str) -> dict[str, Any] | None:
    """None where the job runs as whoever we are."""
    if not name:
        return None
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise Refused(f"this machine has no user {name!r}") from None
    if entry.pw_uid == os.geteuid():
        return None
    return {"name": name, "uid": entry.pw_uid, "gid": entry.pw_gid, "home": entry.pw_dir, "shell": entry.pw_shell}


def unix_user(name: str) -> dict[str, Any] | None:
    """The same, where it is we who become that user."""
    found = account(name)
    if found and os.geteuid() != 0:
        who = pwd.getpwuid(os.geteuid()).pw_name
        raise Refused(f"it is to run as {name!r}, but the scheduler runs as {who!r} and only root may change users")
    return found


def login(user: Mapping[str, Any]) -> dict[str, str]:
    """What is a user's own: where its programs are, not the scheduler's; a job that wants more says so in its env."""
    who = {"USER": user["name"], "LOGNAME": user["name"]}
    return {"PATH": LOGIN_PATH, "HOME": user["home"], "SHELL": user["shell"], **who}


def environment(order: Order, user: Mapping[str, Any] | None, passed_on: Mapping[str, str]) -> dict[str, str]:
    """Of all its processes. What describes the run wins over what the job asks for; a job can't lie about its GPUs."""
    env = dict(passed_on)
    env.setdefault("PATH", os.defpath)
    if user:
        env.pop("LD_LIBRARY_PATH", None)
        env |= login(user)
    env |= order.env
    env |= {"FAIRLEAD_JOB_ID": order.job, "FAIRLEAD_RUN": str(order.run)}
    env.pop("FAIRLEAD_RESUME", None)
    if order.resumes:
        env["FAIRLEAD_RESUME"] = "1"
    return env


@dataclass(frozen=True)
class RankPlan:
    node_rank: int
    place: Place
    memory_mib: int | None  #: its part of the job's
    env: dict[str, str]  #: without MASTER_ADDR and MASTER_PORT, which are known once rank 0 has a machine


def ranks_of(order: Order) -> Iterator[RankPlan]:
    """One process per place; or per GPU, each of which sees all of its place and takes its own by LOCAL_RANK, as torchrun
    does it."""
    counts = [max(1, len(place.gpus)) if order.per_gpu else 1 for place in order.places]
    world = sum(counts)
    gpus_of_all = sum(len(place.gpus) for place in order.places)
    rank = 0
    for node_rank, (place, count) in enumerate(zip(order.places, counts, strict=True)):
        share = len(place.gpus) / gpus_of_all if gpus_of_all else 1 / len(order.places)
        memory_mib = None if order.memory_mib is None else max(1, int(order.memory_mib * share / count))
        for local_rank in range(count):
            yield RankPlan(
                node_rank,
                place,
                memory_mib,
                {
                    "RANK": str(rank),
                    "LOCAL_RANK": str(local_rank),
                    "WORLD_SIZE": str(world),
                    "LOCAL_WORLD_SIZE": str(count),
                    "NODE_RANK": str(node_rank),
                    "NNODES": str(len(order.places)),
                    "FAIRLEAD_NODE": place.node,
                },
            )
            rank += 1
