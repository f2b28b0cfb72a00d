"""What Slurm's commands print, as data. Tolerant: fields came, went and changed their form from version to version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_UNLIMITED = ("UNLIMITED", "INFINITE", "NOT_SET", "N/A", "PARTITION_LIMIT")


def number(value: object) -> float | None:
    """Of JSON: a plain number up to 22.05, {"set", "infinite", "number"} later. None where none is set."""
    if isinstance(value, Mapping):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def whole(value: object, default: int = 0) -> int:
    found = number(value)
    return default if found is None else int(found)


def words(value: object) -> frozenset[str]:
    """A state and its flags: "IDLE", ["IDLE", "DRAIN"], "IDLE+DRAIN", "down*"."""
    if isinstance(value, str):
        value = re.split(r"[+,]", value)
    if not isinstance(value, list | tuple):
        return frozenset()
    return frozenset(str(word).strip().upper().rstrip("*~#!%$@^-") for word in value if str(word).strip())


def hosts(text: str) -> list[str]:
    """`node[1-3,07-09],x2` as names; several brackets in one name multiply."""
    found: list[str] = []
    for one in _split(text):
        found += _expand(one)
    return found


def _split(text: str) -> Iterator[str]:
    """At commas that are outside of brackets."""
    depth, start = 0, 0
    for i, c in enumerate(text):
        depth += (c == "[") - (c == "]")
        if c == "," and not depth:
            yield text[start:i]
            start = i + 1
    if text[start:] and text not in ("(null)", "None"):
        yield text[start:]


def _expand(name: str) -> list[str]:
    found = re.match(r"([^\[]*)\[([^\]]*)\](.*)", name)
    if found is None:
        return [name]
    head, ranges, tail = found.groups()
    ends = _expand(tail)
    names = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        width = len(first)
        for i in range(int(first), int(last or first) + 1):
            names += [f"{head}{i:0{width}d}{end}" for end in ends]
    return names


def indices(text: str) -> list[int]:
    """Of an array: `0-9:2,15%4`."""
    found: list[int] = []
    for part in text.partition("%")[0].strip("[]").split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part.strip())
        if match:
            first, last, step = match.groups()
            found += range(int(first), int(last or first) + 1, int(step or 1))
    return found


def gres_gpus(text: str) -> tuple[int, str]:
    """How many GPUs, of which type: `gpu:v100:8(S:0-1)`, `gres:gpu:2`, `gpu:4`, `gpu`. Several entries add up; of several
    types there is none to name."""
    total = 0
    types = set()
    for entry in re.split(r",(?![^(]*\))", text or ""):
        found = re.fullmatch(
            r"(?:gres[:/])?gpu(?:[:/](?P<type>[A-Za-z_][\w.\-]*))?(?:[:=](?P<n>\d+))?(?:\(.*\))?", entry.strip()
        )
        if found:
            total += int(found["n"] or 1)
            types.add(found["type"] or "")
    return total, types.pop() if len(types) == 1 else ""


def tres(text: str) -> dict[str, str]:
    """`cpu=4,mem=2G,node=1,gres/gpu=2` as a table."""
    return dict(part.partition("=")[::2] for part in (text or "").split(",") if "=" in part)


def memory_mib(text: str) -> int | None:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)[CN]?", (text or "").strip().upper().rstrip("B"))
    if not found:
        return None
    scale = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}[found[2]]
    return int(float(found[1]) * scale)


def duration_s(text: str) -> float | None:
    """`minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours[:minutes[:seconds]]`."""
    text = (text or "").strip()
    if not text or text.upper() in _UNLIMITED or not re.fullmatch(r"[\d:\-]+", text):
        return None
    days, dash, rest = text.rpartition("-")
    parts = [int(part or 0) for part in rest.split(":")]
    if dash:
        parts += [0] * (3 - len(parts))
    elif len(parts) == 1:
        parts = [0, parts[0], 0]
    elif len(parts) == 2:
        parts = [0, *parts]
    return float(int(days or 0) * 86400 + parts[0] * 3600 + parts[1] * 60 + parts[2])


def exit_status(value: object) -> tuple[int | None, int | None]:
    """(code, signal) from `1:9`, or from JSON's {"return_code", "signal": {"signal_id" | "id"}}."""
    if isinstance(value, Mapping):
        sent = value.get("signal")
        signum = whole(sent.get("signal_id", sent.get("id"))) if isinstance(sent, Mapping) else whole(sent)
        return (None, signum) if signum else (whole(value.get("return_code")), None)
    code, _, signum_text = str(value).partition(":")
    if signum_text.isdigit() and int(signum_text):
        return None, int(signum_text)
    return (int(code) if code.isdigit() else None), None


def pairs(text: str) -> dict[str, str]:
    """One line of `scontrol -o show`: KEY=VALUE, where a value may hold blanks and equal signs."""
    found = re.split(r"(?:^|\s)([A-Z][A-Za-z/:_]*)=", text.strip())
    return {key: value.strip() for key, value in zip(found[1::2], found[2::2], strict=False)}


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
