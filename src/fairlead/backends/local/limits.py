"""Memory limits: a cgroup for the whole job where this machine lets us have one, else a limit per process.

The limit per process is RLIMIT_DATA, which counts private memory that a program can write to. RLIMIT_AS would count the
address space that CUDA reserves without using it, and no CUDA program would start.
"""

from __future__ import annotations

import contextlib
import os
import resource

MIB = 1 << 20


def usable_cgroup(parent: str = "", root: str = "/sys/fs/cgroup") -> str:
    """A cgroup (v2) under which we may make others with memory limits: `parent`, or our own. "" where there is none."""
    try:
        if not parent:
            with open("/proc/self/cgroup", encoding="ascii") as file:
                own = [line.rstrip("\n") for line in file if line.startswith("0::")]
            parent = root + own[0][3:].rstrip("/") if own else ""
        with open(f"{parent}/cgroup.controllers", encoding="ascii") as file:
            if "memory" not in file.read().split():
                return ""
        with open(f"{parent}/cgroup.subtree_control", "r+", encoding="ascii") as file:
            if "memory" not in file.read().split():
                file.write("+memory")
        trial = f"{parent}/fairlead-trial-{os.getpid()}"
        os.mkdir(trial)
        os.rmdir(trial)
    except (OSError, IndexError):
        return ""
    return parent


class MemoryLimit:
    """One job's. `how` says what was used: "cgroup", "rlimit" or ""."""

    def __init__(self, memory_mib: int | None, parent: str, name: str) -> None:
        self.memory_mib = memory_mib
        self.how = ""
        self.group = ""
        if memory_mib is None:
            return
        self.how = "rlimit"
        if parent:
            group = f"{parent}/fairlead-{name}"
            with contextlib.suppress(OSError):
                os.makedirs(group, exist_ok=True)
                with open(f"{group}/memory.max", "w", encoding="ascii") as file:
                    file.write(str(memory_mib * MIB))
                with contextlib.suppress(OSError), open(f"{group}/memory.swap.max", "w", encoding="ascii") as file:
                    file.write("0")
                self.group, self.how = group, "cgroup"

    def enter(self, part_mib: int | None) -> None:
        """Called in each process before it gives up its rights; `part_mib` is its part of the job's memory."""
        if self.how == "cgroup":
            with open(f"{self.group}/cgroup.procs", "w", encoding="ascii") as file:
                file.write("0")
        elif self.how == "rlimit" and part_mib is not None:
            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            limit = part_mib * MIB if hard == resource.RLIM_INFINITY else min(part_mib * MIB, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    def describe(self) -> str:
        if self.how == "cgroup":
            return f"memory limited to {self.memory_mib} MiB for the job (cgroup)"
        if self.how == "rlimit":
            return f"memory limited to {self.memory_mib} MiB, divided among its processes (RLIMIT_DATA)"
        return ""

    def leave(self) -> str:
        """When all of it is over: a sentence if the kernel killed for want of memory."""
        if not self.group:
            return ""
        killed = 0
        with contextlib.suppress(OSError), open(f"{self.group}/memory.events", encoding="ascii") as file:
            killed = sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
        with contextlib.suppress(OSError):
            os.rmdir(self.group)
        return f"out of memory: it may use {self.memory_mib} MiB" if killed else ""
