"""Predicting a duration from a list of those that have ended: every prediction goes through the whole list again."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.workload.trace import Trace

Labels = tuple[object, ...]  #: coarse to fine


def mean(durations: list[float], window: int) -> float:
    return sum(durations) / len(durations)


def moving(durations: list[float], window: int) -> float:
    last = durations[-window:]
    return sum(last) / len(last)


def harmonic(durations: list[float], window: int) -> float:
    return len(durations) / sum(1 / max(duration, 1.0) for duration in durations)


MODELS: dict[str, Callable[[list[float], int], float]] = {"mean": mean, "moving": moving, "harmonic": harmonic}


def labels_of(trace: Trace, job: int) -> Labels:
    """All that the trace has: the user (or else the tenant), the group, the GPUs."""
    names = trace.user if trace.user is not None else trace.tenant
    found: list[object] = [column.codes[job] for column in (names, trace.group) if column is not None]
    share = 1000 if trace.gpu_share_milli is None else int(trace.gpu_share_milli[job])
    return (*found, int(trace.gpus[job]) * share)


class History:
    def __init__(self, model: str, window: int = 10) -> None:
        self.model, self.window = MODELS[model], window
        self.ended: list[tuple[Labels, float]] = []

    def end(self, labels: Labels, duration_s: float) -> None:
        self.ended.append((labels, duration_s))

    def predict(self, labels: Labels) -> float:
        """From those that share most labels with it; 0 where nobody shares the first."""
        for count in range(len(labels), 0, -1):
            alike = [duration_s for other, duration_s in self.ended if other[:count] == labels[:count]]
            if alike:
                return self.model(alike, self.window)
        return 0.0
