"""Profiles in YAML: how fast each kind of job runs where."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import yaml

from fairlead.model.errors import InputError
from fairlead.model.suggest import unknown
from fairlead.sim.profiles import Profile, Profiles

_KEYS = ("speed", "locality", "sharing", "skew", "scale", "utilization", "gpu_memory_gib")
_FORM = (
    "name: {speed: {TYPE: x}, locality: [x, ...], sharing: [x, ...], skew: x, scale: [x, ...], utilization: x,"
    " gpu_memory_gib: x}"
)


def read_profiles(path: Path) -> Profiles:
    """One profile per name; `default` is for jobs that name none."""
    file = str(path)
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"this can't be read: {error.strerror}", file=file) from None
    except UnicodeDecodeError:
        raise InputError("this is not UTF-8", file=file, accepts="text in UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "it can't be parsed"
        raise InputError(f"the YAML is broken: {problem}", file=file, line=mark.line + 1 if mark else None) from None
    if not isinstance(data, dict):
        raise InputError("this is no file of profiles", file=file, accepts=_FORM)
    found = {str(name): _profile(str(name), value, file) for name, value in data.items()}
    default = found.pop("default", Profile())
    return Profiles(found, default)


def _profile(name: str, data: Any, file: str) -> Profile:
    if not isinstance(data, dict):
        raise InputError("a profile is a mapping", file=file, column=name, value=data, accepts=_FORM)
    for key in data:
        if key not in _KEYS:
            raise unknown(f"key of profile {name!r}", str(key), _KEYS, file=file)
    speed = data.get("speed", {})
    if not isinstance(speed, dict):
        raise InputError("speeds go by GPU type", file=file, column=f"{name}.speed", value=speed, accepts="{TYPE: x}")
    return Profile(
        speed={str(kind): _factor(value, file, f"{name}.speed.{kind}") for kind, value in speed.items()},
        locality=_factors(data.get("locality", [1.0]), file, f"{name}.locality"),
        sharing=_factors(data["sharing"], file, f"{name}.sharing") if "sharing" in data else (),
        skew=_share(data.get("skew", 0.0), "a skew", file, f"{name}.skew"),
        scale=_factors(data["scale"], file, f"{name}.scale") if "scale" in data else (),
        utilization=_share(data["utilization"], "a utilisation", file, f"{name}.utilization")
        if "utilization" in data
        else None,
        gpu_memory_gib=_factor(data["gpu_memory_gib"], file, f"{name}.gpu_memory_gib")
        if "gpu_memory_gib" in data
        else None,
    )


def _factors(values: Any, file: str, column: str) -> tuple[float, ...]:
    if not isinstance(values, list) or not values:
        raise InputError("this is no list of factors", file=file, column=column, value=values, accepts="[1.0, 0.8]")
    return tuple(_factor(value, file, f"{column}[{i}]") for i, value in enumerate(values))


def _factor(value: Any, file: str, column: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InputError("this is no factor", file=file, column=column, value=value, accepts="a number above 0")
    return float(value)


def _share(value: Any, what: str, file: str, column: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InputError(f"{what} is a share", file=file, column=column, value=value, accepts="0 to 1")
    return float(value)
