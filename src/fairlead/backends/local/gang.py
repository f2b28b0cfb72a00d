"""The processes of one run: started together, signalled together, and none left when it is over.

All of them are descendants of the supervisor, which is their subreaper: a process that forks twice and leaves its session
becomes the supervisor's own child. So there is nothing left exactly when the supervisor has no child any more.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import sys
import time

from fairlead.backends.local import procs
from fairlead.backends.local.limits import MemoryLimit
from fairlead.backends.local.rundir import Doc

#: signals that Python, this program or whoever started it ignores, which a program would inherit; handlers it does not
MAYBE_IGNORED = (
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCHLD,
)


class StartError(Exception):
    """The run can't begin: a sentence for the person who submitted it."""


class Rank:
    def __init__(self, number: int, pid: int, out: int, errors: int) -> None:
        self.number = number
        self.pid = pid
        self.out = out  #: the pipe with its output
        self.errors = errors  #: closes when the program runs; says why where it doesn't
        self.ticks = 0
        self.exit_code: int | None = None
        self.signal: int | None = None

    @property
    def gone(self) -> bool:
        return self.exit_code is not None or self.signal is not None

    @property
    def failed(self) -> bool:
        return bool(self.exit_code or self.signal)


class Gang:
    def __init__(self, order: Doc, memory: MemoryLimit) -> None:
        self.order = order
        self.memory = memory
        self.ranks: list[Rank] = []
        self.first_failed: Rank | None = None
        self.others: dict[int, int] = {}  #: children that are no ranks and have ended: their wait status
        self._by_pid: dict[int, Rank] = {}

    # -- beginning ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start every rank; StartError where one of them can't run its program. The caller then kills the rest."""
        port = str(self.order.get("master_port") or free_port())
        me = os.getpid()
        for number, rank in enumerate(self.order["ranks"]):
            env = {**self.order["env"], **rank["env"], "MASTER_PORT": port}
            out, out_end = os.pipe()
            errors, errors_end = os.pipe()
            pid = os.fork()
            if pid == 0:
                self._become(me, out_end, errors_end, env, rank.get("memory_mib"))
            os.close(out_end)
            os.close(errors_end)
            started = Rank(number, pid, out, errors)
            self.ranks.append(started)
            self._by_pid[pid] = started
        for started in self.ranks:
            message = _read_all(started.errors)
            started.ticks = procs.start_ticks(started.pid)
            if message:
                raise StartError(json.loads(message))

    def _become(self, parent: int, out: int, errors: int, env: dict[str, str], memory_mib: int | None) -> None:
        """In the child: become the job's program, or say why not. Never returns."""
        try:
            doing = "the process could not be set up"
            command = self.order["command"]
            os.setsid()
            null = os.open("/dev/null", os.O_RDONLY)
            for fd, target in ((null, 0), (out, 1), (out, 2)):
                os.dup2(fd, target)
            for signum in MAYBE_IGNORED:
                signal.signal(signum, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            doing = "its memory could not be limited"
            self.memory.enter(memory_mib)
            user = self.order["user"]
            if user:
                doing = f"it could not become user {user['name']!r}"
                os.initgroups(user["name"], user["gid"])
                os.setgid(user["gid"])
                os.setuid(user["uid"])
            os.umask(self.order["umask"])
            workdir = self.order["workdir"]
            doing = f"the working directory {workdir!r} can't be used"
            os.chdir(workdir)
            doing = f"the command {command[0]!r} can't be run"
            procs.die_with_parent(parent)
            os.execvpe(command[0], command, env)
        except BaseException as error:
            with contextlib.suppress(BaseException):
                program = command[0] if doing.startswith("the command") else ""
                os.write(errors, json.dumps(f"{doing}: {_reason(error, program, env)}").encode())
        finally:
            os._exit(127)

    # -- signals -------------------------------------------------------------------------------------------------------

    def everyone(self) -> list[int]:
        return procs.descendants(os.getpid())

    def signal(self, signum: int) -> None:
        for pid in self.everyone():
            procs.send(pid, signum)

    def ask(self, signum: int) -> int:
        """Send a signal to the programs that have a handler for it; how many did."""
        asked = [pid for rank in self.ranks if not rank.gone for pid in procs.catchers(rank.pid, signum)]
        for pid in asked:
            procs.send(pid, signum)
        return len(asked)

    def freeze(self) -> None:
        """Stop everyone. A fork may slip through, so look again until all are seen stopped (or wait in the kernel for
        something, when the signal takes effect as soon as they come back)."""
        for _ in range(100):
            awake = [pid for pid in self.everyone() if (procs.stat(pid) or "Z")[0] not in "TtZXD"]
            if not awake:
                return
            for pid in awake:
                procs.send(pid, signal.SIGSTOP)
            time.sleep(0.001)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Stopped first, so that nobody forks while the others are being killed."""
        everyone = self.everyone()
        for pid in everyone:
            procs.send(pid, signal.SIGSTOP)
        for pid in everyone:
            procs.send(pid, signal.SIGKILL)

    # -- the end -------------------------------------------------------------------------------------------------------

    def reap(self) -> bool:
        """Take note of who has ended. False when nobody is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            rank = self._by_pid.get(pid)
            if rank is None:
                self.others[pid] = status
                continue
            if os.WIFSIGNALED(status):
                rank.signal = os.WTERMSIG(status)
            else:
                rank.exit_code = os.WEXITSTATUS(status)
            if rank.failed and self.first_failed is None:
                self.first_failed = rank

    @property
    def ranks_gone(self) -> bool:
        return all(rank.gone for rank in self.ranks)

    def worst(self) -> Rank:
        """Whose end is the run's: the first that failed, since the others were stopped because of it."""
        return self.first_failed or self.ranks[0]


def free_port() -> int:
    """A port that is free now. Someone may take it before the program does; the kernel hands them out widely spread."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _read_all(fd: int) -> bytes:
    data = b""
    while part := os.read(fd, 4096):
        data += part
    os.close(fd)
    return data


def _reason(error: BaseException, program: str, env: dict[str, str]) -> str:
    """Why, in words; `program` where it was to be run."""
    if not isinstance(error, OSError):
        return f"{type(error).__name__}: {error}"
    said = error.strerror or str(error)
    if program and error.errno == errno.ENOENT:
        path = env.get("PATH", os.defpath)
        if shutil.which(program, os.F_OK, path):
            return "its first line (#!) names an interpreter that does not exist"
        return said if "/" in program else f"there is no such program in {path}"
    return said


if sys.platform != "linux":  # pragma: no cover
    raise ImportError("the local executor needs Linux: it relies on /proc, subreapers and process death signals")
