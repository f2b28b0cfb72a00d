"""What comes in and goes out of the studio."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fairlead.server.api.schemas import Body, Name, Seconds


class Generated(Body):
    """A workload that is made up from a seed. Of jobs, days and load, two give the third."""

    name: Name
    jobs: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    days: Annotated[float, Field(gt=0, le=3650, allow_inf_nan=False)] | None = None
    gpus: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(None, description="the cluster that it is meant for")
    load: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] | None = Field(
        None, description="GPU-time asked for, over what the cluster has"
    )
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0


class Comparison(Body):
    """`trace` or `generator`, and what is to be compared on it."""

    trace: Name | None = Field(None, description="the id of one that was uploaded")
    generator: Generated | None = None
    cluster: Name | None = Field(
        None, description="NODESxGPUS[@TYPE], several joined by +; null: the nodes that are here"
    )
    policies: list[Name] = Field(min_length=1, max_length=8)
    placers: list[Name] = Field(default=["consolidate"], min_length=1, max_length=4)
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    title: Annotated[str, Field(max_length=200)] = ""


class Choice(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str
    summary: str
    parameters: dict[str, Any]


class Choices(BaseModel):
    policies: list[Choice]
    placers: list[Choice]


class TraceFormat(BaseModel):
    name: str
    about: str


class StudioOut(BaseModel):
    """What can be had here."""

    generators: list[Choice]
    formats: list[TraceFormat] = Field(description="of traces that may be uploaded")
    upload_bytes: int
    time_s: float
    memory_bytes: int
    traces: int = Field(description="that you may keep")


class TraceOut(BaseModel):
    id: str
    user: str
    name: str
    bytes: int
    made_s: Seconds
    about: dict[str, Any] = Field(description="format, jobs, span_s, gpu_hours, largest_gpus, tenants, notes")


class TraceList(BaseModel):
    traces: list[TraceOut]


class RunOut(BaseModel):
    id: str
    user: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    workload: str
    cluster: str
    names: list[str] = Field(description="of what is compared, in order")
    made_s: Seconds
    begun_s: Seconds | None
    ended_s: Seconds | None
    before: int = Field(description="how many go before it, where it waits")
    at: int = Field(description="how many of `names` are done")
    part: float = Field(description="of the one that runs now, 0 to 1")
    problem: dict[str, Any] | None = Field(description="where it failed: detail, and what would do")
    results: list[dict[str, Any]] = Field(description="where it is done: the main figures of each")
    request: dict[str, Any]


class RunList(BaseModel):
    runs: list[RunOut]


class Ticket(BaseModel):
    path: str = Field(description="opens the report without a token, for a minute")
