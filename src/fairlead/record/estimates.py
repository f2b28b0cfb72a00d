"""How good predictions of durations were, once the jobs have run."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.record.runs import Floats


def within(estimate_s: Floats, duration_s: Floats, error: float = 0.25) -> float:
    """The share of jobs whose estimate is off by at most this part of their duration."""
    if len(duration_s) == 0:
        return 0.0
    return float(np.mean(np.abs(estimate_s - duration_s) <= error * np.maximum(duration_s, 1.0)))


def prediction_error(estimate_s: Floats, duration_s: Floats, finish_s: Floats) -> dict[str, Any]:
    """Over the jobs that finished: how many were known at all, how many met within 25 %, and the median factor between
    prediction and duration, whichever is larger, of those that were known."""
    done = ~np.isnan(finish_s)
    estimate_s, duration_s = estimate_s[done], duration_s[done]
    known = estimate_s > 0
    told, true = np.maximum(estimate_s[known], 1.0), np.maximum(duration_s[known], 1.0)
    return {
        "known": float(np.mean(known)) if len(known) else 0.0,
        "within_25_percent": within(estimate_s, duration_s),
        "median_factor": float(np.median(np.maximum(told / true, true / told))) if len(told) else None,
    }
