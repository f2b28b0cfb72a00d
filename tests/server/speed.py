"""How fast a store is: `python tests/server/speed.py URL` prints what the docs say. The tests use the same functions."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fairlead.model.job import JobSpec
from fairlead.runtime.protocols import Place
from fairlead.server.store import Batch, GroupWriter, JobFilter, Store, Submission

LISTINGS: dict[str, Callable[[Store], object]] = {
    "the newest 100": lambda store: store.jobs(),
    "100 that wait": lambda store: store.jobs(JobFilter(states=["waiting"])),
    "100 of a tenant": lambda store: store.jobs(JobFilter(tenants=["t3"])),
    "100 of a user that wait": lambda store: store.jobs(JobFilter(users=["u7"], states=["waiting"])),
    "100 by name": lambda store: store.jobs(sort="name", descending=False),
    "the last 100 that ended": lambda store: store.jobs(sort="finished"),
    "100 with a name like": lambda store: store.jobs(JobFilter(search="train-777")),
    "none with a name like": lambda store: store.jobs(JobFilter(search="nothing")),
    "1000 that wait": lambda store: store.jobs(JobFilter(states=["waiting"]), limit=1000),
    "how many wait": lambda store: store.count(JobFilter(states=["waiting"])),
    "how many by tenant and state": lambda store: store.count_by_state(),
    "one job": lambda store: store.job("3000"),
    "one job's story": lambda store: store.timeline("3000"),
    "1000 events": lambda store: store.events(5_000),
}


def spec(number: int) -> JobSpec:
    return JobSpec(
        run=f"python train.py --seed {number}",
        name=f"train-{number}",
        gpus=1 << number % 4,
        env={"SEED": str(number), "MODE": "offline"},
        workdir="/home/ann/project",
        time_limit_s=3600.0,
        estimate_s=1800.0,
    )


def submission(number: int) -> Submission:
    return Submission(spec(number), f"u{number % 20}", f"t{number % 5}", float(number), key=f"key-{number}")


def submitted_at_once(store: Store, jobs: int, first: int = 0) -> float:
    """Seconds for so many requests of one job each that all come at once."""

    async def all_of_them() -> None:
        writer = GroupWriter(store)
        await asyncio.gather(
            *(writer.write(Batch(submissions=[submission(n)])) for n in range(first, first + jobs)),
        )
        await writer.close()

    began = time.perf_counter()
    asyncio.run(all_of_them())
    return time.perf_counter() - began


def submitted_by_clients(store: Store, jobs: int, clients: int, first: int = 0) -> float:
    """The same from clients that each wait for their last answer before they ask again."""

    async def all_of_them() -> None:
        writer = GroupWriter(store)

        async def client(number: int) -> None:
            for n in range(first + number, first + jobs, clients):
                await writer.write(Batch(submissions=[submission(n)]))

        await asyncio.gather(*(client(number) for number in range(clients)))
        await writer.close()

    began = time.perf_counter()
    asyncio.run(all_of_them())
    return time.perf_counter() - began


def fill(store: Store, finished: int, waiting: int) -> None:
    for begin in range(0, finished + waiting, 1000):
        batch = Batch(submissions=[submission(n) for n in range(begin, min(begin + 1000, finished + waiting))])
        jobs = [one.jobs[0].seq for one in store.write(batch).submitted]
        ends = Batch()
        for job in jobs:
            if job <= finished:
                ends.record("start", float(job), job, 1, places=[["node-1", [0]]])
                ends.change(job, state="running", first_start_s=float(job), run=1, places=[Place("node-1", (0,))])
                ends.record("finish", job + 9.0, job, 1, exit_code=0)
                ends.change(job, state="done", finished_s=job + 9.0, exit_code=0, places=())
        store.write(ends)


def median_ms(call: Callable[[], object], times: int = 9) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return 1000 * statistics.median(taken)


def main() -> None:
    with Store(sys.argv[1]) as store:
        taken = submitted_at_once(store, 3000)
        print(f"{3000 / taken:8.0f} submissions/s, 3000 at once")
        for number, clients in enumerate((1, 10, 100)):
            jobs = 200 * clients if clients < 100 else 5000
            taken = submitted_by_clients(store, jobs, clients, 1_000_000 * (number + 1))
            print(f"{jobs / taken:8.0f} submissions/s, {clients} clients")
    with Store(sys.argv[2]) as store:
        began = time.perf_counter()
        fill(store, 50_000, 10_000)
        print(f"{60_000 / (time.perf_counter() - began):8.0f} jobs/s submitted, 5 of 6 of them started and ended")
        for name, call in LISTINGS.items():
            print(f"{median_ms(lambda call=call: call(store)):8.1f} ms  {name}")
        print(
            f"{1000 / submitted_by_clients(store, 1000, 10, 5_000_000):8.0f} submissions/s, 10 clients, on top of that"
        )
        print(f"{median_ms(store.recover, 3):8.1f} ms  recovery of 10,000 live jobs")
        if not sys.argv[2].startswith("postgres"):
            began = time.perf_counter()
            store.back_up(Path(sys.argv[2] + ".copy"))
            size = Path(sys.argv[2] + ".copy").stat().st_size / 2**20
            print(f"{time.perf_counter() - began:8.2f} s   backup of {size:.0f} MiB")
        began = time.perf_counter()
        pruned = store.prune(keep=10_000)
        print(f"{pruned.jobs / (time.perf_counter() - began):8.0f} jobs/s pruned")


if __name__ == "__main__":
    main()
