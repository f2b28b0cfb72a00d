"""A watcher sees everything in a real Slurm and touches nothing; and what Slurm prints, in the forms that versions have."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairlead.backends.slurm import SlurmExecutor, SlurmSettings, SlurmWatcher, parse
from fairlead.model.errors import InputError
from fairlead.runtime.protocols import Phase
from servers.slurm import SlurmCluster

from .slurm_harness import shared, slurm, slurm_cluster, until

__all__ = ["shared", "slurm_cluster"]


def test_a_watcher_sees_who_waits_runs_and_has_ended(shared: Path, slurm_cluster: SlurmCluster) -> None:
    async def check() -> None:
        state = shared / "never-made"
        watcher = await SlurmWatcher.open(SlurmSettings(state, "other"))
        assert (await watcher.inventory()).gpus == 64
        running = slurm_cluster.sbatch("sleep 1000", "-p", "other", "--gres=gpu:3", "-A", "nlp", "-w", "node2")
        waiting = slurm_cluster.sbatch("true", "-p", "other", "--gres=gpu:8", "-w", "node2")
        await until(lambda: slurm_cluster.state(running) == "RUNNING")
        slurm_cluster.run("scontrol", "update", "NodeName=node8", "State=DRAIN", "Reason=dust")
        try:
            scene = await watcher.look()
        finally:
            slurm_cluster.run("scontrol", "update", "NodeName=node8", "State=RESUME")
        seen = {sighting.job.foreign.split(":")[2]: sighting for sighting in scene.jobs}
        assert (seen[running].phase, seen[running].gpus) == (Phase.RUNNING, (("node2", 3),))
        assert (seen[running].job.tenant, seen[running].job.user) == ("nlp", "nobody")
        assert seen[running].start_s is not None
        assert (seen[waiting].phase, seen[waiting].job.spec.gpus) == (Phase.WAITING, 8)
        assert list(scene.down) == ["node8"]
        slurm_cluster.run("scancel", running)
        await until(lambda: slurm_cluster.state(running) == "CANCELLED")
        ended = {one.job.foreign: one for one in (await watcher.look()).jobs}[seen[running].job.foreign]
        assert (ended.phase, ended.end_s is not None) == (Phase.ENDED, True)
        # once, and then no more
        assert seen[running].job.foreign not in [one.job.foreign for one in (await watcher.look()).jobs]
        assert set(watcher.slurm.calls) == {"scontrol", "squeue", "sinfo"}
        assert not state.exists()
        await watcher.close()

    asyncio.run(check())


def test_what_can_not_be_used_is_said(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        with pytest.raises(InputError, match="did you mean 'gpu'"):
            await SlurmWatcher.open(SlurmSettings(shared, "gpus"))
        async with slurm(shared):
            with pytest.raises(InputError, match="another scheduler"):
                await SlurmExecutor.open(SlurmSettings(shared / "state"))
        with monkeypatch.context() as patch:
            patch.setenv("PATH", "/nowhere")
            with pytest.raises(InputError, match="Slurm can't be asked"):
                await SlurmWatcher.open(SlurmSettings(shared))

    asyncio.run(check())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node1", ["node1"]),
        ("node[1-3,07-08],x2", ["node1", "node2", "node3", "node07", "node08", "x2"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("(null)", []),
        ("", []),
    ],
)
def test_lists_of_hosts(text: str, names: list[str]) -> None:
    assert parse.hosts(text) == names


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu:v100:8(S:0-1)", (8, "v100")),
        ("gpu:4", (4, "")),
        ("gres:gpu:2", (2, "")),
        ("gres/gpu:a100:2", (2, "a100")),
        ("gres:gpu:a100:2,gres:gpu:h100:1", (3, "")),
        ("gpu", (1, "")),
        ("license:matlab:1", (0, "")),
        ("shard:8", (0, "")),
        ("(null)", (0, "")),
    ],
)
def test_gpus_that_are_asked_for(text: str, found: tuple[int, str]) -> None:
    assert parse.gres_gpus(text) == found


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("10:00", 600),
        ("1:02:03", 3723),
        ("2-0", 172800),
        ("1-2:03:04", 93784),
        ("UNLIMITED", None),
        ("", None),
    ],
)
def test_time_limits(text: str, seconds: float | None) -> None:
    assert parse.duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("IDLE+DRAIN", {"IDLE", "DRAIN"}),
        ("down*", {"DOWN"}),
        (["IDLE", "POWERED_DOWN"], {"IDLE", "POWERED_DOWN"}),
        ("MIXED~", {"MIXED"}),
    ],
)
def test_states_of_nodes(text: object, states: set[str]) -> None:
    assert parse.words(text) == states


@pytest.mark.parametrize(
    ("text", "mib"), [("62.50G", 64000), ("16000M", 16000), ("2Gn", 2048), ("1T", 2**20), ("x", None)]
)
def test_amounts_of_memory(text: str, mib: int | None) -> None:
    assert parse.memory_mib(text) == mib
