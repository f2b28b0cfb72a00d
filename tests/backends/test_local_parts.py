"""The parts of the local executor by themselves: inventory, settings, limits, who gets a signal, the driver's order of calls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from fairlead.backends.local import driver, inventory, limits, procs
from fairlead.backends.local.driver import CHECKPOINTED, LOCKED, RUNNING, DriverError, Leaving
from fairlead.backends.local.executor import LocalExecutor, _capabilities
from fairlead.backends.local.inventory import Gpu, Machine, look, short_type
from fairlead.backends.local.layout import methods
from fairlead.backends.local.rundir import RunDir, dir_name
from fairlead.backends.local.settings import LocalSettings
from fairlead.model.cluster import ClusterSpec, NodeSpec
from fairlead.model.errors import InputError
from fairlead.runtime.protocols import Executor, Order, Place


def test_the_local_executor_is_an_executor() -> None:
    typed: type[Executor] = LocalExecutor
    assert typed.name == "local"


# -- inventory and settings --------------------------------------------------------------------------------------------------


def test_declared_gpus_make_nodes_that_share_the_machine(tmp_path: Path) -> None:
    settings = LocalSettings(tmp_path, gpus=8, nodes=4, gpu_type="V100", gpu_memory_mib=16384)
    nodes = look(settings).cluster.nodes
    assert [(node.name, node.gpus, node.gpu_type, node.gpu_memory_mib) for node in nodes] == [
        (f"node-{i}", 8, "V100", 16384) for i in range(4)
    ]
    assert all(node.cpu_milli == 1000 * len(os.sched_getaffinity(0)) // 4 for node in nodes)


def test_gpus_of_two_types_are_two_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [Gpu(i, f"GPU-{i}", kind, 81920) for i, kind in enumerate(["H100", "T4", "H100"])]
    monkeypatch.setattr(inventory, "_real_gpus", lambda: (gpus, 580))
    machine = look(LocalSettings(tmp_path))
    assert [(node.gpus, node.gpu_type) for node in machine.cluster.nodes] == [(2, "H100"), (1, "T4")]
    first = machine.gpus[machine.cluster.nodes[0].name]
    assert [gpu.name for gpu in first] == ["GPU-0", "GPU-2"]


@pytest.mark.parametrize(
    ("name", "short"),
    [("NVIDIA H200", "H200"), ("Tesla V100-SXM2-32GB", "V100"), ("NVIDIA GeForce RTX 4090", "4090"), ("", "")],
)
def test_gpu_types_have_the_names_that_people_use(name: str, short: str) -> None:
    assert short_type(name) == short


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"nodes": 2}, "several nodes on one machine need virtual GPUs; got 2; expected gpus=NUMBER too"),
        ({"gpus": 1, "nodes": 0}, "a cluster needs at least one node; got 0"),
        ({"gpus": -1}, "a node can't have fewer than no GPUs; got -1"),
        ({"log_limit_bytes": 10}, "so small a log can't be rotated; got 10"),
        ({"log_keep": -1}, "fewer than no old logs can't be kept; got -1"),
    ],
)
def test_settings_that_can_not_be_say_what_would_do(tmp_path: Path, wrong: dict[str, int], says: str) -> None:
    with pytest.raises(InputError) as caught:
        LocalSettings(tmp_path, **wrong)  # type: ignore[arg-type]
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("virtual", "checkpoints", "moves", "keep", "want"),
    [
        (True, False, False, False, (True, True)),
        (False, True, True, False, (True, True)),
        (False, True, False, False, (True, False)),
        (False, False, False, True, (False, False)),
        (False, False, False, False, (True, True)),
    ],
)
def test_capabilities_are_what_the_machine_can_do(
    tmp_path: Path, virtual: bool, checkpoints: bool, moves: bool, keep: bool, want: tuple[bool, bool]
) -> None:
    machine = Machine(ClusterSpec((NodeSpec("here", 2),)), {}, virtual, checkpoints, moves)
    able = _capabilities(LocalSettings(tmp_path, keep_memory=keep), machine)
    assert (able.frees_memory, able.migrate) == want
    order = Order("job", 1, ("true",), [Place("here", (0,))], checkpoint_signal="SIGUSR1")
    works = methods(order, machine, LocalSettings(tmp_path, keep_memory=keep))
    assert list(able.ways) == works
    assert able.suspend
    assert able.share
    assert able.choose_gpus
    assert able.resize


def test_names_of_runs_are_different_for_different_jobs_and_are_never_hidden() -> None:
    jobs = ["a", "a@1", "a%401", "..", ".", "a/b", "a%2Fb", "ä"]
    names = [dir_name(job, 1) for job in jobs]
    assert len(set(names)) == len(jobs)
    assert not [name for name in names if name.startswith(".") or "/" in name]


def test_asking_whether_a_run_is_looked_after_does_not_keep_anyone_from_doing_so(tmp_path: Path) -> None:
    run = RunDir.create(str(tmp_path), "job@1", {})
    other = RunDir(run.path)
    assert not other.is_claimed()
    assert run.claim()
    assert other.is_claimed()
    assert not other.claim()
    run.release()
    assert other.claim()


def test_a_run_whose_keeper_is_going_is_claimed_a_moment_later(tmp_path: Path) -> None:
    """As with a scheduler that was killed while it began a process: that process holds its lock until it has begun."""
    run = RunDir.create(str(tmp_path), "job@1", {})
    assert run.claim()
    timer = threading.Timer(0.3, run.release)
    timer.start()
    other = RunDir(run.path)
    assert not other.claim()
    assert other.claim(wait_s=20)
    timer.join()
    assert not RunDir(run.path).claim(wait_s=0.1)


# -- memory ----------------------------------------------------------------------------------------------------------------------


def test_a_cgroup_without_the_memory_controller_is_not_used(tmp_path: Path) -> None:
    assert limits.usable_cgroup(str(tmp_path / "missing")) == ""
    (tmp_path / "cgroup.controllers").write_text("cpu pids")
    (tmp_path / "cgroup.subtree_control").write_text("")
    assert limits.usable_cgroup(str(tmp_path)) == ""


def test_a_job_in_a_cgroup_is_limited_as_a_whole_and_the_kernels_verdict_is_told(tmp_path: Path) -> None:
    """The files of a cgroup, in a plain directory: what is written to them is what the kernel would be told."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory")
    (tmp_path / "cgroup.subtree_control").write_text("cpu")
    assert limits.usable_cgroup(str(tmp_path)) == str(tmp_path)
    assert "+memory" in (tmp_path / "cgroup.subtree_control").read_text()
    limit = limits.MemoryLimit(512, str(tmp_path), "job@1")
    group = tmp_path / "fairlead-job@1"
    limit.enter(128)
    assert (group / "memory.max").read_text() == str(512 << 20)
    assert (group / "cgroup.procs").read_text() == "0"
    assert limit.describe() == "memory limited to 512 MiB for the job (cgroup)"
    (group / "memory.events").write_text("low 0\noom 3\noom_kill 1\n")
    assert limit.leave() == "out of memory: it may use 512 MiB"


# -- processes ---------------------------------------------------------------------------------------------------------------------


def test_a_signal_goes_to_the_program_and_not_to_the_shell_around_it_or_to_its_helpers() -> None:
    """The helper inherits the program's handler, as a data loader's workers do."""
    program = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: None)\n"
        "os.fork() or time.sleep(600)\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(600)\n"
    )
    command = ["sh", "-c", '"$@"; true', "-", sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as shell:
        try:
            assert shell.stdout
            trainer = int(shell.stdout.readline())
            assert procs.catches(trainer, signal.SIGUSR1)
            assert procs.catchers(shell.pid, signal.SIGUSR1) == [trainer]
            assert procs.catchers(shell.pid, signal.SIGUSR2) == []
            assert len(procs.descendants(shell.pid)) == 2
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def test_descendants_are_found_where_the_kernel_keeps_no_list_of_children(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sh", "-c", "sleep 600 & sleep 600"], start_new_session=True) as shell:
        try:
            while len(procs.descendants(shell.pid)) != 2:
                pass
            want = procs.descendants(shell.pid)

            def children(pid: int) -> list[int]:
                raise FileNotFoundError

            monkeypatch.setattr(procs, "children", children)
            assert sorted(procs.descendants(shell.pid)) == sorted(want)
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


RUNS, LEAVES = 4194560, 4227340  #: flags as seen in /proc of a training on an H200, while it ran and while it ended


@pytest.mark.parametrize(
    ("tasks", "exits"),
    [
        ({"7": ("R", RUNS), "8": ("S", RUNS)}, False),
        ({"7": ("Z", LEAVES), "8": ("D", LEAVES)}, True),
        ({"7": ("D", LEAVES), "8": ("D", LEAVES)}, True),
        ({"7": ("Z", LEAVES), "8": ("S", RUNS)}, False),  # its first thread is over, and it goes on
        ({"7": ("Z", LEAVES)}, False),  # it is over, and nobody has asked how it ended
        ({}, False),
    ],
)
def test_a_process_that_gives_back_what_it_held_is_exiting(
    tmp_path: Path, tasks: dict[str, tuple[str, int]], exits: bool
) -> None:
    for task, (state, flags) in tasks.items():
        (tmp_path / "7/task" / task).mkdir(parents=True)
        (tmp_path / "7/task" / task / "stat").write_text(f"{task} (py) thon) {state} 1 7 7 0 -1 {flags} 10 0 0\n")
    assert procs.is_exiting(7, str(tmp_path)) is exits


def test_a_process_that_runs_and_one_that_nobody_waits_for_are_not_exiting() -> None:
    assert not procs.is_exiting(os.getpid())
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as over:
        assert over.stdout is not None
        over.stdout.read()
        os.waitid(os.P_PID, over.pid, os.WEXITED | os.WNOWAIT)
        assert not procs.is_exiting(over.pid)


def test_a_supervisor_imports_next_to_nothing() -> None:
    def modules(also: str) -> set[str]:
        show = [sys.executable, "-P", "-s", "-c", f"import sys{also}; print(*sys.modules)"]
        return set(subprocess.run(show, capture_output=True, text=True, check=True).stdout.split())

    heavy = {
        "asyncio",
        "numpy",
        "numba",
        "dataclasses",
        "inspect",
        "subprocess",
        "concurrent",
        "fairlead.runtime",
        "pydantic",
    }
    assert not heavy & (modules(", fairlead.backends.local.nursery") - modules(""))


# -- the driver's calls: a driver that keeps the rules of the real one, and may be out of memory ----------------------------------------


class Rules:
    def __init__(self, *pids: int) -> None:
        self.states = dict.fromkeys(pids, RUNNING)
        self.calls: list[str] = []
        self.fails: set[str] = set()
        self.ends: set[str] = set()  #: calls during which the process ends

    def _go(self, call: str, pid: int, before: int, after: int) -> None:
        self.calls.append(f"{call} {pid}")
        if f"{call} {pid}" in self.ends:
            del self.states[pid]
            raise DriverError(f"{call} {pid}")
        if f"{call} {pid}" in self.fails:
            raise DriverError(f"{call} {pid}")
        assert self.states[pid] == before, f"{call} {pid} in state {self.states[pid]}"
        self.states[pid] = after

    def state(self, pid: int) -> int:
        if pid not in self.states:
            raise DriverError(f"process {pid} does not use CUDA")
        return self.states[pid]

    def lock(self, pid: int) -> None:
        self._go("lock", pid, RUNNING, LOCKED)

    def checkpoint(self, pid: int) -> None:
        self._go("checkpoint", pid, LOCKED, CHECKPOINTED)

    def restore(self, pid: int, moves: Mapping[str, str]) -> None:
        self._go("restore", pid, CHECKPOINTED, LOCKED)

    def unlock(self, pid: int) -> None:
        self._go("unlock", pid, LOCKED, RUNNING)


def test_all_processes_are_locked_before_the_first_is_moved() -> None:
    rules = Rules(1, 2)
    assert driver.freeze(rules, [1, 2, 3]) == [1, 2]
    assert rules.calls == ["lock 1", "lock 2", "checkpoint 1", "checkpoint 2"]
    driver.thaw(rules, [1, 2], {})
    assert rules.calls[4:] == ["restore 1", "restore 2", "unlock 1", "unlock 2"]
    assert set(rules.states.values()) == {RUNNING}


@pytest.mark.parametrize("call", ["lock 1", "lock 2", "checkpoint 1", "checkpoint 2"])
def test_where_one_can_not_be_moved_all_go_on(call: str) -> None:
    rules = Rules(1, 2)
    rules.fails = {call}
    with pytest.raises(DriverError, match=call):
        driver.freeze(rules, [1, 2])
    assert set(rules.states.values()) == {RUNNING}


@pytest.mark.parametrize("call", ["lock 1", "lock 2", "checkpoint 1", "checkpoint 2"])
def test_where_one_ends_meanwhile_the_others_go_on_and_that_is_told(call: str) -> None:
    rules = Rules(1, 2)
    rules.ends = {call}
    with pytest.raises(Leaving, match=call):
        driver.freeze(rules, [1, 2])
    assert list(rules.states.values()) == [RUNNING]


def test_one_that_the_driver_has_forgotten_and_that_holds_a_gpu_is_ending() -> None:
    rules = Rules(1)
    with pytest.raises(Leaving, match="process 2 is ending"):
        driver.freeze(rules, [1, 2], lambda pid: pid == 2)
    assert rules.calls == []
    pid, answer = driver.in_child(lambda: driver.freeze(rules, [1, 2], lambda pid: pid == 2))
    assert driver.read_answer(answer) == (driver.LEAVING, "process 2 is ending")
    os.waitpid(pid, 0)


@pytest.mark.parametrize("call", ["restore 1", "restore 2"])
def test_where_one_can_not_come_back_all_stay_away_and_may_try_again(call: str) -> None:
    rules = Rules(1, 2)
    driver.freeze(rules, [1, 2])
    rules.fails = {call}
    with pytest.raises(DriverError, match=call):
        driver.thaw(rules, [1, 2], {})
    assert set(rules.states.values()) == {CHECKPOINTED}
    rules.fails = set()
    driver.thaw(rules, [1, 2], {})
    assert set(rules.states.values()) == {RUNNING}


def test_uuids_are_sixteen_bytes() -> None:
    assert driver.uuid_bytes("GPU-00112233-4455-6677-8899-aabbccddeeff").hex() == "00112233445566778899aabbccddeeff"
