"""The process that talks to Ray: `python -m fairlead.backends.ray.bridge_main`, with JSON lines on its standard input and output.

Ray's client library ends the process that it is loaded in when the head is gone for long, and blocks for as long as the head
is slow. So it lives here, and whoever started this process starts another one. It holds nothing that is not in Ray or in the
runs' directories: it may be killed at any time.

The first line says where: {"address", "namespace", "poll_s", "code", "watch"}. Then {"op": "start" | "tell" | "release" | "sweep"
| "look", …}. What it says: {"event": "connected" | "poll" | "part" | "gone" | "failed" | "swept" | "scene", …}.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import ray
import ray.exceptions
from ray import cloudpickle
from ray.util.placement_group import get_placement_group, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from fairlead.backends.ray import keeper, sight

Doc = dict[str, Any]
_T = TypeVar("_T")
#: by it a bundle is bound to one node
_NODE_ID = "ray.io/node-id"
_FINISH_S = 4.0
_OVER = ("ended", "failed", "lost")


class Bridge:
    def __init__(self, setup: Doc, out: int) -> None:
        self.namespace: str = setup["namespace"]
        self.code: str = setup["code"]
        self.poll_s: float = setup["poll_s"]
        self._out = out
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._actors_at: dict[str, Any] = {}  #: handles of what is followed
        self._released: set[str] = set()  #: of which something may still be there, or just being made
        self._keeper = ray.remote(keeper.Keeper)
        self._sweep = ray.remote(keeper.sweep_node)

    # -- talking -------------------------------------------------------------------------------------------------------------

    def say(self, event: str, **more: Any) -> None:
        data = memoryview(json.dumps({"event": event, **more}).encode() + b"\n")
        while data:
            data = data[os.write(self._out, data) :]

    def hear(self, message: Doc) -> None:
        operation = message["op"]
        if operation == "start":
            self._do(f"start {message['name']}", self._start(message))
        elif operation == "tell":
            about = json.dumps([message["parts"], message["message"]])
            self._do(f"tell {message['name']} {about}", self._tell(message))
        elif operation == "release":
            self._do("", self._release(message["name"], message["actors"]))
        elif operation == "sweep":
            self._do(f"sweep {message['name']}", self._sweep_node(message))
        elif operation == "look":
            self._do("look", self._look())

    def _do(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """The same work is not begun again while it is under way."""
        if name and name in self._tasks:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        key = name or f"task {id(task)}"
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    async def finish(self) -> None:
        """Nobody will tell it more: what was to be told or released still is."""
        short = [task for name, task in self._tasks.items() if name.startswith(("task ", "tell "))]
        if short:
            await asyncio.wait(short, timeout=_FINISH_S)

    # -- how the cluster stands ----------------------------------------------------------------------------------------------

    async def poll(self) -> None:
        """Three calls, however many runs there are."""
        while True:
            began = asyncio.get_running_loop().time()
            standing = await _in_thread(self._standing)
            self.say("poll", **standing)
            self._forget_released(standing)
            await asyncio.sleep(max(0.0, self.poll_s - (asyncio.get_running_loop().time() - began)))

    def _standing(self) -> Doc:
        """Ray keeps an entry for every group that ever was; those that are removed are not passed on."""
        prefix = self.namespace + "/"
        groups = {one["name"]: one["state"] for one in placement_group_table().values() if one["state"] != "REMOVED"}
        return {
            "nodes": [sight.node(one) for one in ray.nodes()],
            "groups": {name: state for name, state in groups.items() if name.startswith(prefix)},
            "actors": [name for name in ray.util.list_named_actors() if name.startswith(prefix)],
        }

    def _forget_released(self, standing: Doc) -> None:
        there = {*standing["groups"], *(actor.rpartition("#")[0] for actor in standing["actors"])}
        self._released = {name for name in self._released if name in there or f"start {name}" in self._tasks}

    async def _look(self) -> None:
        try:
            self.say("scene", **await _in_thread(sight.scene))
        except Exception as error:
            self.say("scene", error=_said(error))

    # -- runs ----------------------------------------------------------------------------------------------------------------

    async def _start(self, message: Doc) -> None:
        """Whatever of it is there already is used. `create` false: it has begun, so what is missing is gone; "failed" then only
        says that it could not be followed."""
        name, places = message["name"], message["places"]
        try:
            if message["create"]:
                actors = await _in_thread(lambda: self._actors(name, places))
                if name in self._released:
                    await self._release(name, [_part(name, number) for number in range(len(places))])
                    return
            else:
                actors = await _in_thread(lambda: [_find(_part(name, i)) for i in range(len(places))])
            present = [one for one in actors if one is not None]
            hellos = await asyncio.gather(*(one.hello.remote() for one in present), return_exceptions=True)
            for number, actor in enumerate(actors):
                if actor is None:
                    self.say("gone", name=name, part=number, message="Ray has no such actor")
            errors = [one for one in hellos if isinstance(one, BaseException)]
            if message["create"] and errors:
                raise errors[0]
            if actors[0] is None or isinstance(hellos[0], BaseException):
                begins: list[Any] = []  # without rank 0 nobody begins; those that have are followed
            else:
                begins = [
                    actor.begin.remote(place["path"], place["order"], message["pass_env"], hellos[0])
                    for actor, place in zip(actors, places, strict=True)
                    if actor is not None
                ]
            for one in await asyncio.gather(*begins, return_exceptions=True):
                if isinstance(one, BaseException) and not isinstance(one, ray.exceptions.RayActorError):
                    raise one
        except Exception as error:
            self.say("failed", name=name, message=_said(error))
            return
        for number, actor in enumerate(actors):
            if actor is not None:
                self._do(f"follow {_part(name, number)}", self._follow(name, number, actor))

    def _actors(self, name: str, places: list[Doc]) -> list[Any]:
        try:
            group = get_placement_group(name)
        except ValueError:
            group = placement_group(
                [place["resources"] for place in places],
                strategy="PACK",
                name=name,
                lifetime="detached",
                bundle_label_selector=[{_NODE_ID: place["node_id"]} for place in places],
            )
        return [
            self._keeper.options(
                name=_part(name, number),
                namespace=self.namespace,
                lifetime="detached",
                get_if_exists=True,
                num_cpus=0,
                num_gpus=place["num_gpus"],
                max_restarts=0,
                max_concurrency=100,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number),
            ).remote(self.code)
            for number, place in enumerate(places)
        ]

    async def _follow(self, name: str, number: int, actor: Any) -> None:
        seen = 0
        self._actors_at[_part(name, number)] = actor
        try:
            while True:
                try:
                    count, state = await actor.news.remote(seen)
                except ray.exceptions.ActorUnavailableError:
                    await asyncio.sleep(self.poll_s)  # whether it is dead is still to be found out
                    continue
                if count > seen:
                    seen = count
                    self.say("part", name=name, part=number, state=state)
                    if state.get("phase") in _OVER:
                        return
        except ray.exceptions.RayError as error:
            self.say("gone", name=name, part=number, message=_said(error))
        finally:
            del self._actors_at[_part(name, number)]

    async def _tell(self, message: Doc) -> None:
        """Each part by itself: one that can't be reached keeps nobody waiting. It is told again at the next poll."""
        names = [_part(message["name"], number) for number in message["parts"]]
        await asyncio.gather(*(self._tell_part(name, message["message"]) for name in names))

    async def _tell_part(self, name: str, message: Doc) -> None:
        with contextlib.suppress(ray.exceptions.RayError):
            actor = self._actors_at.get(name) or await _in_thread(partial(_find, name))
            if actor is not None:
                await actor.tell.remote(message)

    async def _release(self, name: str, actors: list[str]) -> None:
        """Its GPUs go back to Ray. What is just being made of it is released as soon as it is there."""
        self._released.add(name)

        def release() -> None:
            with contextlib.suppress(ValueError):
                remove_placement_group(get_placement_group(name))
            for actor in map(_find, actors):
                if actor is not None:
                    ray.kill(actor, no_restart=True)

        with contextlib.suppress(ray.exceptions.RayError):
            await _in_thread(release)

    async def _sweep_node(self, message: Doc) -> None:
        where = NodeAffinitySchedulingStrategy(message["node_id"], soft=False)
        try:
            killed = await self._sweep.options(num_cpus=0, scheduling_strategy=where).remote(
                self.code, message["token"]
            )
        except ray.exceptions.RayError as error:
            self.say("swept", name=message["name"], part=message["part"], error=_said(error))
        else:
            self.say("swept", name=message["name"], part=message["part"], killed=killed)


def _part(name: str, number: int) -> str:
    return f"{name}#{number}"


def _find(name: str) -> Any:
    try:
        return ray.get_actor(name)
    except ValueError:
        return None


def _said(error: BaseException) -> str:
    """Ray's errors are pages long: the lines that say what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("The actor ", "The node ", "Placement group"))]
    return " ".join(dict.fromkeys(telling or lines[:2]))[:500] or type(error).__name__


async def _in_thread(work: Callable[[], _T]) -> _T:
    return await asyncio.get_running_loop().run_in_executor(None, work)


async def serve(bridge: Bridge, reader: asyncio.StreamReader) -> None:
    poll = asyncio.create_task(bridge.poll())
    poll.add_done_callback(lambda task: None if task.cancelled() else os._exit(1))
    while line := await reader.readline():
        bridge.hear(json.loads(line))
    await bridge.finish()


async def main() -> None:
    out = os.dup(1)
    os.dup2(2, 1)  # what Ray prints is no part of what we say
    reader = asyncio.StreamReader(limit=1 << 26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    setup = json.loads(await reader.readline())
    cloudpickle.register_pickle_by_value(keeper)
    address = setup["address"]
    loopback = (
        {"_node_ip_address": "127.0.0.1"} if address.startswith("127.0.0.1:") else {}
    )  # it would look for its own
    ray.init(address, namespace=setup["namespace"], logging_level=logging.ERROR, log_to_driver=False, **loopback)
    bridge = Bridge(setup, out)
    bridge.say("connected", version=ray.__version__)
    await serve(bridge, reader)
    os._exit(0)  # nothing is to be tidied up: what we made is detached


if __name__ == "__main__":
    asyncio.run(main())
