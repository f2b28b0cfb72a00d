"""A typed client of the live scheduler: `Client`, and `AsyncClient` with the same verbs. docs/client.md shows them."""

from fairlead.client.aio import AsyncClient
from fairlead.client.errors import ApiError, ClientError, UnexpectedAnswer, Unreachable
from fairlead.client.sync import Client
from fairlead.client.types import (
    Cluster,
    DryRun,
    Event,
    EventPage,
    Explanation,
    Job,
    JobPage,
    Me,
    NewToken,
    Node,
    Place,
    Policy,
    Spread,
    Submitted,
    Tenant,
    Token,
    WhatIfRow,
)

__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "ClientError",
    "Cluster",
    "DryRun",
    "Event",
    "EventPage",
    "Explanation",
    "Job",
    "JobPage",
    "Me",
    "NewToken",
    "Node",
    "Place",
    "Policy",
    "Spread",
    "Submitted",
    "Tenant",
    "Token",
    "UnexpectedAnswer",
    "Unreachable",
    "WhatIfRow",
]
