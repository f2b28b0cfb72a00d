"""The description of the API for programs: what FastAPI knows of the routes, and what we read and refuse ourselves."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from fairlead.server.api import schemas, studio_schemas
from fairlead.server.api.version import VERSION
from fairlead.workload.job_document import JobDocument

#: bodies that endpoints read themselves, and the one form of every error
BODIES: tuple[type[BaseModel], ...] = (
    JobDocument,
    schemas.Drain,
    schemas.TenantBody,
    schemas.PolicyBody,
    schemas.WhatIf,
    schemas.NewToken,
    studio_schemas.Comparison,
)
_TELLS = """Submit jobs to the scheduler, follow them, and ask what would happen.

Every request carries a token: `Authorization: Bearer TOKEN`. Times are seconds since 1970. Errors are `application/problem+json`
and name the field, its value and what would do."""


def described(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(title="fairlead", version=VERSION, description=_TELLS, routes=app.routes)
    parts = found.setdefault("components", {})
    _, defined = models_json_schema(
        [*((model, "validation") for model in BODIES), (schemas.Problem, "serialization")],
        ref_template="#/components/schemas/{model}",
    )
    parts["schemas"] = dict(sorted({**parts.get("schemas", {}), **defined["$defs"]}.items()))
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "fl_..."}}
    found["security"] = [{"token": []}]
    return found
