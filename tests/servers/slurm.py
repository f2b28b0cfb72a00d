"""A real Slurm for tests: several nodes of eight GPUs on this machine, of Debian's packages, in a folder of its own.

Import the fixture where it is wanted: `from servers.slurm import slurm_cluster`. Everything listens on loopback, on ports that were
free. Where no Slurm can be had the tests that ask for one are skipped, and say why.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged", "mungekey")
PARTITION, RUNS = "gpu", "gpu-fairlead"
PATIENCE_S = 60.0
#: what has happened slurmctld saves within five seconds
SAVE_S = 6.0
_PR_SET_PDEATHSIG = 1

_CONF = """\
ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=2000
GresTypes=gpu
TopologyPlugin=topology/tree
SlurmctldTimeout=10
SlurmdTimeout={slurmd_timeout}
MessageTimeout=5
KillWait=3
MinJobAge={min_job_age}
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,bf_interval=2
MaxJobCount=20000
MaxArraySize=2001
{nodes}
PartitionName={partition} Nodes=ALL Default=YES State=DOWN
PartitionName={partition}-fairlead Nodes=ALL Hidden=YES
PartitionName=other Nodes=ALL
"""


class SlurmCluster:
    """`gpu` is handed to fairlead, `gpu-fairlead` is where it lets jobs run, `other` is nobody's business of ours."""

    def __init__(
        self, folder: Path, nodes: int, gpus: int, slurmd_timeout_s: int, min_job_age_s: int, gpu_type: str = "v100"
    ) -> None:
        self.folder, self.gpus, self.gpu_type = folder, gpus, gpu_type
        self.nodes = [f"node{i}" for i in range(1, nodes + 1)]
        self.cluster = "test"
        self.partition = PARTITION
        self.conf = folder / "slurm.conf"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = _free_ports(nodes + 1)
        self._timeout_s, self._min_job_age_s = slurmd_timeout_s, min_job_age_s
        self._write()

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", os.defpath), "SLURM_CONF": str(self.conf), "LC_ALL": "C"}

    # -- starting ------------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        host = socket.gethostname()
        lines = [
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 RealMemory=64000 "
            f"Gres=gpu:{self.gpu_type}:{self.gpus}"
            for name, port in zip(self.nodes, self._ports[1:], strict=True)
        ]
        self.conf.write_text(
            _CONF.format(
                cluster=self.cluster,
                host=host,
                port=self._ports[0],
                folder=self.folder,
                nodes="\n".join(lines),
                partition=self.partition,
                slurmd_timeout=self._timeout_s,
                min_job_age=self._min_job_age_s,
            )
        )
        (self.folder / "gres.conf").write_text(
            "".join(
                f"NodeName={name} Name=gpu Type={self.gpu_type} File={self.folder}/dev[0-{self.gpus - 1}]\n"
                for name in self.nodes
            )
        )
        half = (len(self.nodes) + 1) // 2
        (self.folder / "topology.conf").write_text(
            f"SwitchName=left Nodes={','.join(self.nodes[:half])}\n"
            f"SwitchName=right Nodes={','.join(self.nodes[half:])}\n"
            "SwitchName=top Switches=left,right\n"
        )
        for i in range(self.gpus):
            device = self.folder / f"dev{i}"
            if not device.exists():
                os.mknod(device, 0o666 | 0o020000, os.makedev(1, 3))
                os.chmod(device, 0o666)
        for part in ("ctld", "spool"):
            (self.folder / part).mkdir(exist_ok=True)

    def start(self) -> None:
        key = self.folder / "munge.key"
        subprocess.run(["mungekey", "--create", f"--keyfile={key}"], check=True, capture_output=True)
        names = ("socket", "log-file", "pid-file", "seed-file")
        files = {name: self.folder / f"munge.{end}" for name, end in zip(names, ("sock", "log", "pid", "seed"))}
        words = [f"--{name}={path}" for name, path in files.items()]
        self._spawn("munged", "munged", "--foreground", "--force", f"--key-file={key}", *words)
        _wait(lambda: files["socket"].exists(), "munged")
        self.start_slurmctld()
        for node in self.nodes:
            self.start_slurmd(node)
        self.wait_idle()

    def _spawn(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self._processes[name] = subprocess.Popen(
                words, cwd=self.folder, env=self.env, stdout=out, stderr=out, preexec_fn=_die_with_the_tests
            )

    def start_slurmctld(self) -> None:
        self._spawn("slurmctld", "slurmctld", "-D", "-f", str(self.conf))
        _wait(lambda: "UP" in self.run("scontrol", "ping", check=False), "slurmctld")

    def kill_slurmctld(self) -> None:
        """As a crash would, but the moment it has saved what happened, or has nothing to save: what it has not saved it forgets,
        and runs jobs again that have run, and gives the numbers of jobs again that it had given."""
        saved, end = self._saved(), time.perf_counter() + SAVE_S
        while self._saved() == saved and time.perf_counter() < end:
            time.sleep(0.01)
        self._kill("slurmctld")

    def _saved(self) -> int:
        """Which of its savings is the last."""
        try:
            return (self.folder / "ctld" / "job_state").stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def start_slurmd(self, node: str) -> None:
        self._spawn(f"slurmd-{node}", "slurmd", "-D", "-N", node, "-f", str(self.conf))

    def kill_slurmd(self, node: str) -> None:
        """As a crash would: what it has started runs on."""
        self._kill(f"slurmd-{node}")

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def wait_idle(self) -> None:
        """Until every node takes jobs."""

        def idle() -> bool:
            states = self.run("sinfo", "-h", "-N", "-p", RUNS, "-o", "%T", check=False).split()
            return len(states) == len(self.nodes) and all(state in ("idle", "mixed", "allocated") for state in states)

        _wait(idle, "slurmd")

    def stop(self) -> None:
        """And whatever of its jobs is left."""
        with contextlib.suppress(OSError, subprocess.SubprocessError, RuntimeError):
            left = self.run("squeue", "-h", "-a", "-o", "%A").split()
            if left:
                self.run("scancel", "-f", "-s", "KILL", *left, check=False)
        for name in sorted(self._processes, key=lambda name: (name == "munged", name == "slurmctld")):
            process = self._processes[name]
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _left(self) -> list[int]:
        mark = f"SLURM_CONF={self.conf}".encode()
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                with contextlib.suppress(OSError):
                    if mark in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                        found.append(int(name))
        return found

    # -- using ---------------------------------------------------------------------------------------------------------

    def run(self, *words: str, user: str = "", check: bool = True, **more: str) -> str:
        done = subprocess.run(
            words, env=self.env | more, capture_output=True, text=True, timeout=60, check=False, cwd="/", **_as(user)
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout + ("" if check else done.stderr)

    def sbatch(self, script: str, *options: str, user: str = "nobody") -> str:
        """A job as a user submits it, into the default partition; its number."""
        done = subprocess.run(
            ["sbatch", "--parsable", "-o", "/dev/null", *options],
            input=f"#!/bin/bash\n{script}\n",
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd="/tmp",
            **_as(user),
        )
        if done.returncode:
            raise RuntimeError(f"sbatch: {done.stderr.strip()}")
        return done.stdout.strip().split(";")[0]

    def jobs(self) -> dict[str, str]:
        """State by number, of all that Slurm remembers."""
        lines = self.run("squeue", "-h", "-r", "-t", "all", "-o", "%i %T").splitlines()
        return dict(line.split() for line in lines)

    def state(self, job: str) -> str:
        return self.jobs().get(job, "")

    def clear(self) -> None:
        """Cancel everything, and wait until nothing is left of it."""

        def is_clear() -> bool:
            left = self.run("squeue", "-h", "-a", "-o", "%A").split()
            if left:
                self.run("scancel", *left, check=False)
                self.run("scancel", "-f", "-s", "KILL", *left, check=False)
            return not left

        _wait(is_clear, "the end of all jobs")


@contextmanager
def started(
    nodes: int = 8, gpus: int = 8, slurmd_timeout_s: int = 20, min_job_age_s: int = 300
) -> Iterator[SlurmCluster]:
    install()
    folder = Path(tempfile.mkdtemp(prefix="fairlead-slurm-"))
    folder.chmod(0o755)
    cluster = SlurmCluster(folder, nodes, gpus, slurmd_timeout_s, min_job_age_s)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[SlurmCluster]:
    with started() as cluster:
        yield cluster


def install() -> None:
    """Skips where it can't be had."""
    with open(Path(tempfile.gettempdir()) / f"fairlead-slurm-install-{os.geteuid()}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test processes at once
        missing = [name for name in PROGRAMS if not shutil.which(name)]
        if missing and os.geteuid() == 0 and shutil.which("apt-get"):
            quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
            for words in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]):
                with contextlib.suppress(subprocess.SubprocessError, OSError):
                    subprocess.run(words, env=quiet, capture_output=True, timeout=300, check=True)
            missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        pytest.skip(f"there is no Slurm here: {missing[0]} is missing, and can't be installed ({' '.join(PACKAGES)})")
    if os.geteuid() != 0:
        pytest.skip("a Slurm of several users' jobs can only be started as root")


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def _wait(true: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {timeout_s:g} s for {what}")
        time.sleep(0.05)


def _as(user: str) -> dict[str, object]:
    if not user or user == pwd.getpwuid(os.geteuid()).pw_name:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _die_with_the_tests() -> None:
    """Even when they are killed and no fixture can clean up."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
