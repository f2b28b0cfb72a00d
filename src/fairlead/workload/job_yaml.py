"""Jobs in: a YAML file, or the words of a command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.model.errors import InputError
from fairlead.model.job import JobSpec
from fairlead.workload.job_document import JobDocument, ResourcesDocument, job_from_document
from fairlead.workload.yaml_text import YamlText

_EXAMPLE = "fields such as run: python train.py and resources: {gpus: 1}"


def read_job_file(
    path: Path, options: Mapping[str, object] | None = None, command: Sequence[str] = (), *, base: Path | None = None
) -> JobSpec:
    """A job file, with options and a command of the command line over what it says. See `job_from_options`."""
    return _job(YamlText.read(path), options or {}, command, base)


def parse_job(text: str, file: str | None = None, *, base: Path | None = None) -> JobSpec:
    return _job(YamlText(text, file), {}, (), base)


def job_from_options(
    command: Sequence[str], options: Mapping[str, object] | None = None, *, base: Path | None = None
) -> JobSpec:
    """`--gpus 2 --env A=1 -- python train.py`: options by the names of the job file's fields, those of `resources` too.

    An option of None was not given. `env` may be a list of NAME=value; `checkpoint_signal` and `checkpoint_every` are
    `checkpoint`'s. A relative working directory begins at `base`. An error names the option as it was written.
    """
    return _job(None, options or {}, command, base)


def _job(text: YamlText | None, options: Mapping[str, object], command: Sequence[str], base: Path | None) -> JobSpec:
    document: object = {} if text is None else text.data
    if not isinstance(document, dict):
        raise InputError("this is no job file", file=None if text is None else text.file, accepts=_EXAMPLE)
    merged, given = _merge(document, options, command)
    _at_base(merged, base)
    try:
        return job_from_document(merged)
    except InputError as error:
        raise _named(error, text, given) from None


def _merge(
    document: Mapping[str, Any], options: Mapping[str, object], command: Sequence[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The document with the options in it, and by which option each field was set."""
    merged = dict(document)
    given: dict[str, str] = {}
    for name, value in options.items():
        if value is None:
            continue
        option = "--" + name.replace("_", "-")
        outer, _, inner = name.partition("_")
        if outer == "checkpoint" and inner:
            outer, inner = "checkpoint", inner
        elif name in ResourcesDocument.model_fields:
            outer, inner = "resources", name
        elif name in JobDocument.model_fields:
            outer, inner = name, ""
        else:
            raise InputError("there is no such option of a job", column=option)
        if name == "env" and isinstance(value, list | tuple):
            value = {**_mapping(merged.get("env")), **_variables(value, option)}
        if inner:
            merged[outer] = {**_mapping(merged.get(outer)), inner: value}
        else:
            merged[outer] = value
        given[f"{outer}.{inner}" if inner else outer] = option
    if command:
        merged["run"] = list(command)
        given["run"] = "the command"
    return merged, given


def _mapping(value: object) -> dict[str, Any]:
    if isinstance(value, str):  # `checkpoint: SIGUSR1`
        return {"signal": value}
    return dict(value) if isinstance(value, Mapping) else {}


def _variables(pairs: Sequence[object], option: str) -> dict[str, str]:
    made = {}
    for pair in pairs:
        name, equals, value = str(pair).partition("=")
        if not equals:
            # `--env NAME` passes on the variable that is set here, as docker and kubectl do
            if name not in os.environ:
                raise InputError("the variable is not set here", column=option, value=name, accepts="NAME=value")
            value = os.environ[name]
        made[name] = value
    return made


def _at_base(document: dict[str, Any], base: Path | None) -> None:
    folder = document.get("workdir")
    if base is not None and (folder is None or isinstance(folder, str)):
        document["workdir"] = str((base / Path(folder or ".").expanduser()).resolve())


def _named(error: InputError, text: YamlText | None, given: Mapping[str, str]) -> InputError:
    """Say the option where one set the field, the file and line where the file did."""
    option = given.get(error.column or "")
    if option is not None:
        return InputError(error.what, file=option, value=error.value, accepts=error.accepts)
    return text.located(error) if text is not None else error
