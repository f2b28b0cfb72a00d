"""A whole scheduler behind a real HTTP server, in a thread of its own, and what to ask it with."""

from __future__ import annotations

import asyncio
import faulthandler
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from fairlead.backends.local.executor import LocalExecutor
from fairlead.backends.local.settings import LocalSettings
from fairlead.server.api import create_app, end_streams
from fairlead.server.auth import Role, Tokens
from fairlead.server.clock import WallClock
from fairlead.server.config import Config
from fairlead.server.gate import Gate
from fairlead.server.scheduler import Scheduler
from fairlead.server.store import Store
from fairlead.server.unix_user import SELF, UnixUsers

PATIENCE_S = 60.0  # the first job of a kind may have to wait for a compiler
#: name: tenant and role
PEOPLE = {
    "ada": ("infra", Role.ADMIN),
    "ann": ("vision", Role.USER),
    "bob": ("speech", Role.USER),
    "vic": ("vision", Role.VIEWER),
}


class Service:
    store: Store
    scheduler: Scheduler
    tokens: Tokens
    app: FastAPI
    loop: asyncio.AbstractEventLoop
    url: str

    def __init__(self, path: Path, **settings: Any) -> None:
        self.path = path
        self.nodes = settings.pop("nodes", 2)
        self.log_limit_bytes = settings.pop("log_limit_bytes", 64 << 20)
        # nobody in these tests asks slowly; the limits have a test of their own
        settings = {"request_rate": 1e6, "request_burst": 1_000_000, **settings}
        self.config = Config(path, **settings)
        self.token: dict[str, str] = {}
        self.token_id: dict[str, str] = {}
        self._clients: list[httpx.Client] = []
        self._of: dict[str | None, httpx.Client] = {}

    # -- its life -------------------------------------------------------------------------------------------------------------

    async def serve(self, ready: Future[None], stop: asyncio.Event) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        with Store(self.config.store_url) as self.store:
            clock = WallClock()
            self.tokens = Tokens(self.store.accounts, clock.now)
            for name, (tenant, role) in PEOPLE.items():
                self.tokens.add_user(name, tenant)
                self.token[name], row = self.tokens.issue(name, role)
                self.token_id[name] = row.id
            local = LocalSettings(
                self.path / "local", gpus=4, nodes=self.nodes, log_limit_bytes=self.log_limit_bytes, log_keep=2
            )
            executor = await LocalExecutor.open(local)
            self.scheduler = Scheduler(
                self.store,
                executor,
                await executor.inventory(),
                clock,
                policy=self.config.policy,
                placer=self.config.placer,
                logs=self.config.logs,
                users=UnixUsers(SELF),
                gate=Gate(self.config.max_jobs, self.config.max_jobs_per_user, self.config.max_array),
            )
            await self.scheduler.open()
            try:
                await self._listen(ready, stop)
            finally:
                await self.scheduler.close()

    async def _listen(self, ready: Future[None], stop: asyncio.Event) -> None:
        self.app = create_app(self.scheduler, self.tokens, self.config)
        server = uvicorn.Server(uvicorn.Config(self.app, port=0, log_config=None, access_log=False, lifespan="off"))
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        serving = asyncio.create_task(server._serve())
        while not server.started:
            await asyncio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        ready.set_result(None)
        await stop.wait()
        end_streams(self.app)
        server.should_exit = True
        while not (await asyncio.wait([serving], timeout=0.5))[0]:
            # a browser's spare connection may have come while the others were told
            for late in list(server.server_state.connections):
                late.shutdown()
        await serving

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """In the scheduler's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)

    # -- asking ---------------------------------------------------------------------------------------------------------------

    def client(self, name: str | None) -> httpx.Client:
        headers = {} if name is None else {"Authorization": f"Bearer {self.token[name]}"}
        # no certificates are read for a service without TLS: that would take longer than the request
        made = httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S, verify=False)
        self._clients.append(made)
        return made

    def ask(self, name: str | None, method: str, path: str, **options: Any) -> httpx.Response:
        if name not in self._of:
            self._of[name] = self.client(name)
        return self._of[name].request(method, path, **options)

    def submit(self, who: str = "ann", run: str = "sleep 60", **fields: Any) -> str:
        """The id of a job, or of an array."""
        answer = self.ask(who, "POST", "/v1/jobs", json={"run": run, "grace_period": 1, **fields})
        assert answer.status_code == 201, answer.text
        made = answer.json()
        return str(made["array_id"] or made["jobs"][0])

    def until(self, name: str, job: str, *states: str) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            now: dict[str, Any] = self.ask(name, "GET", f"/v1/jobs/{job}").json()
            return now if now["state"] in states else None

        return wait_for(found)

    def close_clients(self) -> None:
        self._of.clear()
        while self._clients:
            self._clients.pop().close()


def wait_for(look: Callable[[], Any]) -> Any:
    """What it finds, as soon as that is anything."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("nothing came of it")


@contextmanager
def service(path: Path, made: Service | None = None, **settings: Any) -> Iterator[Service]:
    from tests.backends.harness import clean_up

    made = made or Service(path, **settings)
    ready: Future[None] = Future()
    stop = threading.Event()

    async def run() -> None:
        made.loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        stopping = asyncio.create_task(asyncio.to_thread(stop.wait))
        stopping.add_done_callback(lambda _: ended.set())
        try:
            await made.serve(ready, ended)
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)
        finally:
            stop.set()
            await stopping

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="service")
    thread.start()
    try:
        ready.result(300)  # compiling, the first time
        yield made
    finally:
        made.close_clients()
        stop.set()
        thread.join(60)
        if thread.is_alive():
            faulthandler.dump_traceback()  # what it waits for
        clean_up(path)
    assert not thread.is_alive()
