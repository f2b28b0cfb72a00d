"""The shape of a claim's answer: the paper's figures beside ours, the setting, and what differs and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

JCT = ("mean", "p50", "p95")


class Form(StrEnum):
    """How the numbers of a figure are written."""

    ratio = "ratio"
    seconds = "seconds"
    whole = "whole"
    share = "share"


_WRITE = {Form.ratio: "{:.2f}", Form.seconds: "{:,.0f}", Form.whole: "{:,.0f}", Form.share: "{:.1%}"}


@dataclass(frozen=True)
class Ask:
    """What the person asked for. `jobs` cuts or scales the workloads of the trends down, to try them out."""

    data: Path | None = None  #: the folder of public traces; None: generated workloads take their place
    seeds: int = 10
    jobs: int | None = None


@dataclass(frozen=True)
class Figure:
    """A few numbers that belong together, one per name in `parts`; None where the paper has no figure."""

    name: str
    parts: tuple[str, ...]
    paper: tuple[float | None, ...]
    ours: tuple[float, ...]
    sd: tuple[float, ...] | None = None  #: over the seeds
    form: Form = Form.ratio

    def paper_text(self) -> str:
        return " / ".join("–" if value is None else self._write(value) for value in self.paper)

    def ours_text(self) -> str:
        text = " / ".join(self._write(value) for value in self.ours)
        return text if self.sd is None else f"{text} (± {' / '.join(self._write(value) for value in self.sd)})"

    def name_text(self) -> str:
        return f"{self.name}: {' / '.join(self.parts)}" if self.parts != ("",) else self.name

    def to_json(self) -> dict[str, Any]:
        return {
            "figure": self.name,
            "form": self.form.value,
            "parts": list(self.parts),
            "paper": list(self.paper),
            "ours": list(self.ours),
            "sd": None if self.sd is None else list(self.sd),
        }

    def _write(self, value: float) -> str:
        return _WRITE[self.form].format(value)


@dataclass(frozen=True)
class Result:
    """A claim, measured. Only an exact one can fail: `holds` is None for a trend, which is reported as it is."""

    claim: int
    title: str
    setting: str
    figures: tuple[Figure, ...]
    differs: str
    holds: bool | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "claim": self.claim,
            "title": self.title,
            "setting": self.setting,
            "figures": [figure.to_json() for figure in self.figures],
            "differs": self.differs,
            "holds": self.holds,
        }


def over_seeds(
    name: str,
    parts: tuple[str, ...],
    paper: tuple[float | None, ...],
    samples: npt.ArrayLike,
    form: Form = Form.ratio,
) -> Figure:
    """The mean of `samples` (a row per seed, a column per part) and, from two seeds on, their standard deviation."""
    rows = np.asarray(samples, dtype=np.float64).reshape(-1, len(parts))
    sd = tuple(rows.std(axis=0, ddof=1).tolist()) if len(rows) > 1 else None
    return Figure(name, parts, paper, tuple(rows.mean(axis=0).tolist()), sd, form)
