"""What is refused at the door: jobs that could never run here, tenants that do not exist, more jobs than are allowed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from fairlead.model.errors import InputError
from fairlead.model.job import WHOLE_MILLI, JobSpec
from fairlead.model.reason import Reason
from fairlead.model.suggest import unknown
from fairlead.record.story import REFUSED
from fairlead.runtime.live import judge
from fairlead.server.floor import Floor
from fairlead.server.jobs import asked

#: of which it is remembered whether they can run at all
MOST_KINDS = 10_000


class Gate:
    def __init__(self, most_jobs: int = 100_000, most_per_user: int = 20_000, most_tasks: int = 10_000) -> None:
        self.most_jobs, self.most_per_user, self.most_tasks = most_jobs, most_per_user, most_tasks
        self._coming: Counter[str] = Counter()  #: let through, and not on the floor yet
        self._judged: dict[tuple[Any, ...], Reason] = {}
        self._tenants: set[str] = (
            set()
        )  #: of users, as far as they were asked for: reading them all each time would take longest

    def clear(self) -> None:
        """The cluster, its quotas or the policy have changed."""
        self._judged.clear()
        self._tenants.clear()

    def coming(self, user: str, jobs: int) -> None:
        self._coming[user] += jobs

    def came(self, user: str, jobs: int) -> None:
        """On the floor, or not after all."""
        self._coming[user] -= jobs
        if not self._coming[user]:
            del self._coming[user]

    def judge(self, spec: JobSpec, user: str, tenant: str, floor: Floor, tenants: Callable[[], set[str]]) -> None:
        """InputError for what can't be let in."""
        self._count(spec, user, floor)
        cluster = floor.core.spec
        if tenant not in cluster.tenants and tenant not in self._tenants:
            known = tenants()
            if tenant not in known:
                raise unknown("tenant", tenant, sorted(known))
            self._tenants.add(tenant)
        if spec.gpu_share_milli < WHOLE_MILLI and not floor.can.share:
            raise InputError(
                "a GPU can't be shared here: the engine gives out whole ones",
                column="resources.gpu_share",
                value=spec.gpu_share_milli / WHOLE_MILLI,
                accepts="whole GPUs (gpus: 1 and no gpu_share)",
            )
        asks = asked(spec, "", tenant, 0.0, floor.can)
        reason = self._judged.get(asks.kind())
        if reason is None:
            if len(self._judged) >= MOST_KINDS:
                self._judged.clear()
            reason = self._judged[asks.kind()] = judge(cluster, floor.core.policy, floor.core.placer, asks)
        if reason != Reason.NONE:
            raise refusal(reason, spec, tenant, floor)

    def _count(self, spec: JobSpec, user: str, floor: Floor) -> None:
        jobs = len(spec.array) or 1
        if jobs > self.most_tasks:
            raise InputError(
                "the array has too many tasks", column="array", value=jobs, accepts=f"up to {self.most_tasks:,}"
            )
        if floor.of_user[user] + self._coming[user] + jobs > self.most_per_user:
            accepts = f"at most {self.most_per_user:,} that wait and run (max_jobs_per_user)"
            raise InputError("one user can't have so many jobs at once", value=user, accepts=accepts)
        if len(floor.jobs) + self._coming.total() + jobs > self.most_jobs:
            accepts = f"at most {self.most_jobs:,} that wait and run (max_jobs)"
            raise InputError("the scheduler can't hold so many jobs at once", value=len(floor.jobs), accepts=accepts)


def refusal(reason: Reason, spec: JobSpec, tenant: str, floor: Floor) -> InputError:
    """Why a job can never run here, for whoever submitted it."""
    cluster = floor.core.spec
    gpus = spec.total_gpus
    if reason == Reason.TOO_MANY_GPUS:
        kind = f" of type {spec.gpu_type}" if spec.gpu_type else ""
        there = sum(node.gpus for node in cluster.nodes if not spec.gpu_type or node.gpu_type == spec.gpu_type)
        what = f"the job asks for more GPUs{kind} than the cluster has"
        return InputError(what, column="resources.gpus", value=gpus, accepts=f"{there} or fewer")
    if reason == Reason.NO_SUCH_GPU_TYPE:
        kinds = sorted({node.gpu_type for node in cluster.nodes if node.gpu_type})
        if not kinds:
            what = "no node here says of what type its GPUs are"
            return InputError(
                what, column="resources.gpu_type", value=spec.gpu_type, accepts="a job that asks for no type"
            )
        return unknown("GPU type", spec.gpu_type, kinds)
    if reason == Reason.OVER_QUOTA:
        quota = cluster.tenants[tenant].quota_gpus
        return InputError(
            f"the job asks for more GPUs than tenant {tenant} may ever hold",
            column="resources.gpus",
            value=gpus,
            accepts=f"{quota} or fewer, or another quota (fairlead tenants set {tenant} --quota {gpus})",
        )
    if reason == Reason.NODE_TOO_SMALL:
        largest = max(cluster.nodes, key=lambda node: (node.gpus, node.cpu_milli or 0, node.memory_mib or 0))
        has = [f"{largest.gpus} GPUs"]
        has += [f"{largest.cpu_milli / 1000:g} CPUs"] if largest.cpu_milli is not None else []
        has += [f"{largest.memory_mib} MiB"] if largest.memory_mib is not None else []
        return InputError("no node has the CPUs or memory that the job needs", accepts=f"a node has {', '.join(has)}")
    if reason == Reason.NO_SUCH_LEVEL:
        return unknown("level of the cluster", spec.topology, ["node", *cluster.levels])
    return InputError(f"the job can never run here: {REFUSED[reason]}", value=f"{gpus} GPUs")
