"""Several processes are one job: they find each other, fail together and are all gone in the end."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from fairlead.runtime.protocols import Place, ReportKind

from .harness import Bench, is_gone, local, python, until

WHO = python(
    "import json, os; names = 'RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK CUDA_VISIBLE_DEVICES FAIRLEAD_NODE';"
    "print(json.dumps([os.environ[name] for name in names.split()]))"
)
TWO_NODES = [Place("node-0", (0, 1)), Place("node-2", (4, 5))]
#: rank 0 waits for a word of every other rank, as a rendezvous does
MEET = python(
    "import os, socket, time\n"
    "rank, world = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
    "address = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))\n"
    "if rank == 0:\n"
    "    server = socket.create_server(address)\n"
    "    met = sorted(server.accept()[0].recv(9).decode() for _ in range(world - 1))\n"
    "    print('met', *met)\n"
    "else:\n"
    "    while True:\n"
    "        try:\n"
    "            socket.create_connection(address).send(str(rank).encode())\n"
    "            break\n"
    "        except ConnectionRefusedError:\n"
    "            time.sleep(0.01)\n"
)


def run(path: Path, *command: str, **more: object) -> Bench:
    async def scenario() -> Bench:
        async with local(path, nodes=4) as bench:
            await bench.run(*command, **more)
            return bench

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("per_gpu", "want"),
    [
        (False, [["0", "0", "2", "1", "0", "0,1", "node-0"], ["1", "0", "2", "1", "1", "4,5", "node-2"]]),
        (
            True,
            [
                ["0", "0", "4", "2", "0", "0,1", "node-0"],
                ["1", "1", "4", "2", "0", "0,1", "node-0"],
                ["2", "0", "4", "2", "1", "4,5", "node-2"],
                ["3", "1", "4", "2", "1", "4,5", "node-2"],
            ],
        ),
    ],
)
def test_a_gang_has_a_process_per_node_or_per_gpu(path: Path, per_gpu: bool, want: list[list[str]]) -> None:
    lines = sorted(run(path, *WHO, places=TWO_NODES, per_gpu=per_gpu).log().splitlines())
    assert [line.partition("] ")[0] for line in lines] == [f"[{rank[0]}" for rank in want]
    assert [json.loads(line.partition("] ")[2]) for line in lines] == want


def test_the_processes_of_a_gang_meet_at_the_address_they_are_given(path: Path) -> None:
    assert run(path, *MEET, places=TWO_NODES, per_gpu=True).log() == "[0] met 1 2 3\n"


def test_lines_of_a_gang_stay_whole_and_none_is_lost(path: Path) -> None:
    print_slowly = (
        "import os\nfor i in range(300): os.write(1, b'li'); os.write(1, b'ne %d\\n' % i)\nos.write(1, b'end')"
    )
    lines = run(path, *python(print_slowly), places=TWO_NODES, per_gpu=True).log().splitlines()
    for rank in range(4):
        own = [line.removeprefix(f"[{rank}] ") for line in lines if line.startswith(f"[{rank}]")]
        assert own == [*(f"line {i}" for i in range(300)), "end"]


def test_when_one_rank_fails_the_others_are_stopped_and_its_exit_code_is_the_jobs(path: Path) -> None:
    async def scenario() -> None:
        async with local(path, nodes=4) as bench:
            script = 'if [ $RANK = 2 ]; then sleep 0.2; exit 42; fi; trap "" TERM; while :; do sleep 0.05; done'
            await bench.begin("sh", "-c", script, places=TWO_NODES, per_gpu=True, grace_s=0.3)
            pids = [pid for pid, _ in bench.state()["ranks"]]
            end = await bench.wait(ReportKind.ENDED)
            assert (end.exit_code, end.message) == (42, "rank 2 failed, so the others were stopped")
            assert all(map(is_gone, pids))

    asyncio.run(scenario())


def test_a_rank_that_is_done_early_stops_nobody(path: Path, tmp_path: Path) -> None:
    script = f"if [ $RANK = 0 ]; then exit 0; fi; sleep 0.3; touch {tmp_path}/$RANK"
    assert run(path, "sh", "-c", script, places=TWO_NODES).seen[-1].exit_code == 0
    assert (tmp_path / "1").exists()


def test_where_one_rank_can_not_begin_none_is_left(path: Path, tmp_path: Path) -> None:
    """The program takes itself away: whoever comes too late finds none."""

    async def scenario() -> None:
        async with local(path, gpus=64) as bench:
            await bench.start("true", places=[Place("node-0", tuple(range(64)))], per_gpu=True)
            await bench.wait(ReportKind.ENDED)
            message = await bench.refused("/no", job="b", places=[Place("node-0", tuple(range(64)))], per_gpu=True)
            assert "No such file" in message
            pid = bench.supervisor("b")
            await until(lambda: is_gone(pid))

    asyncio.run(scenario())


def test_memory_is_divided_among_the_processes_of_a_gang(path: Path) -> None:
    show = "import resource; print(resource.getrlimit(resource.RLIMIT_DATA)[0] >> 20)"
    bench = run(path, *python(show), places=[Place("node-0", (0, 1, 2)), Place("node-1", (0,))], memory_mib=4000)
    if "cgroup" in bench.seen[0].message:
        pytest.skip("this machine limits the memory of the whole gang with a cgroup")
    assert sorted(bench.log().splitlines()) == ["[0] 3000", "[1] 1000"]


def test_ports_are_free_for_everyone(path: Path) -> None:
    """Twelve gangs at once, each with its own meeting."""

    async def scenario() -> None:
        async with local(path, nodes=4) as bench:
            jobs = [f"job{i}" for i in range(12)]
            for job in jobs:
                await bench.start(*MEET, job=job, places=TWO_NODES)
            for job in jobs:
                assert (await bench.wait(ReportKind.ENDED, job)).exit_code == 0
                assert bench.log(job) == "[0] met 1\n"

    asyncio.run(scenario())
    assert len(os.listdir(path / "runs")) == 12
