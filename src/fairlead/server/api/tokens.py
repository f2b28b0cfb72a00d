"""Tokens: who has which, making one and revoking one. What a token is, is shown once."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from fairlead.model.errors import InputError
from fairlead.server.api import schemas
from fairlead.server.api.desk import Desk, answer, desk_of, read, require, router, takes
from fairlead.server.api.problems import NotFound
from fairlead.server.auth import Act, Identity, Role, Scope
from fairlead.server.store import TokenRow

routes = router("tokens")
_SHOWN = ("id", "user", "role", "label", "created_s", "expires_s", "revoked_s", "used_s")


def token_out(row: TokenRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _SHOWN}


@routes.get("/tokens", response_model=schemas.TokenList, summary="Tokens, without the tokens themselves")
async def listing(request: Request) -> Response:
    desk, who = desk_of(request), require(request, Act.SEE_TOKENS)
    whose = None if who.scope(Act.SEE_TOKENS) is Scope.ALL else who.user
    rows = await asyncio.to_thread(desk.tokens.listed, whose)
    return answer({"tokens": [token_out(row) for row in rows]})


@routes.post(
    "/tokens",
    response_model=schemas.TokenMade,
    status_code=201,
    summary="Make a token",
    openapi_extra=takes(
        schemas.NewToken,
        required=False,
        examples={"for a program": {"label": "nightly", "expires": "90d"}, "for bob": {"user": "bob", "role": "user"}},
    ),
)
async def make(request: Request) -> Response:
    """The answer is the only place where the token itself ever stands. An admin may name a user who is not known yet, with the
    tenant that its jobs go to."""
    desk, who = desk_of(request), require(request, Act.MAKE_TOKENS)
    body = await read(request, schemas.NewToken)
    user, role = body.user or who.user, Role(body.role) if body.role else who.role
    who.require_giving(role, user)
    token, row = await asyncio.to_thread(_made, desk, who, user, role, body)
    return answer({**token_out(row), "token": token}, 201)


def _made(desk: Desk, who: Identity, user: str, role: Role, body: schemas.NewToken) -> tuple[str, TokenRow]:
    known = desk.store.accounts.user(user)
    if known is None and who.role is Role.ADMIN and body.tenant:
        desk.tokens.add_user(user, body.tenant)
    elif known is None:
        raise InputError("there is no such user", column="user", value=user, accepts="tenant too, to add the user")
    elif body.tenant and body.tenant != known.tenant:
        raise InputError(
            "the user is of another tenant", column="tenant", value=body.tenant, accepts=f"{known.tenant}, or nothing"
        )
    return desk.tokens.issue(user, role, label=body.label, lifetime_s=body.expires)


@routes.delete("/tokens/{token_id}", response_model=schemas.TokenOut, summary="Revoke a token")
async def revoke(
    request: Request, token_id: Annotated[str, Path(description="its id, as the listing has it")]
) -> Response:
    """It stays in the listing. Of one that was revoked before, the first time stays."""
    desk, who = desk_of(request), require(request, Act.MAKE_TOKENS)
    whose = None if who.scope(Act.MAKE_TOKENS) is Scope.ALL else who.user

    def revoked() -> TokenRow:
        if not any(row.id == token_id for row in desk.tokens.listed(whose)):
            raise NotFound("there is no token with this id", column="token_id", value=token_id)
        return desk.tokens.revoke(token_id)

    return answer(token_out(await asyncio.to_thread(revoked)))
