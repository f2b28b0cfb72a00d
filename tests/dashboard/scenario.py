"""A working day on a cluster of 512 GPUs, always the same one: what the pictures in docs/images show."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from fairlead.model.cluster import TenantSpec
from fairlead.model.job import Dependency, When
from fairlead.server.jobs import State
from fairlead.server.metrics import GpuReading

from .stage import Stage, regions

HOURS = 6
TENANTS = (
    TenantSpec("language", 320, 4.0),
    TenantSpec("vision", None, 3.0),
    TenantSpec("speech", 96, 2.0),
    TenantSpec("robotics", 48, 1.0),
)
#: name, tenant, GPUs, hours, how often
WORK = (
    ("llm-7b-pretrain", "language", 64, 9.0, 1),
    ("llm-finetune", "language", 16, 1.6, 6),
    ("tokenizer-sweep", "language", 2, 0.5, 8),
    ("eval-nightly", "language", 8, 0.4, 8),
    ("resnet50-imagenet", "vision", 8, 1.8, 10),
    ("detector-coco", "vision", 16, 1.2, 5),
    ("augment-search", "vision", 1, 0.6, 14),
    ("whisper-finetune", "speech", 8, 1.4, 7),
    ("vocoder", "speech", 4, 0.9, 8),
    ("grasp-policy", "robotics", 8, 1.1, 6),
    ("sim2real", "robotics", 4, 0.8, 6),
)
PEOPLE_OF = {"language": "ada", "vision": "ann", "speech": "bob", "robotics": "ada"}
LOG = """\
loading shards: 1024 of 1024
world size 64, micro batch 4, accumulate 8
{steps}"""


def day(path: Path) -> Stage:
    return Stage(path, regions(2, 4, 8, 8, TENANTS, "H100"), _play, time.time() - HOURS * 3600, policy="tiresias")


async def _play(stage: Stage) -> None:
    draw = np.random.Generator(np.random.PCG64(7))
    begin_s = stage.clock.now()
    # shards to read, checkpoints to load
    stage.executor.begins_after_s = lambda: float(draw.uniform(20, 150))
    often = np.array([one[4] for one in WORK], float)
    jobs = 330
    # more of them in the second and third hour, as on any day
    when = np.sort(
        np.concatenate([draw.uniform(0, HOURS, jobs // 2), draw.normal(2.4, 0.8, jobs - jobs // 2).clip(0, 5.9)])
    )
    for number, at_h in enumerate(when.tolist()):
        await stage.until(begin_s + at_h * 3600, every_s=300.0)
        name, tenant, gpus, hours, _ = WORK[draw.choice(len(WORK), p=often / often.sum())]
        lasts_s = float(hours * 3600 * draw.lognormal(0, 0.5))
        job = await stage.come(
            lasts_s,
            PEOPLE_OF[tenant],
            tenant,
            name=f"{name}-{number:03d}",
            gpus=gpus,
            estimate_s=round(lasts_s / 600 + 1) * 600.0,
        )
        if draw.random() < 0.04:
            stage.executor.fails.add(job)
    await stage.until(begin_s + HOURS * 3600, every_s=300.0)
    await stage.scheduler.drain("south-02-05", "ada", "a fan is broken")
    waiting = [job.id for job in stage.scheduler.jobs.values() if job.state in (State.WAITING, State.SUSPENDED)]
    for job in waiting[:4]:
        await stage.scheduler.suspend(job, "ada")
    for number, before in enumerate(waiting[4:11]):
        after = (Dependency(before, When.AFTER_OK),)
        await stage.come(1800.0, "ann", "vision", name=f"report-{number}", gpus=1, depends_on=after)
    await stage.settle()
    _print(stage, draw)
    _measure(stage, draw)


def _print(stage: Stage, draw: np.random.Generator) -> None:
    """What the jobs that run have said so far."""
    steps = "\n".join(
        f"step {i:6d}  loss {2.1 * 0.985 ** (i / 40) + 0.9 + draw.normal(0, 0.01):.4f}  {draw.normal(3.02, 0.03):.2f} s/step"
        for i in range(0, 2000, 40)
    )
    for job in stage.scheduler.jobs.values():
        if job.is_running:
            path = stage.scheduler.log_path(job.id)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(LOG.format(steps=steps) + "\n")


def _measure(stage: Stage, draw: np.random.Generator) -> None:
    busy = {
        (place.node, gpu): job
        for job in stage.scheduler.jobs.values()
        if job.is_running
        for place in job.places
        for gpu in place.gpus
    }
    readings = []
    for node in stage.spec.nodes:
        for gpu in range(node.gpus):
            works = (node.name, gpu) in busy
            used = float(draw.uniform(45, 76) if works else 0.5) * 1024
            readings.append(
                GpuReading(
                    node.name,
                    gpu,
                    f"GPU-{node.name}-{gpu}",
                    "H100",
                    utilization_percent=float(round(draw.beta(8, 2) * 100 if works else 0)),
                    memory_used_mib=round(used),
                    memory_free_mib=round(80 * 1024 - used),
                    power_w=float(round(draw.normal(610, 40) if works else 72)),
                    temperature_c=float(round(draw.normal(64, 4) if works else 31)),
                )
            )
    stage.scheduler.metrics.gpus(readings)
