"""Looks after one node's part of a run: `python3 -m fairlead.backends.slurm.agent RUNDIR`, as a Slurm task on that node.

It starts the ranks, passes their output on, ends or suspends them when the scheduler asks for it in the run's `ask` file, and
writes down what became of them, so that a result outlives Slurm's own memory of the job. A copy of it and of the few modules it
needs is put where the nodes can read it: nothing of fairlead has to be installed there but Python 3.8.

Fencing. The ranks may run only as long as the agent could reach the scheduler's files a moment ago, and found no fence there:
it asks again and again, and kills them when it has not succeeded for `lease_s`. So once a fence has been there for that long no
rank runs any more, whether Slurm can reach the node or not, and whether the agent could be told or not. Who kills them then is a
thread that touches no file, since everybody else may be waiting for a filesystem that hangs: the job's log is on it too.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable

from fairlead.backends.local import procs
from fairlead.backends.local.gang import Gang, Rank, StartError
from fairlead.backends.local.limits import MemoryLimit
from fairlead.backends.local.logs import Pump
from fairlead.backends.slurm import runfiles
from fairlead.backends.slurm.runfiles import CONTINUE, ENDED, FAILED, FENCE, RUNNING, STOP, SUSPEND, SUSPENDED, Doc

#: how often the scheduler's word is looked for
LOOK_S = 0.4
#: how often it is seen to that nothing runs without a lease
GUARD_S = 0.2
#: what a job's stray processes get between being asked to end and being killed once the job itself is over
STRAGGLERS_S = 2.0
#: the exit code of an agent that was not to run: this part has been started before
NOT_AGAIN = 75


class Output:
    """Whatever our own standard output is: the job's log, or Slurm's connection to whoever writes it."""

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(1, data) :]


class Files:
    """The run's directory, held open: renaming or closing a directory above it changes nothing for us."""

    def __init__(self, path: str) -> None:
        self.parent = runfiles.open_dir(os.path.dirname(os.path.abspath(path)), only_through=True)
        self.lock = threading.Lock()  #: held while somebody looks: what is looked at must stay open
        self.folder = self.out = -1
        self.enter(os.path.basename(os.path.abspath(path)))

    def enter(self, name: str) -> None:
        """From now on this is the run's directory; the one before is let go."""
        folder = runfiles.open_dir(name, self.parent, only_through=True)
        out = runfiles.open_dir(runfiles.OUT, folder)
        with self.lock:
            before, self.folder, self.out = (self.folder, self.out), folder, out
        for fd in before:
            if fd >= 0:
                os.close(fd)
        self.order = runfiles.get(self.folder, runfiles.ORDER) or {}


class Lease(threading.Thread):
    """Asks in a thread of its own, since a filesystem that hangs must not keep anybody from killing."""

    def __init__(self, files: Files, number: int, lease_s: float, wake: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.files, self.number, self.lease_s, self._wake = files, number, lease_s, wake
        self.ask = ""
        self.others_failed = False
        self.renewed_s = time.monotonic()
        self._beat_s = 0.0

    def look(self) -> None:
        """Raises OSError where the files can't be reached."""
        with self.files.lock:
            self._look()

    def _look(self) -> None:
        began_s = time.monotonic()
        ask = runfiles.get_text(self.files.folder, runfiles.ASK).strip()
        failed = runfiles.is_there(self.files.out, runfiles.FAILED_MARK)
        if began_s - self._beat_s > self.lease_s / 4:
            # written and not only read: what is read might come from a cache
            fd = os.open(
                runfiles.beat(self.number), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=self.files.out
            )
            try:
                os.write(fd, b"%d" % time.time())
            finally:
                os.close(fd)
            self._beat_s = began_s
        self.renewed_s = began_s
        if ask != self.ask or failed != self.others_failed:
            self.ask, self.others_failed = ask, failed
            self._wake()

    def run(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                self.look()
            time.sleep(LOOK_S)

    @property
    def has_expired(self) -> bool:
        return time.monotonic() - self.renewed_s > self.lease_s


class Guard(threading.Thread):
    """Kills once the lease has expired, and looks at nothing but /proc for that."""

    def __init__(self, lease: Lease, gang: Gang) -> None:
        super().__init__(daemon=True)
        self.lease, self.gang = lease, gang
        self.has_killed = False

    def run(self) -> None:
        while True:
            if self.lease.has_expired:
                self._kill()
            time.sleep(GUARD_S)

    def _kill(self) -> None:
        if any((procs.stat(pid) or "Z")[0] not in "ZX" for pid in self.gang.everyone()):
            self.has_killed = True
            self.gang.kill()


class Agent:
    def __init__(self, path: str) -> None:
        self.files = Files(path)
        node = os.environ.get("SLURMD_NODENAME", "")
        self.number = [part["node"] for part in self.files.order["parts"]].index(node)
        self.why = (
            ""  #: why its processes are being ended: stop, suspend, checkpoint, requeue, rank, outside, fence, ...
        )
        self.note = ""
        self.phase = ""
        self.is_over = False
        self.continues: int | None = None
        self.began_s = 0.0
        self._heard = ""
        self._suspend_s = 0.0
        self._deadline: float | None = None
        self._at_deadline: Callable[[], None] = lambda: None
        self._reader, self._writer = os.pipe()
        for fd in (self._reader, self._writer):
            os.set_blocking(fd, False)
        self.poll = select.poll()
        self.poll.register(self._reader, select.POLLIN)
        self.pumps: dict[int, Pump] = {}
        self._take_order()
        self.lease = Lease(self.files, self.number, float(self.files.order["lease_s"]), self._wake)

    def _take_order(self) -> None:
        self.order = self.files.order
        self.grace_s = float(self.order["grace_s"])

    def main(self) -> int:
        job_id = os.environ.get("SLURM_JOB_ID", "")
        if not runfiles.mark(self.files.out, runfiles.claim(self.number), job_id):
            return NOT_AGAIN
        procs.become_subreaper()
        self._catch_signals()
        self.lease.look()
        self.gang = Gang(self._gang_order(), MemoryLimit(self.order.get("memory_mib"), "", "run"))
        if self.lease.ask:  # it was called off before it began
            self._say(FAILED, message="it was stopped before it began", called_off=True)
            return 0
        self.guard = Guard(self.lease, self.gang)
        self.lease.start()  # both before its first process: even starting it may have to wait for a file
        self.guard.start()
        self.began_s = time.time()  # before its first process, or a short job would seem shorter than it was
        try:
            self.gang.start()
        except (StartError, OSError) as error:
            self.note, self.why = str(error), "start"
            self._kill()
            self._reap()
        else:
            several = len(self.order["parts"]) > 1 or len(self.gang.ranks) > 1
            first = self.order["parts"][self.number]["first_rank"]
            for rank in self.gang.ranks:
                prefix = f"[{first + rank.number}] " if several else ""
                self.pumps[rank.out] = Pump(rank.out, Output(), prefix)  # type: ignore[arg-type]
                self.poll.register(rank.out, select.POLLIN)
            self._say(RUNNING, time_s=self.began_s)
            self._reap()
        while not self.is_over:
            self._turn()
        return self.exit_code

    def _gang_order(self) -> Doc:
        """What a gang on one machine goes by. Slurm's own variables are the job's too; which GPUs it has Slurm says, unless
        they were chosen for it."""
        part = self.order["parts"][self.number]
        base = {key: value for key, value in os.environ.items() if key.startswith(("SLURM", "CUDA_", "GPU_DEVICE"))}
        base.update(self.order["env"])
        ranks = []
        for rank in part["ranks"]:
            env = dict(rank)
            if "CUDA_VISIBLE_DEVICES" not in env:
                env["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "")
            if len(self.order["parts"]) > 1 and "FAIRLEAD_MASTER_PORT" in os.environ:
                env["MASTER_PORT"] = os.environ["FAIRLEAD_MASTER_PORT"]
            ranks.append({"env": env, "memory_mib": part.get("memory_mib")})
        home = base.get("HOME", "/")
        return {
            "command": self.order["command"],
            "env": base,
            "ranks": ranks,
            "user": self.order["user"],
            "umask": self.order["umask"],
            "workdir": self.order["workdir"] or (home if os.path.isdir(home) else "/"),
        }

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._writer, b"\0")

    def _catch_signals(self) -> None:
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for signum in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(signum, lambda *_: None)
        for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(signum, signal.SIG_IGN)

    def _turn(self) -> None:
        wait_s = 1.0 if self._deadline is None else max(0.0, min(1.0, self._deadline - time.monotonic()))
        for fd, _ in self.poll.poll(wait_s * 1000 + 1):
            pump = self.pumps.get(fd)
            if self.is_over:
                return
            if pump is None:
                self._heard_something()
            elif not pump.turn():
                self.poll.unregister(fd)
        if self.is_over:
            return
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._deadline = None
            self._at_deadline()
        if self._heard == SUSPEND and time.monotonic() - self._suspend_s > LOOK_S:
            self._suspend()  # again, where nobody was ready for it
        if self.lease.has_expired:
            self._lost_touch()

    def _lost_touch(self) -> None:
        if self.why != FENCE:
            self.note = f"its node could not reach the scheduler's files for {self.lease.lease_s:g} s"
            self._fence()

    def _heard_something(self) -> None:
        numbers = b""
        with contextlib.suppress(BlockingIOError):
            numbers = os.read(self._reader, 4096)
        if signal.SIGTERM in numbers:
            self._end("outside")
        self._obey()
        self._reap()

    def _obey(self) -> None:
        ask = self.lease.ask
        if ask != self._heard:
            self._heard = ask
            if ask == FENCE:
                self.note = "it was fenced off: Slurm had lost it"
                self._fence()
            elif ask == STOP:
                self._end("stop")
            elif ask == SUSPEND:
                self._suspend()
            elif ask.startswith(CONTINUE):
                self._go_on(ask.partition(" ")[2])
        if self.lease.others_failed and not self.why:
            self.note = "another node's part failed, so this one was stopped"
            self._end("rank")

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._deadline = time.monotonic() + seconds
        self._at_deadline = act

    def _say(self, phase: str, **more: object) -> None:
        """A full disk or a server that is away: said again until it can be written, once nothing is left to look after."""
        self.phase = phase
        doc = {"phase": phase, "time_s": time.time(), "continues": self.continues, "began_s": self.began_s, **more}
        while True:
            try:
                runfiles.put(self.files.out, runfiles.part(self.number), doc)
                return
            except FileNotFoundError:
                return  # told, and forgotten already
            except OSError:
                if phase == RUNNING:
                    return
                time.sleep(1.0)

    # -- ending --------------------------------------------------------------------------------------------------------

    def _end(self, why: str, grace_s: float | None = None) -> None:
        if self.why:
            if why in ("stop", "outside") and self.why in ("checkpoint", "requeue"):
                self.why = why
            return
        self.why = why
        self.gang.signal(signal.SIGTERM)
        self.gang.thaw()
        self._after(self.grace_s if grace_s is None else grace_s, self._kill)

    def _fence(self) -> None:
        self.why = FENCE
        self._kill()

    def _kill(self, again_s: float = 0.02) -> None:
        self.gang.kill()
        self._after(again_s, lambda: self._kill(min(again_s * 2, 1.0)))

    def _reap(self) -> None:
        if self.guard.has_killed:  # while we could not look
            self._lost_touch()
        if not self.gang.reap():
            self._over()
        elif self.gang.ranks_gone:
            if self.why in ("", "rank"):
                self.why = ""
                self._end("stragglers", min(self.grace_s, STRAGGLERS_S))
            elif self.why != "stragglers" and (self._deadline or 0) > time.monotonic() + STRAGGLERS_S:
                self._after(STRAGGLERS_S, self._kill)
        elif self.gang.first_failed and not self.why:
            self._others_are_to_end()
            self._end("rank")

    def _others_are_to_end(self) -> None:
        failed = self.gang.first_failed
        if failed and (len(self.order["parts"]) > 1 or len(self.gang.ranks) > 1):
            first = self.order["parts"][self.number]["first_rank"]
            self.note = f"rank {first + failed.number} failed, so the others were stopped"
        if len(self.order["parts"]) > 1:
            with contextlib.suppress(OSError):
                runfiles.mark(self.files.out, runfiles.FAILED_MARK, str(_shell_code(failed)))

    def _over(self) -> None:
        if self.gang.first_failed and self.why in ("", "stragglers"):
            self._others_are_to_end()
        for pump in self.pumps.values():
            pump.drain()
        worst = self.gang.worst() if self.gang.ranks else None
        end: Doc = {"message": self.note, "why": self.why}
        if worst:
            end.update(exit_code=worst.exit_code, signal=worst.signal, failed=worst.failed)
        self.exit_code = 0
        if self.why == "start":
            phase, self.exit_code = FAILED, 127
        elif self.why in ("checkpoint", "requeue"):
            phase, end["method"] = SUSPENDED, self.why
        else:
            phase = ENDED
            # of several parts none fails in Slurm's eyes: it would kill the others, who are to have their grace period
            self.exit_code = _shell_code(worst) if len(self.order["parts"]) == 1 else 0
        self._say(phase, **end)
        self.is_over = True

    # -- suspending and going on -----------------------------------------------------------------------------------------

    def _suspend(self) -> None:
        if self.why or self.phase != RUNNING:
            return
        self._suspend_s = time.monotonic()
        methods = self.order["methods"]
        for method in methods:
            if method == "checkpoint" and self.gang.ask(int(self.order["checkpoint_signal"])):
                self.why = "checkpoint"
                self._after(self.grace_s, self._no_checkpoint)
                return
            if method == "stop":
                self.gang.freeze()
                self._say(SUSPENDED, method="stop", message=self.note)
                return
            if method == "requeue":
                self._end("requeue")
                return

    def _no_checkpoint(self) -> None:
        if self.why == "checkpoint":
            self.note = f"it was asked for a checkpoint and had not left after {self.grace_s:g} s"
            if "requeue" not in self.order["methods"]:  # it takes the time it takes
                self._after(self.grace_s, self._no_checkpoint)
                return
            self.why = "requeue"
        self._kill()

    def _go_on(self, name: str) -> None:
        """As the next run, in whose directory its order is."""
        if self.why or self.phase != SUSPENDED:
            return
        before = int(self.order["run"])
        self.files.enter(name)
        if not runfiles.mark(self.files.out, runfiles.claim(self.number), os.environ.get("SLURM_JOB_ID", "")):
            return
        self._take_order()
        self.continues, self._heard, self.lease.ask = before, "", ""
        self.gang.thaw()
        self.began_s = time.time()
        self._say(RUNNING, resumed_by="stop")


def _shell_code(rank: Rank | None) -> int:
    if rank is None:
        return 0
    return 128 + rank.signal if rank.signal else rank.exit_code or 0


def main() -> None:
    procs.set_name(b"fairlead-run")
    agent = Agent(sys.argv[1])
    try:
        code = agent.main()
    except BaseException:
        gang = getattr(agent, "gang", None)
        while gang and gang.reap():
            gang.kill()
            time.sleep(0.02)
        raise
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
