"""Lets a Ray Train or Tune program, or any other driver of a Ray cluster, ask fairlead for its GPUs.

    with fairlead_resources(gpus=4, min_gpus=2) as resources:
        for grant in resources:
            train(grant.scaling_config(), until=grant.recalled)

What is asked for waits in fairlead's queue like any job, and is lent for as long as its turn lasts. When fairlead wants it back, to
give it to somebody else or to lend more or less of it, `grant.recalled` is set: the program saves, lets its workers go and leaves
the loop's body; the loop goes on with the next grant, of another size maybe, in the same program. A body that ends without having
been asked to is done.

A grant names nodes and how many GPUs of each. The program's own placement groups take them, which the grant's methods make or
describe: Ray Train and Tune always bring their own. So in Ray's books the GPUs are free until the program takes them; no other run
of fairlead's is put there, but programs that never asked fairlead are not held off.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.model.errors import InputError
from fairlead.model.job import JobSpec

if TYPE_CHECKING:
    from types import TracebackType

    from ray.train import ScalingConfig
    from ray.tune import PlacementGroupFactory
    from ray.util.placement_group import PlacementGroup

    from fairlead.client import Client

_NODE_ID = "ray.io/node-id"
_LOOK_S = 0.1
#: a program that has not shown itself for so long is taken for dead, and its GPUs go back
_STALE_S = 60.0
_TOUCH_S = _STALE_S / 10
_RETURN_S = 20.0  #: how long fairlead may take to see that what it lent was returned
_ASK_S = 2.0  #: how often the scheduler is asked whether the job is still there

#: what fairlead runs in the program's stead, on each node of the grant: it says what was granted, passes on that it is wanted
#: back, and ends when it has been returned, or when the program is gone
_HOLDER = """
import json, os, signal, sys, time
folder, stale_s = sys.argv[1], float(sys.argv[2])
run, rank = os.environ["FAIRLEAD_RUN"], os.environ["RANK"]
def put(name, doc):
    path = os.path.join(folder, name)
    with open(f"{path}.{rank}.new", "w") as file:
        json.dump(doc, file)
    os.rename(f"{path}.{rank}.new", path)
signal.signal(signal.SIGUSR1, lambda *_: put(f"asked-{run}", {}))
put(f"granted-{run}-{rank}", {"node": os.environ["FAIRLEAD_NODE"], "node_id": os.environ["FAIRLEAD_RAY_NODE_ID"],
    "gpus": int(os.environ["FAIRLEAD_RAY_LENT"]), "parts": int(os.environ["WORLD_SIZE"])})
while not os.path.exists(os.path.join(folder, f"returned-{run}")):
    time.sleep(0.05)
    try:
        age_s = time.time() - os.stat(os.path.join(folder, "alive")).st_mtime
    except OSError:
        age_s = stale_s + 1
    if age_s > stale_s:
        sys.exit("whoever borrowed these GPUs has gone without returning them")
"""


@dataclass(frozen=True)
class Lent:
    """GPUs of one node."""

    node: str
    node_id: str  #: Ray's
    gpus: int


@dataclass(frozen=True)
class Grant:
    run: int  #: of the job that stands for it in fairlead
    lent: tuple[Lent, ...]
    recalled: threading.Event = field(default_factory=threading.Event, compare=False)  #: it is wanted back

    @property
    def gpus(self) -> int:
        return sum(one.gpus for one in self.lent)

    @property
    def label_selectors(self) -> list[dict[str, str]]:
        """The node of each GPU, as Ray selects nodes: for bundles of one GPU each."""
        return [{_NODE_ID: one.node_id} for one in self.lent for _ in range(one.gpus)]

    def placement_group(self, cpus: float = 1.0) -> PlacementGroup:
        """All of it, a bundle per GPU with so many CPUs. It goes with whoever made it, or by `remove_placement_group`."""
        from ray.util.placement_group import placement_group

        return placement_group(self._bundles(cpus), strategy="PACK", bundle_label_selector=self.label_selectors)

    def scaling_config(self, **more: Any) -> ScalingConfig:
        """For Ray Train: a worker per GPU."""
        from ray.train import ScalingConfig

        return ScalingConfig(num_workers=self.gpus, use_gpu=True, label_selector=self.label_selectors, **more)

    def placement_group_factory(self, cpus: float = 1.0) -> PlacementGroupFactory:
        """For Ray Tune: a trial that takes all of it."""
        from ray.tune import PlacementGroupFactory

        return PlacementGroupFactory(self._bundles(cpus), strategy="PACK", bundle_label_selector=self.label_selectors)

    def _bundles(self, cpus: float) -> list[dict[str, float]]:
        bundle = {"GPU": 1.0} | ({"CPU": cpus} if cpus else {})
        return [bundle] * self.gpus


class Resources:
    """What `fairlead_resources` gives: iterate over it for one grant after another."""

    def __init__(
        self,
        client: Client,
        spec: Callable[[str], JobSpec],
        folder: Path,
        on_recall: Callable[[Grant], object] | None,
    ) -> None:
        self._client = client
        self._folder = folder
        self._on_recall = on_recall
        self._grant: Grant | None = None
        self._ends = threading.Event()
        self._touch()
        self._watcher = threading.Thread(target=self._watch, name="fairlead-resources", daemon=True)
        self._watcher.start()
        self.job = client.submit(spec(str(folder))).id  #: what stands for it in fairlead

    def __enter__(self) -> Resources:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Grant]:
        run = 0
        while True:
            grant = self._next(run)
            run = grant.run
            self._grant = grant
            yield grant
            self._give_back(grant)
            if not grant.recalled.is_set():
                return

    def close(self) -> None:
        """All of it goes back: the job that stood for it ends, or is cancelled where it waits."""
        if self._ends.is_set():
            return
        self._ends.set()
        self._watcher.join()
        try:
            self._end_job()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _end_job(self) -> None:
        from fairlead.client import ClientError

        with contextlib.suppress(ClientError, InputError, TimeoutError):
            if self._grant is not None:
                self._give_back(self._grant)
                with contextlib.suppress(TimeoutError):
                    self._client.wait(self.job, timeout_s=_RETURN_S)
                    return
            self._client.cancel(self.job)
            self._client.wait(self.job, timeout_s=_STALE_S)

    def _next(self, after: int) -> Grant:
        """The grant of the first run behind that one. RuntimeError where the job has ended, and none will come."""
        from fairlead.client import Unreachable

        asked_s = 0.0
        while True:
            found = self._granted(after)
            if found is not None:
                return found
            if time.perf_counter() - asked_s > _ASK_S:
                with contextlib.suppress(Unreachable):  # a scheduler that is started again has kept the job
                    job = self._client.job(self.job)
                    if job.ended:
                        why = f"job {self.job} is {job.state}; {job.message}"
                        raise RuntimeError(f"fairlead lends nothing any more: {why}")
                asked_s = time.perf_counter()
            time.sleep(_LOOK_S)

    def _granted(self, after: int) -> Grant | None:
        parts: dict[int, dict[int, Lent]] = {}
        wanted: dict[int, int] = {}
        for file in self._folder.glob("granted-*-*"):
            _, number, rank = file.name.split("-")
            if rank.isdigit() and int(number) > after:
                doc = json.loads(file.read_text())
                parts.setdefault(int(number), {})[int(rank)] = Lent(doc["node"], doc["node_id"], doc["gpus"])
                wanted[int(number)] = doc["parts"]
        whole = [run for run, lent in parts.items() if len(lent) == wanted[run]]
        if not whole:
            return None
        run = max(whole)
        return Grant(run, tuple(lent for _, lent in sorted(parts[run].items())))

    def _give_back(self, grant: Grant) -> None:
        (self._folder / f"returned-{grant.run}").touch()

    def _touch(self) -> None:
        (self._folder / "alive").touch()

    def _watch(self) -> None:
        """Show that we live; see that it is wanted back. Whatever else happens: who is not seen for a minute is taken for dead."""
        touched_s = time.perf_counter()
        while not self._ends.wait(_LOOK_S):
            with contextlib.suppress(OSError):  # a file server that is away for a moment
                if time.perf_counter() - touched_s > _TOUCH_S:
                    self._touch()
                    touched_s = time.perf_counter()
                self._see(self._grant)

    def _see(self, grant: Grant | None) -> None:
        if grant is None or grant.recalled.is_set() or not (self._folder / f"asked-{grant.run}").exists():
            return
        grant.recalled.set()
        if self._on_recall is not None:  # it may take as long as it likes, and fail
            threading.Thread(target=self._on_recall, args=(grant,), name="fairlead-recall", daemon=True).start()


def fairlead_resources(
    gpus: int,
    *,
    min_gpus: int | None = None,
    max_gpus: int | None = None,
    name: str = "ray",
    priority: int = 0,
    gpu_type: str = "",
    grace_s: float = 120.0,
    folder: str | os.PathLike[str] | None = None,
    client: Client | None = None,
    on_recall: Callable[[Grant], object] | None = None,
) -> Resources:
    """Ask for GPUs; to be used as a context, which returns them at its end.

    With `min_gpus` or `max_gpus` it may be lent more or less from one grant to the next. `grace_s` is how long the program may take
    to give back what is wanted back; what it has not let go by then is no longer its own. `folder` is where the nodes and the
    program can both read and write (the home directory unless given); `on_recall` is called, in another thread, when a grant is
    wanted back.
    """
    from fairlead.client import Client as DefaultClient

    parent = Path(folder) if folder is not None else Path.home() / ".fairlead"
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="grant-", dir=parent))

    def spec(where: str) -> JobSpec:
        return JobSpec(
            run=(sys.executable, "-S", "-c", _HOLDER, where, str(_STALE_S)),
            name=name,
            gpus=gpus,
            min_gpus=min_gpus,
            max_gpus=max_gpus,
            gpu_type=gpu_type,
            priority=priority,
            grace_s=grace_s,
            env={"FAIRLEAD_RAY_LEND": "1"},
            checkpoint_signal="SIGUSR1",
            suspend=("checkpoint", "requeue"),
        )

    try:
        return Resources(client or DefaultClient(), spec, made, on_recall)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
