"""On Ray, programs begin on the nodes that they were ordered to, once, and what becomes of them is told as it was."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.runtime.protocols import Order, Place, ReportKind, Suspension
from servers.ray_cluster import RayCluster

from .harness import is_gone, python
from .ray_bench import ONE, RayBench, on_ray, until

SHOW = python("import json, os; print(json.dumps(dict(os.environ)))")


def scene(path: Path, cluster: RayCluster, act: Callable[[RayBench], Awaitable[None]], **settings: Any) -> None:
    async def scenario() -> None:
        async with on_ray(path, cluster, **settings) as bench:
            await act(bench)

    asyncio.run(scenario())


def test_the_nodes_are_as_ray_has_them(path: Path, ray_cluster: RayCluster) -> None:
    async def act(bench: RayBench) -> None:
        spec = await bench.executor.inventory()
        assert [(node.name, node.gpus, node.gpu_type, node.cpu_milli) for node in spec.nodes] == [
            (name, 4, "V100", 4000) for name in ("head", "node-1", "node-2")
        ]
        assert all((node.memory_mib or 0) > 1000 for node in spec.nodes)

    scene(path, ray_cluster, act)


def test_a_program_sees_its_gpus_and_its_environment_and_its_end_is_told(
    path: Path, tmp_path: Path, ray_cluster: RayCluster
) -> None:
    async def act(bench: RayBench) -> None:
        two = [Place("node-2", (1, 3))]
        end = await bench.run(*SHOW, places=two, env={"LEARNING_RATE": "0.1"}, workdir=str(tmp_path))
        assert (end.exit_code, end.signal, end.message) == (0, None, "")
        env = json.loads(bench.log())
        want = {
            "FAIRLEAD_JOB_ID": "job",
            "FAIRLEAD_RUN": "1",
            "FAIRLEAD_NODE": "node-2",
            "LEARNING_RATE": "0.1",
            "RANK": "0",
            "LOCAL_RANK": "0",
            "WORLD_SIZE": "1",
            "LOCAL_WORLD_SIZE": "1",
            "NODE_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "PWD": str(tmp_path),
        }
        assert {name: env.get(name, "") for name in want if name != "PWD"} | {"PWD": str(tmp_path)} == want
        visible = env["CUDA_VISIBLE_DEVICES"].split(",")
        assert len(set(visible)) == 2  # as Ray has chosen them
        assert env["FAIRLEAD_GPUS"] == env["CUDA_VISIBLE_DEVICES"]
        assert not [name for name in env if name.startswith("RAY_")]
        # a job without GPUs sees none, and runs although all are taken
        await bench.begin("sleep", "60", job="all", places=[Place("node-2", (0, 1, 2, 3))])
        await bench.run(*SHOW, job="cpu", places=[Place("node-2", ())])
        assert json.loads(bench.log("cpu"))["CUDA_VISIBLE_DEVICES"] == ""
        await bench.executor.stop("all", 1)
        assert (await bench.wait(ReportKind.ENDED, "all")).signal == signal.SIGTERM
        for job, script, want_end in (
            ("code", "exit 77", (77, None)),
            ("signal", "kill -SEGV $$", (None, signal.SIGSEGV)),
        ):
            end = await bench.run("sh", "-c", script, job=job)
            assert (end.exit_code, end.signal) == want_end

    scene(path, ray_cluster, act)


MEET = python(
    """
import os, socket
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(where) as server:
        print("met", sorted(int(server.accept()[0].recv(9)) for _ in range(world - 1)))
else:
    while True:
        try:
            with socket.create_connection(where) as sock:
                sock.send(str(rank).encode())
            break
        except OSError:
            pass
print("rank", rank, "local", os.environ["LOCAL_RANK"], "node", os.environ["NODE_RANK"], os.environ["FAIRLEAD_NODE"])
"""
)


def test_a_gang_spans_nodes_and_its_ranks_find_each_other(path: Path, ray_cluster: RayCluster) -> None:
    async def act(bench: RayBench) -> None:
        places = [Place("node-2", (0, 1)), Place("head", (0,)), Place("node-1", (2,))]
        end = await bench.run(*MEET, places=places, per_gpu=True)
        assert end.exit_code == 0
        assert sorted(line for line in bench.log().splitlines() if "rank" in line) == [
            "[0] rank 0 local 0 node 0 node-2",
            "[1] rank 1 local 1 node 0 node-2",
            "[2] rank 2 local 0 node 1 head",
            "[3] rank 3 local 0 node 2 node-1",
        ]
        assert "[0] met [1, 2, 3]" in bench.log()
        # one that fails stops the others, and speaks for all
        one_fails = "test $RANK = 1 && exit 5; sleep 60"
        end = await bench.run("sh", "-c", one_fails, job="fails", places=places[:2])
        assert (end.exit_code, end.message) == (5, "its part on head failed, so the others were stopped")

    scene(path, ray_cluster, act)


def test_shares_of_a_gpu_fit_beside_each_other_and_no_more_of_them(path: Path, ray_cluster: RayCluster) -> None:
    async def act(bench: RayBench) -> None:
        share = [Place("node-1", (0,), 400)]
        for job in range(3):
            await bench.start(*SHOW[:-1], f"{SHOW[-1]}; import time; time.sleep(60)", job=f"s{job}", places=share)
        for job in range(3):
            await bench.wait(ReportKind.STARTED, f"s{job}")
        await until(lambda: all(bench.log(f"s{job}") for job in range(3)))
        gpus = [json.loads(bench.log(f"s{job}"))["CUDA_VISIBLE_DEVICES"] for job in range(3)]
        assert len(gpus) - len(set(gpus)) >= 1  # two of them share one
        whole = "in Ray's books 2.8 GPUs are left"
        bench.executor.settings = replace(bench.executor.settings, start_s=3.0)
        said = await bench.refused("echo", whole, job="whole", places=[Place("node-1", (0, 1, 2))])
        assert "Ray did not give it its GPUs on node-1 within 3 s" in said
        assert bench.seen[-1].retry
        assert bench.log("whole") == ""
        bench.executor.settings = replace(bench.executor.settings, start_s=60.0)
        for job in range(3):
            await bench.executor.stop(f"s{job}", 1)
            await bench.wait(ReportKind.ENDED, f"s{job}")
        assert (await bench.run("true", job="whole", run=2, places=[Place("node-1", (0, 1, 2))])).exit_code == 0

    scene(path, ray_cluster, act)


def test_an_order_that_is_given_many_times_is_carried_out_once(
    path: Path, tmp_path: Path, ray_cluster: RayCluster
) -> None:
    order = Order("job", 1, ["sh", "-c", f"echo ran >>{tmp_path}/count"], ONE)

    async def act(bench: RayBench) -> None:
        await asyncio.gather(*(bench.executor.start(order) for _ in range(20)))
        await bench.wait(ReportKind.ENDED)
        await bench.executor.start(order)

    scene(path, ray_cluster, act)

    async def again(bench: RayBench) -> None:
        await bench.executor.start(order)
        await bench.run("true", job="other")
        assert {report.job for report in bench.seen} == {"other"}
        for job in ("job", "other", "never-heard-of"):
            await bench.executor.forget(job, 1)
        assert await bench.executor.found() == []
        assert list((path / "ray" / "runs").iterdir()) == []

    scene(path, ray_cluster, again)
    assert (tmp_path / "count").read_text() == "ran\n"


def test_what_can_not_begin_says_why_and_whether_it_may_later(path: Path, ray_cluster: RayCluster) -> None:
    async def act(bench: RayBench) -> None:
        for number, (command, more, says) in enumerate(
            [
                (["/no/such/program"], {}, "the command '/no/such/program' can't be run"),
                (["true"], {"places": [Place("node-9", (0,))]}, "no node is called 'node-9'"),
                (["true"], {"places": [Place("node-1", (4,))]}, "node 'node-1' has 4 GPUs"),
                (["true"], {"workdir": "/no/such/folder"}, "the working directory '/no/such/folder' can't be used"),
                (["true"], {"places": []}, "it has no place to run at"),
            ]
        ):
            assert says in await bench.refused(*command, job=f"j{number}", **more)
            assert not bench.seen[-1].retry

    scene(path, ray_cluster, act)


def test_stopping_ends_everything_below_and_kills_what_does_not_listen(path: Path, ray_cluster: RayCluster) -> None:
    deaf = python(
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork() == 0: os.setsid()\n"
        "os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)"  # two of them write: each line in one piece
    )

    async def act(bench: RayBench) -> None:
        await bench.begin(*deaf, grace_s=0.5)
        await until(lambda: len(bench.log().split()) == 2)
        await bench.executor.stop("job", 1)
        assert (await bench.wait(ReportKind.ENDED)).signal == signal.SIGKILL
        assert all(is_gone(int(pid)) for pid in bench.log().split())
        # before it has begun
        await bench.begin("sleep", "60", job="first", places=[Place("node-1", (0, 1, 2, 3))])
        await bench.start("sleep", "60", job="second", places=[Place("node-1", (0,))])
        await bench.executor.stop("second", 1)
        ended = await bench.wait(ReportKind.FAILED_TO_START, "second")
        assert ended.message == "it was stopped before it began"
        await bench.executor.stop("first", 1)
        await bench.wait(ReportKind.ENDED, "first")

    scene(path, ray_cluster, act)


CHECKPOINTS = python(
    """
import os, signal, sys, time
print("run", os.environ["FAIRLEAD_RUN"], os.environ.get("FAIRLEAD_RESUME", "-"), os.environ["FAIRLEAD_GPUS"].count(",") + 1)
def save(*_):
    print("saved")
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
print("ready")
while True: time.sleep(0.1)
"""
)


@pytest.mark.parametrize("knows_how", [True, False])
def test_a_suspended_run_leaves_its_gpus_and_goes_on_elsewhere_on_another_number(
    path: Path, ray_cluster: RayCluster, knows_how: bool
) -> None:
    async def act(bench: RayBench) -> None:
        more: dict[str, Any] = {"checkpoint_signal": "SIGUSR1"} if knows_how else {}
        await bench.begin(*CHECKPOINTS, places=[Place("node-1", (0, 1, 2, 3))], **more)
        await until(lambda: "ready" in bench.log())
        await bench.executor.suspend("job", 1)
        left = await bench.wait(ReportKind.SUSPENDED)
        assert left.method == ("checkpoint" if knows_how else "requeue")
        assert ("saved" in bench.log()) == knows_how
        await bench.begin("sleep", "60", job="other", places=[Place("node-1", (0, 1, 2, 3))])
        (found,) = [one for one in await bench.executor.found() if one.job == "job"]
        assert (found.running, found.suspended) == (False, left.method)
        await bench.executor.forget("job", 1)
        await bench.begin(*CHECKPOINTS, run=2, places=[Place("node-2", (0, 1))], resumes=True, **more)
        await until(lambda: bench.log().count("ready") == 2)
        assert "run 2 1 2" in bench.log()
        for job, run in (("job", 2), ("other", 1)):
            await bench.executor.stop(job, run)
            await bench.wait(ReportKind.ENDED, job, run)

    scene(path, ray_cluster, act)


def test_a_second_run_of_a_job_does_not_begin_while_the_first_is_there(path: Path, ray_cluster: RayCluster) -> None:
    async def act(bench: RayBench) -> None:
        await bench.begin("sleep", "60")
        await bench.start("sleep", "60", run=2)
        refused = await bench.wait(ReportKind.FAILED_TO_START, run=2)
        assert "run 1 of it is still running" in refused.message
        await bench.executor.stop("job", 1)
        await bench.wait(ReportKind.ENDED)

    scene(path, ray_cluster, act)


COUNTS = python("import os, time\nfor n in range(10**6):\n    os.write(1, f'{n}\\n'.encode()); time.sleep(0.02)")


def test_a_job_that_may_only_be_stopped_goes_on_where_it_was(path: Path, ray_cluster: RayCluster) -> None:
    only = (Suspension.STOP,)

    async def begin(bench: RayBench) -> None:
        await bench.begin(*COUNTS, suspend=only)
        await until(lambda: len(bench.log()) > 10)
        await bench.executor.suspend("job", 1)
        assert (await bench.wait(ReportKind.SUSPENDED)).method == "stop"
        size = len(bench.log())
        await bench.start(*COUNTS, run=2, suspend=only, resumes=True, places=[Place("node-2", (0,))])
        elsewhere = await bench.wait(ReportKind.FAILED_TO_START, run=2)
        assert elsewhere.message == "it was stopped on node-1 and can go on there only"
        await bench.start(*COUNTS, run=3, suspend=only, resumes=True)
        resumed = await bench.wait(ReportKind.RESUMED, run=3)
        assert resumed.method == "stop"
        await until(lambda: len(bench.log()) > size + 100)
        await bench.executor.forget("job", 1)

    async def go_on(bench: RayBench) -> None:
        (found,) = await bench.executor.found()
        assert (found.run, found.running) == (3, True)
        await bench.executor.suspend("job", 3)
        await bench.wait(ReportKind.SUSPENDED, run=3)
        await bench.executor.stop("job", 3)
        assert (await bench.wait(ReportKind.ENDED, run=3)).signal == signal.SIGTERM
        assert [int(line) for line in bench.log().splitlines()] == list(range(len(bench.log().splitlines())))
        await bench.run("true", job="free", places=[Place("node-1", (0, 1, 2, 3))])

    scene(path, ray_cluster, begin)
    scene(path, ray_cluster, go_on)
