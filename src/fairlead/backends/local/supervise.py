"""Looks after one run: `python -m fairlead.backends.local.supervise RUNDIR`.

It starts the run's processes, passes their output to the log, stops, suspends and continues them when it is told to, and
writes down what became of them. It belongs to nobody: the scheduler may die and come back, and finds everything in the
run's directory and the supervisor at its socket. It imports little, so that it starts in a moment and stays small.

A suspended run whose processes are still there goes on under the number of the next run, in that run's directory and
with the same supervisor.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial

from fairlead.backends.local import driver, procs, wire
from fairlead.backends.local.gang import Gang, StartError
from fairlead.backends.local.limits import MemoryLimit
from fairlead.backends.local.logs import Log, Pump
from fairlead.backends.local.rundir import (
    ENDED,
    FAILED,
    LOST,
    RUNNING,
    STARTING,
    SUSPENDED,
    Doc,
    RunDir,
    boot_id,
)

#: what a job's stray processes get between being asked to end and being killed once the job itself is over
STRAGGLERS_S = 2.0
#: host memory that moving a program's GPU memory must leave free
HOST_MARGIN_MIB = 2048
#: how long a program may take to end once it gives its GPU memory back, and how often one looks
LEAVING_S, LEAVING_POLL_S = 30.0, 0.5
#: how long the driver may take to move a process's memory
DRIVER_S = 900.0


class Supervisor:
    def __init__(self, rundir: RunDir, controller: socket.socket | None = None) -> None:
        self.rundir = rundir
        self.controllers: dict[int, socket.socket] = {}
        self.handlers: dict[int, Callable[[], object]] = {}
        self.poll = select.poll()
        self.state: Doc = {}
        #: why its processes are being ended: stop, rank, stragglers, checkpoint, requeue, shutdown, start
        self.why = ""
        self.note = ""
        self.is_over = False
        self.job: tuple[int, Callable[[object, str], None]] | None = None  #: the driver's work in progress
        self.following: tuple[RunDir, Doc] | None = None  #: the run as which it is about to go on
        self.unsaved = False
        self.cuda: list[int] = []  #: processes whose GPU memory is with the driver
        self._deadline: float | None = None
        self._at_deadline: Callable[[], None] = lambda: None
        if controller is not None:
            self._add_controller(controller)

    # -- life --------------------------------------------------------------------------------------------------------

    def main(self) -> None:
        if not self.rundir.claim() or self.rundir.state() is not None:
            return  # this order is or was carried out already
        self._take_order()
        procs.become_subreaper()
        self._catch_signals()
        self._listen()
        self.memory = MemoryLimit(self.order["memory_mib"], self.order["cgroup"], self.rundir.name)
        self.gang = Gang(self.order, self.memory)
        self._say(STARTING)
        try:
            if self.unsaved:
                raise StartError("its state can't be written down")
            self._open_log()
            began_s = time.time()  # before its first process, or a short job would seem shorter than it was
            self.gang.start()
        except (StartError, OSError) as error:
            self.note = str(error)
            self.why = "start"
            self._kill()
            self._reap()
        else:
            self._pump_output()
            ranks = [[rank.pid, rank.ticks] for rank in self.gang.ranks]
            self._say(RUNNING, time_s=began_s, ranks=ranks, note=self.memory.describe())
            self._reap()
        while not self.is_over:
            self._turn()

    def _take_order(self) -> None:
        order = self.rundir.order()
        self.order = order
        self.grace_s = float(order["grace_s"])
        self.state = {"job": order["job"], "run": order["run"], "boot_id": boot_id(), "token": order["token"]}
        self.state |= {"supervisor": [os.getpid(), procs.start_ticks(os.getpid())]}

    def _open_log(self) -> None:
        log, user = self.order["log"], self.order["user"]
        self.log = Log(log["path"], log["limit_bytes"], log["keep"], (user["uid"], user["gid"]) if user else None)
        try:
            self.log.open()
        except OSError as error:
            raise StartError(f"the log {log['path']!r} can't be written: {error.strerror}") from None

    def _pump_output(self) -> None:
        several = len(self.gang.ranks) > 1
        self.pumps = [Pump(rank.out, self.log, f"[{rank.number}] " if several else "") for rank in self.gang.ranks]
        for pump in self.pumps:
            self._watch(pump.fd, partial(self._pump, pump))

    def _pump(self, pump: Pump) -> None:
        if not pump.turn():
            self._unwatch(pump.fd)

    def _turn(self) -> None:
        wait = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        for fd, _ in self.poll.poll(None if wait is None else wait * 1000 + 1):
            handler = self.handlers.get(fd)
            if handler:
                handler()
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._deadline = None
            self._at_deadline()

    def _watch(self, fd: int, handler: Callable[[], object]) -> None:
        self.handlers[fd] = handler
        self.poll.register(fd, select.POLLIN)

    def _unwatch(self, fd: int) -> None:
        self.handlers.pop(fd, None)
        with contextlib.suppress(KeyError):
            self.poll.unregister(fd)

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._deadline = time.monotonic() + seconds
        self._at_deadline = act

    def _catch_signals(self) -> None:
        """Children end; the machine shuts down. Both are noticed in the loop."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for signum in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(signum, lambda *_: None)
        for signum in (signal.SIGHUP, signal.SIGINT):
            signal.signal(signum, signal.SIG_IGN)

        def arrived() -> None:
            numbers = os.read(reader, 4096)
            if signal.SIGTERM in numbers:
                self.note = "the machine is shutting down, or someone ended its supervisor"
                self._end("shutdown")
            self._reap()

        self._watch(reader, arrived)

    # -- whoever tells it what to do -----------------------------------------------------------------------------------

    def _listen(self) -> None:
        self.listener = wire.listen(self.rundir.path)
        self._watch(self.listener.fileno(), self._accept)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            sock, _ = self.listener.accept()
            if wire.is_trusted(sock):
                self._add_controller(sock)
                self._tell(sock)
            else:
                sock.close()

    def _add_controller(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.set_inheritable(False)  # one that was handed to us is; the job must not keep the connection open
        self.controllers[sock.fileno()] = sock
        self._watch(sock.fileno(), lambda: self._hear(sock))

    def _drop(self, sock: socket.socket) -> None:
        self._unwatch(sock.fileno())
        self.controllers.pop(sock.fileno(), None)
        sock.close()

    def _hear(self, sock: socket.socket) -> None:
        message = wire.receive(sock)
        if message is None:
            self._drop(sock)
        elif not self.is_over:
            operation = message.get("op")
            if operation == "stop":
                self._end("stop")
            elif operation == "suspend" and message.get("run", self.state["run"]) == self.state["run"]:
                self.suspend(int(message.get("gpu_memory_mib", 0)))
            elif operation == "continue":
                self.go_on(RunDir(message["rundir"]))

    def _tell(self, sock: socket.socket, doc: Doc | None = None) -> None:
        if not wire.send(sock, {"serves": self.state["run"], "state": doc or self.state}):
            self._drop(sock)

    def _tell_all(self, doc: Doc | None = None) -> None:
        for sock in list(self.controllers.values()):
            self._tell(sock, doc)

    def _say(self, phase: str, **more: object) -> None:
        """Write down what it is now, then tell whoever listens."""
        self.state |= {"phase": phase, "time_s": time.time(), **more}
        self.unsaved = True
        with contextlib.suppress(OSError):  # a full disk: the final state is tried again until it can be written
            self.rundir.write_state(self.state)
            self.unsaved = False
        self._tell_all()

    # -- ending --------------------------------------------------------------------------------------------------------

    def _end(self, why: str, grace_s: float | None = None) -> None:
        """Ask everyone to end, kill them after the grace period. Whoever asks first sets the clock; a stop or a shutdown
        also changes what the end will be called."""
        if self.why:
            if why in ("stop", "shutdown") and self.why in ("checkpoint", "requeue"):
                self.why = why
            return
        self.why = why
        self.gang.signal(signal.SIGTERM)
        self.gang.thaw()
        self._after(self.grace_s if grace_s is None else grace_s, self._kill)

    def _kill(self, again_s: float = 0.02) -> None:
        """Again and again: a process may wait in the kernel, and what we have not seen may have forked."""
        self.gang.kill()
        self._after(again_s, lambda: self._kill(min(again_s * 2, 1.0)))

    def _reap(self) -> None:
        anyone = self.gang.reap()
        if self.job and self.job[0] in self.gang.others:
            self._driver_done()
            anyone = self.gang.reap()
        if not anyone:
            self._over()
        elif self.gang.ranks_gone:
            if self.why in ("", "rank"):
                self.why = ""
                self._end("stragglers", min(self.grace_s, STRAGGLERS_S))
            elif self.why != "stragglers" and (self._deadline or 0) > time.monotonic() + STRAGGLERS_S:
                self._after(STRAGGLERS_S, self._kill)
        elif self.gang.first_failed and not self.why:
            failed = self.gang.first_failed
            if len(self.gang.ranks) > 1:
                self.note = f"rank {failed.number} failed, so the others were stopped"
            self._end("rank")

    def _over(self) -> None:
        """Nobody is left: what is it to be called?"""
        for pump in getattr(self, "pumps", ()):
            self._unwatch(pump.fd)
            pump.drain()
        if hasattr(self, "log"):
            self.log.close()
        self.note = self.memory.leave() or self.note
        worst = self.gang.worst() if self.gang.ranks else None
        end: Doc = {"message": self.note}
        if worst:
            end |= {"exit_code": worst.exit_code, "signal": worst.signal, "rank": worst.number}
        if self.why == "start":
            phase = FAILED
        elif self.why in ("checkpoint", "requeue"):
            phase, end["method"] = SUSPENDED, self.why
        else:
            phase = LOST if self.why == "shutdown" else ENDED
        self._say(phase, **end)
        if self.following:
            self._refuse(*self.following, f"run {self.state['run']} ended before it could go on")
        while True:  # whatever happens to the disk, the result waits here, and whoever asks is told
            try:
                if self.unsaved:
                    self.rundir.write_state(self.state)
                self.rundir.sync_state()
                break
            except FileNotFoundError:
                break  # told, and forgotten already
            except OSError:
                self._after(1.0, lambda: None)
                self._turn()
        self.is_over = True

    # -- suspending ------------------------------------------------------------------------------------------------------

    def suspend(self, gpu_memory_mib: int = 0) -> None:
        """`gpu_memory_mib`: what the driver would have to find room for."""
        if self.why or self.job or self.state["phase"] != RUNNING:
            return
        methods = list(self.order["methods"])
        if "checkpoint" in methods and self.gang.ask(self.order["checkpoint_signal"]):
            self.why = "checkpoint"
            self._after(self.grace_s, self._no_checkpoint)
        elif "driver" in methods and self._has_room(gpu_memory_mib):
            self._freeze_by_driver(time.monotonic() + LEAVING_S)
        else:
            self._suspend_without_driver()

    def _freeze_by_driver(self, leaves_until: float) -> None:
        """One that is about to end is left to do so; where it does not, it is taken for one that the driver can't move."""
        pids = self.gang.everyone()
        users = [pid for pid in pids if procs.uses_cuda(pid)]
        waits = time.monotonic() < leaves_until
        if waits and any(procs.is_exiting(pid) for pid in pids):
            self._after(LEAVING_POLL_S, lambda: self._freeze_by_driver(leaves_until))
            return

        def work() -> list[int]:
            return driver.freeze(driver.CudaDriver(), users, procs.holds_gpu if waits else lambda _: False)

        def done(result: object, error: str) -> None:
            if result == driver.LEAVING and waits:
                self._after(LEAVING_POLL_S, lambda: self._freeze_by_driver(leaves_until))
            else:
                self._frozen_by_driver(result, error)

        self._drive(work if users else list, done)

    def _has_room(self, gpu_memory_mib: int) -> bool:
        """Two programs of 84 GiB suspended one after the other on a host of 125 GiB left 86 GiB in use: one was gone."""
        free_mib = procs.available_mib()
        if gpu_memory_mib + HOST_MARGIN_MIB <= free_mib:
            return True
        self.note = (
            f"its {gpu_memory_mib} MiB of GPU memory don't fit into the {free_mib} MiB that this machine has free"
        )
        return False

    def _no_checkpoint(self) -> None:
        if self.why == "checkpoint":
            self.why = "requeue"
            self.note = f"it was asked for a checkpoint and had not left after {self.grace_s:g} s"
        self._kill()

    def _suspend_without_driver(self) -> None:
        if "stop" in self.order["methods"]:
            self.gang.freeze()
            self._say(SUSPENDED, method="stop", message=self.note)
        else:
            self._end("requeue")

    def _frozen_by_driver(self, users: object, error: str) -> None:
        if error:
            self.note = error
            self._suspend_without_driver()
            return
        self.cuda = list(users) if isinstance(users, list) else []
        self.gang.freeze()
        self._say(SUSPENDED, method="driver", message="" if self.cuda else "none of its processes used a GPU")

    # -- going on ----------------------------------------------------------------------------------------------------------

    def go_on(self, new: RunDir) -> None:
        """As the next run, in whose directory the order for it is."""
        try:
            if new.path == self.rundir.path or self.job or not new.claim():
                return
        except FileNotFoundError:
            return  # it was given up and forgotten
        if new.state() is not None:  # it was told before, and answered; or given up
            new.release()
            return
        order = new.order()
        if self.why or self.state["phase"] != SUSPENDED:
            self._refuse(new, order, f"run {self.state['run']} is not suspended any more, it can't go on")
            return
        self.gang.thaw()
        if not self.cuda:
            self._gone_on(new, order)
            return
        moves = order["moves"]
        pids = [pid for pid in self.cuda if procs.stat(pid)]

        def done(_: object, error: str) -> None:
            self.following = None
            if error:
                self.gang.freeze()
                self._refuse(new, order, error)
            else:
                self.cuda = []
                self._gone_on(new, order)

        self.following = (new, order)
        self._drive(lambda: driver.thaw(driver.CudaDriver(), pids, moves), done)

    def _refuse(self, new: RunDir, order: Doc, why: str) -> None:
        """The run stays suspended as it is; the one that was to follow it never begins."""
        doc = {"job": order["job"], "run": order["run"], "boot_id": self.state["boot_id"]}
        doc |= {"phase": FAILED, "time_s": time.time(), "message": why}
        with contextlib.suppress(OSError):
            new.write_state(doc, durable=True)
        new.release()
        self._tell_all(doc)

    def _gone_on(self, new: RunDir, order: Doc) -> None:
        old, old_state = self.rundir, self.state
        method = old_state["method"]
        self.rundir, self.order, self.grace_s, self.note = new, order, float(order["grace_s"]), ""
        self.state = {**old_state, "run": order["run"], "continues": old_state["run"], "message": ""}
        del self.state["method"]
        self._unwatch(self.listener.fileno())
        self.listener.close()
        self._listen()
        self._say(RUNNING, resumed_by=method)
        with contextlib.suppress(OSError):
            old.write_state({**old_state, "continued_as": order["run"]})
            os.unlink(old.file("control.sock"))
        old.release()
        if order["log"]["path"] != self.log.path:
            before = self.log
            with contextlib.suppress(StartError):
                self._open_log()
                for pump in self.pumps:
                    pump.log = self.log
                before.close()

    # -- the driver's work, in a process of its own ------------------------------------------------------------------------

    def _drive(self, work: Callable[[], object], done: Callable[[object, str], None]) -> None:
        pid, answer = driver.in_child(work)
        self._answer = answer
        self.job = (pid, done)
        self._after(DRIVER_S, lambda: procs.send(pid, signal.SIGKILL))

    def _driver_done(self) -> None:
        assert self.job
        done = self.job[1]
        self.job = None
        if not self.why:
            self._deadline = None
        result, error = driver.read_answer(self._answer)
        if not self.why:
            done(result, error)


def supervise(path: str, controller: socket.socket | None = None, kind: type[Supervisor] = Supervisor) -> None:
    """Until the run is over. Whatever goes wrong here, no process of the run is left alone and it is not forgotten."""
    supervisor = kind(RunDir(path), controller)
    try:
        supervisor.main()
    except BaseException:
        text = traceback.format_exc()
        with contextlib.suppress(OSError):
            sys.stderr.write(text)
        gang = getattr(supervisor, "gang", None)
        while gang and gang.reap():
            gang.kill()
            time.sleep(0.02)
        if supervisor.state:
            supervisor._say(LOST, message=f"its supervisor failed: {text.splitlines()[-1]}")


def main() -> None:
    """With a second argument: the number of an open socket to whoever started it."""
    controller = socket.socket(fileno=int(sys.argv[2])) if len(sys.argv) > 2 else None
    with contextlib.suppress(PermissionError):
        os.setsid()
    procs.set_name(b"fairlead-run")
    supervise(os.path.abspath(sys.argv[1]), controller)


if __name__ == "__main__":
    main()
