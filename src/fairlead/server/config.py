"""Settings, and who said so: flags, then the environment, the project's file, the user's file, and what is built in.

A key is the same everywhere: `port` in a file, `FAIRLEAD_PORT` in the environment, `--port` on the command line.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from fairlead.model.errors import InputError
from fairlead.model.hosts import is_loopback
from fairlead.model.suggest import unknown
from fairlead.model.units import DURATION_FORM, SIZE_FORM, parse_duration, parse_size_mib
from fairlead.workload.yaml_text import YamlText

PREFIX = "FAIRLEAD_"
PROJECT_FILE = "fairlead.yaml"
USER_FILE = "fairlead/config.yaml"
DAY_S = 86400.0


@dataclass(frozen=True)
class Reading:
    """How the text of a setting becomes its value; `parse` raises ValueError for what it does not take."""

    parse: Callable[[str], Any]
    accepts: str


def _count(least: int, most: int = 2**31 - 1) -> Reading:
    def parse(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise ValueError(text)
        return value

    return Reading(parse, f"a whole number from {least} to {most}" if most < 2**31 - 1 else f"{least} or more")


def _rate(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise ValueError(text)
    return value


def _flag(text: str) -> bool:
    return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[text.lower()]


def _bytes(text: str) -> int:
    size = round(parse_size_mib(text) * 2**20)
    if size < 1:
        raise ValueError(text)
    return size


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError(text)
    return Path(text).expanduser()


def _some(text: str) -> str:
    if not text.strip():
        raise ValueError(text)
    return text.strip()


def _one_of(*words: str) -> Reading:
    return Reading({word: word for word in words}.__getitem__, f"{', '.join(words[:-1])} or {words[-1]}")


TEXT = Reading(_some, "text")
PATH = Reading(_path, "a path")
FLAG = Reading(_flag, "true or false")
DURATION = Reading(parse_duration, DURATION_FORM)
BYTES = Reading(_bytes, SIZE_FORM)
RATE = Reading(_rate, "a number above 0")
RUN_AS = _one_of("submitter", "self")


@dataclass(frozen=True)
class Config:
    """What `fairlead up` and the commands that talk to it go by. A path of None stands for one in `state_dir`."""

    state_dir: Path
    bind: str = "127.0.0.1"
    port: int = 7878
    server: str | None = None
    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    allow_public: bool = False
    engine: str = "local"
    partition: str = ""
    slurm_mode: str = "jobs"
    address: str = "auto"
    ray_python: str = ""
    ray_fence: float = 90.0
    poll: float = 2.0
    start_cost: float = 0.0
    resume_cost: float = 0.0
    shadow: bool = False
    cluster: str | None = None
    gpus: int | None = None
    nodes: int = 1
    run_as: str = "submitter"
    policy: str = "fifo-backfill"
    placer: str = "consolidate"
    store: str | None = None
    log_dir: Path | None = None
    log_retention: float = 30 * DAY_S
    log_size: int = 2**30
    job_retention: float = 90 * DAY_S
    job_keep: int = 100_000
    max_request: int = 2**20
    max_jobs: int = 100_000
    max_jobs_per_user: int = 20_000
    max_array: int = 10_000
    max_upload: int = 64 * 2**20
    studio_time: float = 600.0
    studio_memory: int = 4 * 2**30
    request_rate: float = 500.0
    request_burst: int = 2_000
    #: by which option, variable or file each setting that is not built in was made
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def store_url(self) -> str:
        return self.store or str(self.state_dir / "fairlead.db")

    @property
    def logs(self) -> Path:
        return self.log_dir or self.state_dir / "logs"

    @property
    def token_path(self) -> Path:
        return self.token_file or self.state_dir / "token"

    @property
    def server_url(self) -> str:
        if self.server:
            return self.server.rstrip("/")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.bind, self.bind)
        host = f"[{host}]" if ":" in host else host
        return f"{'https' if self.tls_cert else 'http'}://{host}:{self.port}"

    def check_bind(self) -> None:
        """Whoever listens beyond this machine does so with TLS, or says that it shall be so without."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InputError("TLS needs both a certificate and its key", accepts="tls_cert and tls_key, or neither")
        if self.tls_cert is None and not self.allow_public and not is_loopback(self.bind):
            raise InputError(
                "tokens would cross the network in the clear",
                file=self.sources.get("bind"),
                column="bind",
                value=self.bind,
                accepts="127.0.0.1, or tls_cert and tls_key, or allow_public: true where something else encrypts",
            )


#: how each is read, and what it does
_TABLE: Mapping[str, tuple[Reading, str]] = {
    "state_dir": (PATH, "where the store, logs and tokens are kept"),
    "bind": (TEXT, "the address to listen on"),
    "port": (_count(0, 65535), "the port to listen on; 0 for any that is free"),
    "server": (TEXT, "where commands find the scheduler; made of bind and port otherwise"),
    "token_file": (PATH, "where commands find their token"),
    "tls_cert": (PATH, "a certificate in PEM, to listen with TLS"),
    "tls_key": (PATH, "its key"),
    "allow_public": (FLAG, "listen beyond this machine without TLS"),
    "engine": (_one_of("local", "slurm", "ray"), "who carries decisions out: local, slurm or ray"),
    "partition": (TEXT, "slurm: the partition that is handed to fairlead"),
    "slurm_mode": (_one_of("jobs", "pilot"), "slurm: a Slurm job for each run, or steps of allocations held for good"),
    "address": (TEXT, "ray: the cluster's address, HOST:PORT"),
    "ray_python": (TEXT, "ray: a Python that has Ray, of the cluster's version; the scheduler's own, if not"),
    "ray_fence": (DURATION, "ray: how long after a node's death its processes are certain to be gone"),
    "poll": (DURATION, "how often an engine is asked how things stand"),
    "start_cost": (DURATION, "what a start takes until the job's processes run: not counted as service, and foreseen"),
    "resume_cost": (DURATION, "the same of a job that goes on after a suspension"),
    "shadow": (FLAG, "watch the engine, record what would be decided, and touch nothing"),
    "cluster": (TEXT, "what there is to schedule: a shape or a cluster file; what is found, if not"),
    "gpus": (_count(0), "declare so many virtual GPUs here instead of looking for real ones"),
    "nodes": (_count(1, 10_000), "on so many virtual nodes, each with that many GPUs"),
    "run_as": (RUN_AS, "who jobs run as where the scheduler runs as root: submitter, or self"),
    "policy": (TEXT, "who runs: NAME[:key=value,...]"),
    "placer": (TEXT, "where: NAME[:key=value,...]"),
    "store": (TEXT, "a path or postgresql://...; fairlead.db in state_dir, if not"),
    "log_dir": (PATH, "where jobs' output goes; logs in state_dir, if not"),
    "log_retention": (DURATION, "how long the output of a finished job is kept"),
    "log_size": (BYTES, "how much output of one job is kept"),
    "job_retention": (DURATION, "how long a finished job is remembered"),
    "job_keep": (_count(0), "and how many of them at most"),
    "max_request": (BYTES, "the largest request that is read"),
    "max_jobs": (_count(1), "how many jobs may wait and run at once"),
    "max_jobs_per_user": (_count(1), "and how many of one user"),
    "max_array": (_count(1, 100_000), "the largest array"),
    "max_upload": (BYTES, "the largest trace that may be uploaded"),
    "studio_time": (DURATION, "how long one simulation of the dashboard's studio may take"),
    "studio_memory": (BYTES, "and how much memory it may have"),
    "request_rate": (RATE, "requests a second that one token may make"),
    "request_burst": (_count(1), "and how many at once"),
}
SETTINGS: Mapping[str, Reading] = {name: reading for name, (reading, _) in _TABLE.items()}
#: variables that mean something else: to commands, to the compiler's cache, to a job that was started by the scheduler
_OTHERS = ("TOKEN", "CACHE_DIR", "TRACEBACK", "BENCH_JOBS", "CONFIG", "BROWSER")
_OF_JOBS = ("JOB", "RUN", "ARRAY", "NODE", "RANK", "TENANT", "GPU_", "LOG_FILE", "CHECKPOINT")


def load_config(
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Config:
    """Every layer that there is, the strongest first. A flag of None was not given. `folder` is where a project's file is looked
    for; `FAIRLEAD_CONFIG` (or the flag `config`) names another one instead."""
    environ = os.environ if environ is None else environ
    flags = {key: value for key, value in (flags or {}).items() if value is not None}
    named = flags.pop("config", None) or environ.get(PREFIX + "CONFIG")
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer in (_from_flags(flags), _from_environment(environ), *_from_files(environ, folder, named)):
        for key, (value, source) in layer.items():
            if key not in values:
                values[key], sources[key] = value, source
    values.setdefault("state_dir", _xdg(environ, "XDG_STATE_HOME", ".local/state") / "fairlead")
    return Config(**values, sources=sources)


def strange_variables(environ: Mapping[str, str]) -> list[str]:
    """Sentences about variables that look like misspelt settings. Not errors: other tools may set what they like."""
    told = []
    for name in sorted(environ):
        key = name.removeprefix(PREFIX)
        known = key.lower() in SETTINGS or key in _OTHERS or key.startswith(_OF_JOBS)
        if name.startswith(PREFIX) and not known:
            near = difflib.get_close_matches(key.lower(), SETTINGS, n=1)
            if near:
                told.append(f"{name} is no setting; did you mean {PREFIX}{near[0].upper()}?")
    return told


Layer = dict[str, tuple[Any, str]]


def _from_flags(flags: Mapping[str, object]) -> Layer:
    made: Layer = {}
    for key, value in flags.items():
        if key not in SETTINGS:
            raise unknown("setting", key, SETTINGS)
        option = "--" + key.replace("_", "-")
        made[key] = _read(key, value, InputError("", file=option)), option
    return made


def _from_environment(environ: Mapping[str, str]) -> Layer:
    made: Layer = {}
    for key in SETTINGS:
        name = PREFIX + key.upper()
        if environ.get(name):  # a variable set to nothing is not set
            made[key] = _read(key, environ[name], InputError("", file=name)), name
    return made


def _from_files(environ: Mapping[str, str], folder: Path | None, named: object) -> list[Layer]:
    project = Path(str(named)) if named else (folder or Path.cwd()) / PROJECT_FILE
    user = _xdg(environ, "XDG_CONFIG_HOME", ".config") / USER_FILE
    return [_from_file(path) for path in (project, user) if path.exists() or (named and path is project)]


def _from_file(path: Path) -> Layer:
    text = YamlText.read(path)
    data = {} if text.data is None else text.data
    if not isinstance(data, dict):
        raise InputError("this is no file of settings", file=str(path), accepts="lines such as port: 7878")
    made: Layer = {}
    for key, value in data.items():
        where = InputError("", file=str(path), line=text.line((str(key),)), column=str(key))
        if key not in SETTINGS:
            found = unknown("setting", str(key), SETTINGS)
            raise InputError(found.what, file=where.file, line=where.line, column=where.column, accepts=found.accepts)
        if value is not None:
            read = _read(key, value, where)
            # a path in a file is seen from the file
            made[key] = (path.parent / read if isinstance(read, Path) else read), str(path)
    return made


def _read(key: str, value: object, where: InputError) -> Any:
    reading = SETTINGS[key]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, str | int | float | Path):
        try:
            return reading.parse(text)
        except (ValueError, KeyError):
            pass
    raise InputError(
        f"{key} can't be that",
        file=where.file,
        line=where.line,
        column=where.column,
        value=value,
        accepts=reading.accepts,
    )


def _xdg(environ: Mapping[str, str], name: str, default: str) -> Path:
    """The base folder by the XDG rules: a relative path in the variable does not count."""
    given = Path(environ.get(name, ""))
    if given.is_absolute():
        return given
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / default


def described() -> list[tuple[str, str, str]]:
    """Each setting, what is built in, and what it does: for the docs and `config`."""
    built_in = {one.name: one.default for one in fields(Config)}
    return [
        (name, "" if built_in[name] in (MISSING, None) else str(built_in[name]), says)
        for name, (_, says) in _TABLE.items()
    ]
