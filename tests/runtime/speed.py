"""How fast the twin is: `python tests/runtime/speed.py` prints what docs/twin.md says. The test uses the same functions."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

from fairlead.model.cluster import ClusterSpec, TenantSpec, parse_cluster_shape
from fairlead.runtime.live import LiveCore
from fairlead.runtime.live_jobs import LiveJob
from fairlead.runtime.twin import Choice, explain, forecast, moment_of, whatif

NOW = 1_790_000_000.0
TENANTS = "abcd"


def median_s(work: Callable[[], object], rounds: int = 7) -> float:
    """Of processor time, so that a busy machine matters less. Once before, to compile and to fill caches."""
    work()
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def busy_core(policy: str, jobs: int = 10_000, sizes: tuple[int, ...] = (1, 1, 1, 2, 4, 8, 16)) -> LiveCore:
    """64 nodes of 8 GPUs, as full as they get, and the rest of the jobs waiting; half of them gave no estimate."""
    rng = random.Random(1)
    spec = ClusterSpec(parse_cluster_shape("64x8").nodes, tenants={name: TenantSpec(name) for name in TENANTS})
    core = LiveCore(spec, policy, now=NOW)
    for i in range(jobs):
        length = rng.choice((None, float(rng.randint(60, 40_000))))
        job = LiveJob(
            str(i), NOW, rng.choice(sizes), length, tenant=rng.choice(TENANTS), priority=rng.choice((0, 1, 2))
        )
        core.submit(job, NOW)
    core.step(NOW)
    return core


def new_kind_s(core: LiveCore, rounds: int = 7) -> float:
    """Submitting a job of a kind that the core has not seen, and deciding."""
    memory = 0

    def submit() -> None:
        nonlocal memory
        memory += 1
        job = LiveJob(f"new-{memory}", NOW, 1, 60.0, memory_mib=memory, tenant="a")
        core.submit(job, NOW + memory)
        core.step(NOW + memory)

    return median_s(submit, rounds)


def main() -> None:
    for policy in ("fifo-backfill", "easy-backfill", "srtf", "las", "tiresias", "fair-share"):
        for sizes in ((1, 1, 1, 2, 4, 8, 16), (1,)):
            core = busy_core(policy, sizes=sizes)
            moment = moment_of(core, NOW + 1000.0)
            taken = {
                "moment": median_s(lambda core=core: moment_of(core, NOW + 1000.0)),
                "forecast": median_s(lambda moment=moment: forecast(moment)),
                "explain": median_s(lambda moment=moment: explain(moment, "9000")),
                "what-if, 2 rows": median_s(lambda moment=moment: whatif(moment, [Choice(add_nodes="2x8")]), 3),
                "a job of a new kind": new_kind_s(core),
            }
            size = "mixed sizes" if len(sizes) > 1 else "1 GPU each"
            print(f"{policy}, {size}: " + ", ".join(f"{name} {1000 * s:.0f} ms" for name, s in taken.items()))


if __name__ == "__main__":
    main()
