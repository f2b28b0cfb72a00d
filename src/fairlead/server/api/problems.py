"""From what went wrong to what is answered: RFC 9457's problem+json, with the field, its value and what would do."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fairlead.model.errors import InputError
from fairlead.model.suggest import unknown
from fairlead.server.auth import Forbidden, NotAuthenticated
from fairlead.server.store import KeyReused, NoSuchJob, StoreError, StoreMistake
from fairlead.server.studio import BadTrace

CONTENT_TYPE = "application/problem+json"
#: the last word of a problem's type, and its title, by status
KINDS: Mapping[int, tuple[str, str]] = {
    400: ("malformed", "The request can't be read"),
    401: ("not-authenticated", "A valid token is needed"),
    403: ("forbidden", "This is not allowed"),
    404: ("not-found", "There is no such thing"),
    405: ("method-not-allowed", "This can't be done here"),
    409: ("conflict", "This contradicts what is there"),
    413: ("too-large", "The request is too large"),
    422: ("invalid", "Something in the request can't be used"),
    429: ("too-many", "Too many requests"),
    500: ("unexpected", "Something went wrong here"),
    503: ("unavailable", "The scheduler can't do this now"),
}
_LONGEST = 200


class Malformed(Exception):
    """The body is not what it says it is."""


class NotFound(InputError):
    """The path names something that is not there, or that is not theirs to know of."""


def none_such(kind: str, name: str, known: Iterable[str]) -> NotFound:
    said = unknown(kind, name[:_LONGEST], known)
    return NotFound(said.what, column="name", value=name, accepts=said.accepts)


class TooLarge(Exception):
    """The body is longer than is read."""


class TooMany(Exception):
    """More than one token may have at once. `wait_s`: after how long it is worth trying again."""

    def __init__(self, what: str, wait_s: float) -> None:
        super().__init__(what)
        self.wait_s = wait_s


def check_known(field: str, value: str, known: Collection[str]) -> None:
    """InputError with the nearest one for a value that is not among those that there are."""
    if value not in known:
        said = unknown(field, value[:_LONGEST], known)
        raise InputError(said.what, column=field, value=value, accepts=said.accepts)


def problem(
    status: int,
    detail: str,
    *,
    field: str | None = None,
    value: object = None,
    accepts: str | None = None,
    file: str | None = None,
    line: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    kind, title = KINDS.get(status, ("http", "The request failed"))
    content = {
        "type": f"urn:fairlead:problem:{kind}",
        "title": title,
        "status": status,
        "detail": detail,
        "field": field,
        "value": _shown(field, value),
        "accepts": accepts,
        **({"file": file[:_LONGEST], "line": line} if file is not None else {}),
    }
    return Response(json.dumps(content), status, headers, CONTENT_TYPE)


def _shown(field: str | None, value: object) -> object:
    """Short and plain, and never of a variable: it may be a secret."""
    if field is not None and field.split(".")[0] == "env":
        return None
    if isinstance(value, str):
        return value[:_LONGEST]
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    return value if isinstance(value, bool | int) else None


def of_input(error: InputError) -> Response:
    status = 409 if isinstance(error, KeyReused) else 422
    # a job that a field names is a mistake in the request; the one that the path names is what there is none of
    if isinstance(error, NotFound) or (isinstance(error, NoSuchJob) and error.column is None):
        status = 404
    # a file of ours is nobody's business; one that was just sent is
    where = {"file": error.file, "line": error.line} if isinstance(error, BadTrace) else {}
    return problem(status, error.what, field=error.column, value=error.value, accepts=error.accepts, **where)  # type: ignore[arg-type]


def of_store(error: StoreError) -> Response:
    """What ails it and what helps, but not where it is."""
    detail = f"{error.what}; {error.helps}" if error.helps else error.what
    return problem(503, f"the store can't be used: {detail}", headers={"Retry-After": "5"})


def of_validation(error: RequestValidationError) -> Response:
    """A parameter that FastAPI could not read."""
    errors: Sequence[Any] = error.errors()
    first = errors[0]
    name = str(first["loc"][-1])
    message = str(first["msg"])
    return problem(422, message[:1].lower() + message[1:], field=name, value=first.get("input"))


def of_http(error: HTTPException) -> Response:
    """What the router says: no such path."""
    if error.status_code == 404:
        return nothing_here()
    return problem(error.status_code, str(error.detail).lower(), headers=error.headers)


def nothing_here() -> Response:
    return problem(404, "there is nothing at this path")


def wrong_method(method: str, allow: str) -> Response:
    return problem(405, f"{method} can't be done here", accepts=allow, headers={"Allow": allow})


def answer_to(error: BaseException) -> Response | None:
    """None: nobody is to blame but us."""
    if isinstance(error, InputError):
        return of_input(error)
    if isinstance(error, StoreError) and not isinstance(error, StoreMistake):
        return of_store(error)
    if isinstance(error, RequestValidationError):
        return of_validation(error)
    if isinstance(error, HTTPException):
        return of_http(error)
    if isinstance(error, NotAuthenticated):
        return problem(401, str(error), accepts="Authorization: Bearer TOKEN", headers={"WWW-Authenticate": "Bearer"})
    for kind, status in ((Forbidden, 403), (Malformed, 400), (TooLarge, 413)):
        if isinstance(error, kind):
            return problem(status, str(error))
    if isinstance(error, TooMany):
        wait_s = max(math.ceil(error.wait_s), 1)
        return problem(429, str(error), headers={"Retry-After": str(wait_s)})
    return None


async def handle(_: Request, error: Exception) -> Response:
    """The handler of every error that is somebody's."""
    found = answer_to(error)
    if found is None:
        raise error
    return found


#: what `handle` is registered for
HANDLED: Sequence[type[Exception]] = (
    *(InputError, StoreError, RequestValidationError, HTTPException),
    *(NotAuthenticated, Forbidden, Malformed, TooLarge, TooMany),
)
