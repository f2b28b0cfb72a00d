"""The written form of a job: what a job file, an API request and the store have in common. docs/job-file.md has the fields.

Reading is generous (`2h30m`, `16GiB`, `"0.5"`, a list or a single id), writing is plain: numbers in seconds and MiB, nothing
that has its default.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator

from fairlead.model.errors import InputError
from fairlead.model.job import MOST_TASKS, SUSPEND_METHODS, WHOLE_MILLI, Dependency, JobSpec, When
from fairlead.model.units import (
    DURATION_FORM,
    RANGE_FORM,
    SIZE_FORM,
    parse_duration,
    parse_indices,
    parse_size_mib,
    write_indices,
)
from fairlead.workload.fields import Unfit, field_error

#: what other schedulers call it
WORDS = {
    "accelerators": "write gpus: 8 and gpu_type: A100 under resources",
    "gres": "write gpus: 8 under resources",
    "command": "the program goes under run",
    "entrypoint": "the program goes under run",
    "args": "write run as a list: [python, train.py]",
    "nodes": "write num_nodes",
    "time": "write time_limit",
    "walltime": "write time_limit",
    "account": "write tenant",
    "queue": "write tenant",
    "partition": "write tenant, or gpu_type under resources",
    "dependency": "write depends_on",
    "mem": "write memory under resources",
}


def _amount(read: Callable[[str], float], what: str, accepts: str) -> Callable[[object], float]:
    def parse(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = repr(value)
        if not isinstance(value, str):
            raise Unfit(what, accepts)
        try:
            number = read(value.strip())
        except ValueError:
            raise Unfit(what, accepts) from None
        if not math.isfinite(number):
            raise Unfit(what, accepts)
        return number

    return parse


def _whole(value: object) -> int:
    accepts = "a whole number"
    number = _amount(float, "this is no whole number", accepts)(value)
    if number != int(number):
        raise Unfit("this is no whole number", accepts)
    return int(value) if isinstance(value, int) else int(number)


def _gpus(value: object) -> int:
    if isinstance(value, float) and 0 < value < 1:
        raise Unfit("GPUs are whole", f"gpu_share: {value:g} for a part of one")
    try:
        return _whole(value)
    except Unfit:
        raise Unfit("this is no number of GPUs", "a whole number, 0 for none") from None


_FORM_SHARE = "more than 0 and less than 1, such as 0.5"


def _share(value: object) -> float:
    if isinstance(value, str) and value.strip().endswith("%"):
        value = _amount(float, "this is no share", _FORM_SHARE)(value.strip()[:-1]) / 100
    share = _amount(float, "this is no share", _FORM_SHARE)(value)
    if not 0.0005 <= share <= 0.9995:
        raise Unfit("a share is a part of one GPU", f"{_FORM_SHARE}; a whole one is gpus: 1")
    return share


def _text(value: object) -> str:
    """A name may look like a number (`name: 2024`); true and no are more likely slips."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise Unfit("this is no text", "text; in quotes where it could be read as something else")


def _command(value: object) -> str | list[str]:
    if isinstance(value, list | tuple) and value:
        return [_text(part) for part in value]
    if isinstance(value, str):
        return value
    raise Unfit("this can't be run", "a shell line (python train.py) or a list ([python, train.py])")


def _flag(value: object) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    found = value if isinstance(value, bool) else words.get(str(value).lower())
    if found is None:
        raise Unfit("this is neither yes nor no", "true or false")
    return found


def _env(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise Unfit("these are no variables", "NAME: value")
    made = {}
    for name, one in value.items():
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            raise Unfit(f"the value of {name} is no text", f'text in quotes, such as {name}: "1"')
        made[str(name)] = one if isinstance(one, str) else repr(one)
    return made


def _deadline(value: object) -> float | datetime:
    accepts = "a duration after submission (12h) or a time with its zone (2030-01-31T08:00Z)"
    try:
        return _amount(parse_duration, "", "")(value)
    except Unfit:
        pass
    try:
        time = datetime.fromisoformat(str(value).strip())
    except ValueError:
        raise Unfit("this is no deadline", accepts) from None
    if time.tzinfo is None:
        raise Unfit("a time without a zone is another time elsewhere", accepts)
    return time


def _array(value: object) -> tuple[int, ...]:
    accepts = f"{RANGE_FORM}; at most {MOST_TASKS:,}"
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Unfit("these are no indices", accepts)
    try:
        return parse_indices(str(value), MOST_TASKS)
    except ValueError:
        raise Unfit("these are no indices", accepts) from None


def _dependencies(value: object) -> list[dict[str, str]]:
    """A single id, a list of them, or lists under after_ok and after_any."""
    accepts = "ids of jobs, or {after_ok: [ids], after_any: [ids]}"
    named = value if isinstance(value, Mapping) else {When.AFTER_OK: value}
    made = []
    for when, ids in named.items():
        if when not in tuple(When):
            raise Unfit("this is no condition to wait for", accepts)
        for one in ids if isinstance(ids, list | tuple) else [ids]:
            made.append({"job": _text(one), "when": str(when)})
    return made


def _methods(value: object) -> list[str]:
    found = value.replace(",", " ").split() if isinstance(value, str) else value
    if found == ["none"]:
        return []
    if not isinstance(found, list | tuple) or any(one not in SUSPEND_METHODS for one in found):
        raise Unfit("this is no way to suspend a job", "a list of " + ", ".join(SUSPEND_METHODS) + ", or none")
    return list(found)


def _signal(value: object) -> str:
    name = _text(value).upper()
    return name if name.startswith("SIG") else "SIG" + name


def _schema(*kinds: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema(kinds[0] if len(kinds) == 1 else {"anyOf": list(kinds)})


_STRING, _NUMBER, _INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
_TEXTS = {"type": "array", "items": _STRING}
Text = Annotated[str, BeforeValidator(_text), _schema(_STRING)]
Whole = Annotated[int, BeforeValidator(_whole), _schema(_INTEGER)]
Gpus = Annotated[int, BeforeValidator(_gpus), _schema(_INTEGER)]
Flag = Annotated[bool, BeforeValidator(_flag), _schema({"type": "boolean"})]
Duration = Annotated[
    float,
    BeforeValidator(_amount(parse_duration, "this is no duration", DURATION_FORM)),
    _schema(_NUMBER, {**_STRING, "examples": ["2h30m"]}),
]
Size = Annotated[
    float,
    BeforeValidator(_amount(parse_size_mib, "this is no size", SIZE_FORM)),
    _schema(_NUMBER, {**_STRING, "examples": ["16GiB"]}),
]
Cpus = Annotated[
    float, BeforeValidator(_amount(float, "this is no number of CPUs", "a number such as 1.5")), _schema(_NUMBER)
]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_not_given(cls, data: Any) -> Any:
        """`tenant:` with nothing behind it is a line that was left open, not a tenant."""
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, Mapping) else data


class ResourcesDocument(_Document):
    gpus: Gpus | None = None
    gpu_type: Text = ""
    gpu_share: Annotated[float, BeforeValidator(_share), _schema(_NUMBER, _STRING)] | None = None
    gpu_memory: Size | None = None
    cpus: Cpus | None = None
    memory: Size | None = None


class CheckpointDocument(_Document):
    signal: Annotated[str, BeforeValidator(_signal), _schema(_STRING)] = ""
    every: Duration | None = None

    @model_validator(mode="before")
    @classmethod
    def _just_the_signal(cls, data: Any) -> Any:
        return {"signal": data} if isinstance(data, str) else data


class JobDocument(_Document):
    """The fields of a job, as a job file and the API have them."""

    name: Text = ""
    tenant: Text = ""
    resources: ResourcesDocument = Field(default_factory=ResourcesDocument)
    num_nodes: Whole | None = None
    run: Annotated[str | list[str], BeforeValidator(_command), _schema(_STRING, _TEXTS)]
    setup: Text = ""
    env: Annotated[
        dict[str, str],
        BeforeValidator(_env),
        _schema({"type": "object", "additionalProperties": {"anyOf": [_STRING, _NUMBER]}}),
    ] = Field(default_factory=dict)
    workdir: Text = ""
    priority: Whole = 0
    preemptible: Flag = True
    min_gpus: Gpus | None = None
    max_gpus: Gpus | None = None
    time_limit: Duration | None = None
    estimate: Duration | None = None
    deadline: Annotated[float | datetime, BeforeValidator(_deadline), _schema(_NUMBER, _STRING)] | None = None
    topology: Text = ""
    grace_period: Duration = 30.0
    checkpoint: CheckpointDocument = Field(default_factory=CheckpointDocument)
    suspend: Annotated[list[str], BeforeValidator(_methods), _schema(_TEXTS, _STRING)] = list(SUSPEND_METHODS)
    array: Annotated[tuple[int, ...], BeforeValidator(_array), _schema(_INTEGER, _STRING)] = ()
    depends_on: Annotated[
        list[dict[str, str]],
        BeforeValidator(_dependencies),
        _schema(_STRING, _TEXTS, {"type": "object", "additionalProperties": _TEXTS}),
    ] = Field(default_factory=list)

    def spec(self) -> JobSpec:
        asks = self.resources
        deadline = self.deadline
        return JobSpec(
            run=self.run if isinstance(self.run, str) else tuple(self.run),
            name=self.name,
            tenant=self.tenant,
            # an elastic job that names no size of its own is content with its smallest
            gpus=asks.gpus if asks.gpus is not None else max(self.min_gpus or 1, 1),
            gpu_type=asks.gpu_type,
            gpu_share_milli=WHOLE_MILLI if asks.gpu_share is None else round(asks.gpu_share * WHOLE_MILLI),
            gpu_memory_mib=_up(asks.gpu_memory),
            cpu_milli=None if asks.cpus is None else round(asks.cpus * 1000),
            memory_mib=_up(asks.memory),
            num_nodes=self.num_nodes,
            min_gpus=self.min_gpus,
            max_gpus=self.max_gpus,
            setup=self.setup,
            env=dict(self.env),
            workdir=self.workdir,
            priority=self.priority,
            preemptible=self.preemptible,
            suspend=tuple(self.suspend),
            time_limit_s=self.time_limit,
            estimate_s=self.estimate,
            deadline_s=deadline if isinstance(deadline, float) else None,
            deadline_at_s=deadline.timestamp() if isinstance(deadline, datetime) else None,
            topology=self.topology,
            grace_s=self.grace_period,
            checkpoint_signal=self.checkpoint.signal,
            checkpoint_every_s=self.checkpoint.every,
            array=self.array,
            depends_on=tuple(Dependency(one["job"], When(one["when"])) for one in self.depends_on),
        )


def _up(size_mib: float | None) -> int | None:
    return None if size_mib is None else math.ceil(size_mib)


def job_from_document(document: object) -> JobSpec:
    """Raises InputError with the field's path as its column."""
    try:
        return JobDocument.model_validate(document).spec()
    except ValidationError as error:
        raise field_error(error, JobDocument, WORDS) from None


def job_to_document(spec: JobSpec) -> dict[str, Any]:
    """What `job_from_document` reads back to the same spec."""
    waits: dict[str, list[str]] = {}
    for dependency in spec.depends_on:
        waits.setdefault(str(dependency.when), []).append(dependency.job)
    at_s = spec.deadline_at_s
    resources = {
        "gpus": spec.gpus,
        "gpu_type": spec.gpu_type or None,
        "gpu_share": spec.gpu_share_milli / WHOLE_MILLI if spec.gpu_share_milli < WHOLE_MILLI else None,
        "gpu_memory": spec.gpu_memory_mib,
        "cpus": None if spec.cpu_milli is None else spec.cpu_milli / 1000,
        "memory": spec.memory_mib,
    }
    fields = {
        "name": spec.name or None,
        "tenant": spec.tenant or None,
        "resources": _given(resources),
        "num_nodes": spec.num_nodes,
        "run": spec.run if isinstance(spec.run, str) else list(spec.run),
        "setup": spec.setup or None,
        "env": dict(spec.env) or None,
        "workdir": spec.workdir or None,
        "priority": spec.priority or None,
        "preemptible": None if spec.preemptible else False,
        "min_gpus": spec.min_gpus,
        "max_gpus": spec.max_gpus,
        "time_limit": spec.time_limit_s,
        "estimate": spec.estimate_s,
        "deadline": spec.deadline_s if at_s is None else datetime.fromtimestamp(at_s, UTC).isoformat(),
        "topology": spec.topology or None,
        "grace_period": None if spec.grace_s == 30.0 else spec.grace_s,
        "checkpoint": _given({"signal": spec.checkpoint_signal or None, "every": spec.checkpoint_every_s}) or None,
        "suspend": None if spec.suspend == SUSPEND_METHODS else list(spec.suspend),
        "array": write_indices(spec.array) if spec.array else None,
        "depends_on": waits or None,
    }
    return _given(fields)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def job_to_json(spec: JobSpec) -> str:
    return json.dumps(job_to_document(spec), separators=(",", ":"), sort_keys=True)


def job_from_json(text: str) -> JobSpec:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is no JSON: {error}") from None
    return job_from_document(document)
