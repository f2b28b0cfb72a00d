"""What every request passes through first and every answer last: who asks, how often, how much; a number and a line in the log.

It is plain ASGI: a layer of Starlette's own kind would copy every answer through another task.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairlead.server.api.desk import WHO, Desk
from fairlead.server.api.limits import header, limited_body
from fairlead.server.api.pages import PREFIX
from fairlead.server.api.problems import answer_to, nothing_here, problem
from fairlead.server.api.studio import REPORTS, UPLOADS
from fairlead.server.auth import Identity, NotAuthenticated

ACCESS = logging.getLogger("fairlead.server.access")
ERRORS = logging.getLogger("fairlead.server.errors")
#: who looks after the scheduler asks this without a token, and nothing in it is anybody's; so are what describes the API
#: and the dashboard's own files
OPEN = frozenset({"/healthz", "/v1/openapi.json", "/"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_GONE = 499  #: in the log only: whoever asked did not wait for the answer


class _Enough(Exception):
    """The headers were all that was asked for."""


class Entrance:
    def __init__(self, app: ASGIApp, desk: Desk, routes: Iterable[BaseRoute]) -> None:
        self._app, self._desk, self._routes = app, desk, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = {**scope}  # the server keeps its own: what it knows of HEAD is not to change
        answer = _Answer(scope, send, self._desk.scheduler.now)
        try:
            await self._pass(scope, receive, answer)
        except _Enough:
            pass
        except ClientDisconnect:
            answer.status = answer.status or _GONE
        except asyncio.CancelledError:
            answer.status = answer.status or _GONE
            raise
        except Exception as error:
            if not answer.enough:
                await self._failed(scope, receive, answer, error)
        finally:
            self._record(scope, answer)

    async def _pass(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        """Refused as early as can be: before its body is read, and before the store is asked who it is."""
        scope[WHO] = None
        if scope["path"] in OPEN or scope["path"].startswith((PREFIX, REPORTS)):
            self._desk.rates.pay(_address(scope))
        else:
            scope[WHO] = await self._identify(scope)
            self._desk.rates.pay(scope[WHO].token_id)
        uploads = scope["path"] == UPLOADS and scope["method"] == "POST"
        most = self._desk.config.max_upload if uploads else self._desk.config.max_request
        receive = limited_body(scope, receive, most)
        if scope["method"] == "OPTIONS":
            await self._options(scope, receive, answer)
            return
        if scope["method"] == "HEAD":
            scope["method"] = "GET"
        await self._app(scope, receive, answer)

    async def _identify(self, scope: Scope) -> Identity:
        kind, _, token = (header(scope, b"authorization") or "").partition(" ")
        token = token.strip()
        if kind.lower() != "bearer" or not token:
            self._desk.rates.pay(_address(scope))
            raise NotAuthenticated("no token was given")
        if self._desk.tokens.remembers(token):
            return self._desk.tokens.authenticate(token)
        # one that nobody has seen yet: guessing is paid for by the address it comes from
        self._desk.rates.pay(_address(scope))
        return await asyncio.to_thread(self._desk.tokens.authenticate, token)

    async def _options(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        allow = methods_at(self._routes, scope)
        found = Response(status_code=204, headers={"Allow": allow}) if allow else nothing_here()
        await found(scope, receive, answer)

    async def _failed(self, scope: Scope, receive: Receive, answer: _Answer, error: Exception) -> None:
        found = answer_to(error)
        if found is None:
            ERRORS.error(
                "request %s (%s %s) failed", answer.id, scope["method"], _path(scope), exc_info=error, stacklevel=2
            )
            found = problem(500, f"the scheduler's log says more about request {answer.id}")
        if answer.status:  # too late to say so: a body that breaks off is what is left
            raise error
        await found(scope, receive, answer)

    def _record(self, scope: Scope, answer: _Answer) -> None:
        took_s = perf_counter() - answer.began
        status = answer.status or _GONE
        who: Identity | None = scope.get(WHO)
        route: Any = scope.get("route")
        self._desk.metrics.requested(answer.method, getattr(route, "path", "none"), status, took_s)
        ACCESS.info(
            "%s %s %s %s %d %d bytes %.1f ms %s",
            *(_address(scope), who.user if who else "-", answer.method, _path(scope)),
            *(status, answer.sent, took_s * 1000, answer.id),
        )


class _Answer:
    """`send` for the application: what every answer carries, and what is to be known of it afterwards."""

    def __init__(self, scope: Scope, send: Send, now: Callable[[], float]) -> None:
        self._now = now
        given = header(scope, b"x-request-id") or ""
        self.id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        self.began = perf_counter()
        self.method = str(scope["method"])
        self.status = 0
        self.sent = 0
        self.enough = False
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = message.setdefault("headers", [])
            message["headers"] = [
                *given,
                (b"x-request-id", self.id.encode()),
                (b"x-fairlead-now", b"%.3f" % self._now()),
                (b"x-content-type-options", b"nosniff"),
            ]
            if not any(name == b"cache-control" for name, _ in given):
                message["headers"].append((b"cache-control", b"no-store"))
            await self._send(message)
            if self.method == "HEAD":
                self.enough = True
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                raise _Enough
            return
        self.sent += len(message.get("body", b""))
        await self._send(message)


def methods_at(routes: Iterable[BaseRoute], scope: Scope) -> str:
    """What can be done at this path, as the header Allow has it; a route knows only its own method."""
    found = {"OPTIONS"}
    for route in routes:
        if route.matches(scope)[0] is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return ", ".join(sorted(found | ({"HEAD"} if "GET" in found else set()))) if len(found) > 1 else ""


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "local"


def _path(scope: Scope) -> str:
    """As it came, encoded: nothing that could begin a new line of the log. A ticket opens something, so it is not told."""
    if scope["path"].startswith(REPORTS):
        return REPORTS + "..."
    return str(scope.get("raw_path", b"").decode("ascii", "backslashreplace").partition("?")[0]) or "/"
