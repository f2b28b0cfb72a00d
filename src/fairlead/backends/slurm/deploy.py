"""Puts what the agents need where the nodes can read it: a copy of a few of our own modules, named by its content."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from pathlib import Path

import fairlead

_SOURCE = Path(fairlead.__file__).resolve().parent
_PACKAGES = ("", "backends", "backends/local", "backends/slurm")
_MODULES = (
    "backends/local/gang.py",
    "backends/local/limits.py",
    "backends/local/logs.py",
    "backends/local/procs.py",
    "backends/local/rundir.py",
    "backends/slurm/agent.py",
    "backends/slurm/pilot.py",
    "backends/slurm/runfiles.py",
)


def deploy(folder: str) -> str:
    """The directory for PYTHONPATH. Others that run already keep the copy that they were started with."""
    texts = {name: (_SOURCE / name).read_bytes() for name in _MODULES}
    digest = hashlib.sha256(b"".join(texts[name] for name in _MODULES)).hexdigest()[:12]
    final = os.path.join(folder, f"lib-{digest}")
    if os.path.isdir(final):
        return final
    temporary = f"{final}.{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    for package in _PACKAGES:
        path = Path(temporary, "fairlead", package)
        path.mkdir(parents=True)
        (path / "__init__.py").write_bytes(b"")
    for name, text in texts.items():
        Path(temporary, "fairlead", name).write_bytes(text)
    for path in (Path(temporary), *Path(temporary).rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with contextlib.suppress(OSError):
        os.rename(temporary, final)
    shutil.rmtree(temporary, ignore_errors=True)
    return final


def open_up(path: str) -> None:
    """Let other users' jobs go through a directory of ours, where they run as somebody else. What is in it they can't list, and
    its files are our own."""
    if os.geteuid() == 0:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if mode & 0o011 != 0o011:
            os.chmod(path, mode | 0o011)


def make_log(path: str, owner: tuple[int, int] | None) -> None:
    """The file that Slurm opens as the job's user, in a directory where that user can't put anything else. Raises OSError."""
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        os.makedirs(parent, 0o700)
    if owner and os.stat(parent).st_uid == os.geteuid():
        open_up(parent)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        if owner and os.geteuid() == 0 and stat.S_ISREG(os.fstat(fd).st_mode) and os.fstat(fd).st_nlink == 1:
            os.fchown(fd, *owner)
    finally:
        os.close(fd)


def instance_name(path: str) -> str:
    """What tells this scheduler's jobs from another's in the same Slurm."""
    file = os.path.join(path, "instance")
    with contextlib.suppress(FileNotFoundError), open(file, encoding="ascii") as found:
        return found.read().strip()
    name = os.urandom(4).hex()
    with open(f"{file}.new", "w", encoding="ascii") as new:
        new.write(name)
        new.flush()
        os.fsync(new.fileno())
    os.rename(f"{file}.new", file)
    return name
