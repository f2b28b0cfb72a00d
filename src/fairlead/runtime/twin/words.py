"""Times, sizes and lists of jobs as the explanations say them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.record.story import listed
from fairlead.record.units import count, digits
from fairlead.runtime.live_jobs import LiveJob

#: nearer than this, seconds are said too
SOON_S = 600.0
#: more jobs than these are counted, not named
MOST_NAMED = 3

#: seconds that local time is ahead of UTC at some moment
AheadOfUtc = Callable[[float], float]


#: whether whoever reads may know of a job
MaySee = Callable[[str], bool]


def everything(job: str) -> bool:
    return True


@dataclass(frozen=True)
class Part:
    """A piece of a sentence. Where it is about other jobs, `veiled` says what is left without their ids, sizes and lengths."""

    text: str
    jobs: tuple[str, ...] = ()
    veiled: str = ""

    def told(self, may_see: MaySee) -> str:
        return self.text if all(may_see(job) for job in self.jobs) else self.veiled


def utc(at_s: float) -> float:
    return 0.0


class Clock:
    """Local time, seen from a moment: `14:20`, on another day `2026-11-16 09:05`, within ten minutes `14:20:35`."""

    def __init__(self, now: float, ahead_of_utc: AheadOfUtc = utc) -> None:
        self.now, self._ahead_of_utc = now, ahead_of_utc

    def _local(self, at_s: float) -> tuple[str, str]:
        """Date and time of day."""
        date, _, time = str(np.datetime64(math.floor(at_s + self._ahead_of_utc(at_s)), "s")).partition("T")
        return date, time

    def text(self, at_s: float) -> str:
        soon = abs(at_s - self.now) < SOON_S
        date, time = self._local(at_s if soon else at_s + 30.0)  # to the nearest minute
        time = time if soon else time[:5]
        return time if date == self._local(self.now)[0] else f"{date} {time}"


def named(jobs: Sequence[str]) -> str:
    """`job 812`, `jobs 812 and 813`, `jobs 812, 813, 814 and 5 others`."""
    return f"{'job' if len(jobs) == 1 else 'jobs'} {listed(jobs, MOST_NAMED, 'others')}"


def others(jobs: Sequence[str]) -> str:
    """`another job`, `3 other jobs`."""
    return "another job" if len(jobs) == 1 else f"{len(jobs)} other jobs"


def nodes_named(names: Sequence[str]) -> str:
    return listed(names, MOST_NAMED, "more nodes")


def gpus_text(gpus: float) -> str:
    """`1 GPU`, `16 GPUs`, `0.5 of a GPU`."""
    return (
        f"{digits(gpus)} of a GPU"
        if 0 < gpus < 1
        else count(round(gpus), "GPU")
        if gpus == round(gpus)
        else f"{digits(gpus)} GPUs"
    )


def rest_text(job: LiveJob) -> str:
    """What it asks for beside GPUs: `4 CPUs and 16 GiB`, "" for nothing."""
    parts = []
    if job.cpu_milli:
        parts.append(f"{digits(job.cpu_milli / 1000)} {'CPU' if job.cpu_milli == 1000 else 'CPUs'}")
    if job.memory_mib:
        parts.append(f"{digits(job.memory_mib / 1024)} GiB")
    return " and ".join(parts)


def asks_text(job: LiveJob) -> str:
    """`16 GPUs`, `8 H200 GPUs on 2 nodes of one rack`, `0.5 of a GPU`, `4 CPUs and 16 GiB on one node`."""
    if job.gpus == 0:
        return f"{rest_text(job) or 'a place'} on one node"
    text = gpus_text(job.gpus * job.share_milli / 1000)
    text = text if not job.gpu_type else text.replace("GPU", f"{job.gpu_type} GPU")
    if job.share_milli < 1000:
        return text
    if job.num_nodes > 1:
        within = f" of one {job.topology}" if job.topology else ""
        return f"{text} on {job.num_nodes} nodes{within}"
    if job.num_nodes == 1 or job.topology == "node":
        return f"{text} on one node"
    return f"{text} in one {job.topology}" if job.topology else text
