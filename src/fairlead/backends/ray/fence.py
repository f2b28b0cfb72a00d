"""Making certain that a lost part of a run is gone, before anybody is told so: the job may be started again at once.

A supervisor that has lost its actor ends the run's processes and writes that down; its lock is free when it is gone. Where it was
killed too, a task on its node kills whatever carries the run's token. Where the whole node is gone, its processes are
gone with it, or leave when they have not reached the head for a minute: after `fence_s` nobody can be left.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from fairlead.backends.local.rundir import LOST, Doc
from fairlead.backends.ray import runs
from fairlead.backends.ray.runs import Run
from fairlead.backends.ray.whole import is_over

if TYPE_CHECKING:
    from fairlead.backends.ray.executor import RayExecutor

_PAUSE_S = 0.2
#: how long a node may take to kill what is left of a run
_SWEEP_S = 30.0
log = logging.getLogger(__name__)


class Fence:
    def __init__(self, executor: RayExecutor, fence_s: float) -> None:
        self._executor = executor
        self._fence_s = fence_s
        self._swept: dict[tuple[str, int], asyncio.Future[str]] = {}

    def swept(self, run: Run, number: int, error: str) -> None:
        waiting = self._swept.pop((run.name, number), None)
        if waiting and not waiting.done():
            waiting.set_result(error)

    async def part(self, run: Run, number: int) -> None:
        """Until it is over, by its own word or by ours."""
        said = ""
        while not is_over(run.parts[number]):
            try:
                state = await self._look(run, number)
            except OSError as error:  # the directory that the nodes share is out of reach for now
                state = None
                if said != (said := str(error)):
                    log.warning("whether %s is gone can't be found out: %s", run.part(number).path, error)
            if state is not None:
                self._executor._learn(run, number, state)
            else:
                await asyncio.sleep(_PAUSE_S)
        run.fencing.discard(number)

    async def _look(self, run: Run, number: int) -> Doc | None:
        """Its last state, where it is certain to be over. Raises OSError."""
        rundir = run.part(number)
        state = await asyncio.to_thread(rundir.state)
        if state and is_over(state):
            return state
        if await asyncio.to_thread(rundir.is_claimed) and not self._is_certain(run, number):
            return None  # its supervisor is at it, or its machine is away and may come back
        if state and not await self._nobody_left(run, number):
            return None
        why, force = run.gone.get(number, ""), self._is_certain(run, number)
        return await asyncio.to_thread(partial(runs.write_off, run, number, LOST, why, retry=True, force=force))

    def _is_certain(self, run: Run, number: int) -> bool:
        """Its node has been gone for so long that nothing of it can be left."""
        node = self._executor.nodes.by_name[run.nodes[number]]
        return not node.is_up and asyncio.get_running_loop().time() - node.down_s > self._fence_s

    async def _nobody_left(self, run: Run, number: int) -> bool:
        node = self._executor.nodes.by_name[run.nodes[number]]
        if not node.is_up:
            return self._is_certain(run, number)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._swept[run.name, number] = answer
        told = self._executor.bridge.tell(
            op="sweep", name=run.name, part=number, node_id=node.id, token=run.plan["token"]
        )
        if not told:
            return False
        try:
            return not await asyncio.wait_for(answer, _SWEEP_S)
        except TimeoutError:
            return False
