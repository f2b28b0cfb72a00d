"""The actor that has a run's GPUs on one node, and through which the run's supervisor there is told what to do.

Its class travels to the node by value, and the supervisor's few modules lie in the state directory: a node needs Ray and that
directory, and no fairlead of its own. Nothing here is imported from fairlead before an actor has begun.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

Doc = dict[str, Any]
#: how long one question for news is left unanswered
_NEWS_S = 60.0


class Keeper:
    def __init__(self, code: str) -> None:
        """`code`: the directory with the modules that a supervisor needs."""
        if code not in sys.path:
            sys.path.insert(0, code)
        self._code = code
        self._port = 0
        self._path = ""
        self._next: tuple[int, str] | None = None  #: the run as which a stopped one is to go on, and its path
        self._link: socket.socket | None = None
        self._state: Doc = {}
        self._count = 0
        self._news = asyncio.Event()

    async def hello(self) -> Doc:
        """What Ray has given it. The port stays the same however often it is asked."""
        import ray

        ip = ray.util.get_node_ip_address()
        if not self._port:
            with socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET) as sock:
                sock.bind((ip, 0))
                self._port = sock.getsockname()[1]
        ids = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
        return {
            "ip": ip,
            "port": self._port,
            "gpus": [str(one) for one in ids],
            "node_id": ray.get_runtime_context().get_node_id(),
        }

    async def begin(self, path: str, order: Doc, pass_env: list[str], master: Doc) -> None:
        """Start it, unless that was done already, by whoever."""
        from fairlead.backends.local.rundir import RunDir

        if self._path:
            return
        self._path = path
        order = await self._completed(order, pass_env, master)
        with contextlib.suppress(FileExistsError):
            RunDir.create(os.path.dirname(path), os.path.basename(path), order)
        state = RunDir(path).state()
        if state is not None:  # it was given up before we came to it
            self._learn(state)
            return
        self._launch()

    async def _completed(self, order: Doc, pass_env: list[str], master: Doc) -> Doc:
        """What only the node knows: its GPUs, its own environment, where rank 0 is."""
        got = await self.hello()
        env = {name: os.environ[name] for name in pass_env if name in os.environ}
        env.setdefault("PATH", os.defpath)
        home = env.get("HOME", "/")
        if order["user"]:  # whose own are in the order's env
            env.pop("LD_LIBRARY_PATH", None)
            home = order["user"]["home"]
        gpus = ",".join(got["gpus"]) if order["gpus"] else ""
        own = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", gpus) if gpus else ""}
        own |= {"FAIRLEAD_GPUS": gpus, "MASTER_ADDR": str(master["ip"]), "FAIRLEAD_RAY_NODE_ID": got["node_id"]}
        ranks = [{**rank, "env": {**rank["env"], **own}} for rank in order["ranks"]]
        workdir = order["workdir"] or (home if os.path.isdir(home) else "/")
        return {
            **order,
            "env": {**env, **order["env"]},
            "ranks": ranks,
            "workdir": workdir,
            "master_port": master["port"],
        }

    def _launch(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._link = ours
        asyncio.get_running_loop().add_reader(ours.fileno(), self._hear)
        words = [sys.executable, "-P", "-s", "-m", "fairlead.backends.ray.supervise", self._path, str(theirs.fileno())]
        try:
            subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath, "PYTHONPATH": self._code},
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            self._give_up("failed", f"its supervisor could not be started: {error}")
        finally:
            theirs.close()

    def _hear(self) -> None:
        from fairlead.backends.local import wire

        assert self._link
        message = wire.receive(self._link)
        if message:
            if self._next and message["serves"] == self._next[0]:
                self._path, self._next = self._next[1], None
            self._learn(message["state"])
        elif message is None:
            asyncio.get_running_loop().remove_reader(self._link.fileno())
            self._link.close()
            self._link = None
            self._left_alone()

    def _left_alone(self) -> None:
        """The supervisor has left. Where it has not said how the run ended, it was killed, and what is left of the run is
        killed too."""
        from fairlead.backends.local.rundir import FINAL, SUSPENDED, RunDir

        state = RunDir(self._path).state() or {}
        if state.get("phase") in FINAL or (state.get("phase") == SUSPENDED and state.get("method") != "stop"):
            self._learn(state)
            return
        killed = sweep(RunDir(self._path).order().get("token", ""))
        rest = f"; {killed} processes of it were killed" if killed else ""
        self._give_up("lost", f"its supervisor died{rest}")

    def _give_up(self, phase: str, why: str) -> None:
        from fairlead.backends.local.rundir import RunDir

        rundir = RunDir(self._path)
        order = rundir.order()
        state = {**(rundir.state() or {}), "job": order.get("job"), "run": order.get("run")}
        state |= {"phase": phase, "time_s": time.time(), "message": why}
        with contextlib.suppress(OSError):
            rundir.write_state(state, durable=True)
        self._learn(state)

    def _learn(self, state: Doc) -> None:
        self._state = state
        self._count += 1
        self._news.set()
        self._news = asyncio.Event()

    async def news(self, seen: int) -> tuple[int, Doc]:
        """Its state as soon as there is one that has not been seen; the same as before where nothing happens for long."""
        if self._count <= seen:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), _NEWS_S)
        return self._count, self._state

    async def tell(self, message: Doc) -> None:
        from fairlead.backends.local import wire

        if message["op"] == "continue" and message["rundir"] != self._path:
            self._next = (message["run"], message["rundir"])
        if self._link:
            wire.send(self._link, message)


def sweep(token: str) -> int:
    """Kill every process on this machine that carries a run's token, until none is seen any more; how many that were."""
    from fairlead.backends.local import procs

    killed: set[int] = set()
    for _ in range(200 if token else 0):
        left = [pid for pid in procs.marked(token) if (procs.stat(pid) or "Z")[0] not in "ZX"]
        if not left:
            break
        killed |= set(left)
        for signum in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                procs.send(pid, signum)
        time.sleep(0.02)
    return len(killed)


def sweep_node(code: str, token: str) -> int:
    """As a task of a node: nobody of that run is left there when it returns."""
    if code not in sys.path:
        sys.path.insert(0, code)
    return sweep(token)
