"""The charts of a lived stretch, each with a sentence that says in numbers what there is to see."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fairlead.record.lived_numbers import LivedNumbers, TenantRow
from fairlead.record.report.charts import ChartSpec, SeriesSpec, moments
from fairlead.record.runs import Floats, fold_runs
from fairlead.record.series import fold_cdf, fold_raster
from fairlead.record.spread import Spread
from fairlead.record.steps import Bins, bin_averages
from fairlead.record.story import listed
from fairlead.record.units import count, digits, duration, percent, unit_for

_MOST = 8  #: tenants that are drawn one by one
_UNIT_NAMES = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days"}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_STATES = ("done", "failed", "lost", "refused", "cancelled")
_STATE_TONES = {"done": 2, "failed": 3, "lost": 1, "refused": 4, "cancelled": 9}
DAY_S = 86400.0
_QUARTER_S = 900.0  #: each lies in one hour of the wall's clock, wherever on earth the wall is

#: seconds that the clock on the wall is ahead of UTC at some moment
AheadOfUtc = Callable[[float], float]


@dataclass(frozen=True)
class _Waits:
    """One of the two things that people mean by waiting."""

    tab: str
    meaning: str
    whose: str
    waits_s: Mapping[int, float]
    spread: Spread
    of: Callable[[TenantRow], Spread]


class LivedCharts:
    def __init__(self, numbers: LivedNumbers, ahead_of_utc: AheadOfUtc) -> None:
        self.n, self.lived, self._ahead = numbers, numbers.lived, ahead_of_utc
        order = [self.lived.tenants.index(row.name) for row in numbers.tenants]
        self.shown, self.rest = order[:_MOST], order[_MOST:]
        edges = numbers.bins.edges_s
        self.middle_s: Floats = (edges[1:] + edges[:-1]) / 2

    # -- time ---------------------------------------------------------------------------------------------------------------

    def local(self, at_s: float) -> float:
        return at_s + self._ahead(at_s)

    def wall(self, times_s: Floats) -> Floats:
        ahead: Floats = np.array([self._ahead(float(t)) for t in times_s])
        return times_s + ahead

    def moment(self, at_s: float) -> str:
        return moments([self.local(at_s)])[0].replace("T", " ")[:16]

    def weekday(self, at_s: float) -> str:
        """`Tue 14:00`, or with the date where there is more than one such day."""
        local = self.local(at_s)
        day = _DAYS[int(local // DAY_S + 3) % 7]  # 1970 began on a Thursday
        date, _, time = moments([local])[0].partition("T")
        return f"{day} {time[:5]}" if self.lived.window_s <= 7 * DAY_S else f"{day} {date} {time[:5]}"

    # -- charts -------------------------------------------------------------------------------------------------------------

    def sections(self) -> list[list[ChartSpec]]:
        if not self.lived.jobs:
            return []
        found: list[list[ChartSpec]] = [[self._in_use()]]
        found.append([self._by_tenant(), self._by_user()])
        found.append([self._fair()])
        kinds = [kind for kind in (self._in_all(), self._until_start()) if kind.waits_s]
        if kinds:
            found.append([self._waits_by_tenant(kind) for kind in kinds])
            found.append([self._wait_cdf(kind) for kind in kinds])
        found.append(
            [
                self._queue("jobs", self.n.queued_jobs, "jobs waiting"),
                self._queue("GPUs", self.n.queued_gpus, "GPUs asked for"),
            ]
        )
        if self.n.ended:
            found.append([self._ends()])
        if self.n.reasons:
            found.append([self._reasons(), self._reason_hours()])
        if self.lived.suspensions:
            found.append([self._suspended_tenants(), self._suspended_when()])
        if self.lived.window_s >= 2 * DAY_S:
            found.append([self._busy_hours()])
        narrow = [section for section in found if not section[0].get("wide")]
        if len(narrow) % 2:
            for spec in narrow[-1]:
                spec["wide"] = True
        if self.lived.runs:
            found.append([self._occupancy()])
        return found

    def _stacked(self, values: Floats) -> list[SeriesSpec]:
        """The largest tenants one by one, the others together."""
        x = self.wall(self.middle_s)
        series: list[SeriesSpec] = [
            {"name": self.lived.tenants[tenant], "x": x, "y": values[tenant], "tone": i}
            for i, tenant in enumerate(self.shown)
        ]
        if self.rest:
            others: SeriesSpec = {
                "name": f"{len(self.rest)} others",
                "x": x,
                "y": values[self.rest].sum(axis=0),
                "tone": 9,
            }
            series.append(others)
        return series

    def _over_time(self, title: str, values: Floats, y_title: str, sentence: str) -> ChartSpec:
        return {
            "title": title,
            "sentence": sentence,
            "kind": "line",
            "stack": True,
            "series": self._stacked(values),
            "x_title": "date and time",
            "y_title": y_title,
            "x_scale": "time",
        }

    def _in_use(self) -> ChartSpec:
        n, total, gpus = self.n, self.n.held_gpus.sum(axis=0), self.lived.cluster.gpus
        peak = int(np.argmax(total))
        full = float((total >= 0.99 * gpus).mean())
        sentence = (
            f"On average {digits(float(total.mean()))} of {gpus} GPUs are in use; at most {digits(float(total[peak]))}, "
            f"on {self.weekday(float(self.middle_s[peak]))}. The cluster is full for {percent(full)} of the time; "
            f"each point averages {duration(n.bins.width_s)}."
        )
        spec = self._over_time("GPUs in use", n.held_gpus, "GPUs in use", sentence)
        all_gpus: SeriesSpec = {
            "name": "all GPUs",
            "x": self.wall(self.middle_s),
            "y": np.full(len(total), float(gpus)),
            "apart": True,
        }
        series: list[SeriesSpec] = [*self._stacked(n.held_gpus), all_gpus]
        return {**spec, "series": series, "wide": True}

    def _queue(self, tab: str, values: Floats, y_title: str) -> ChartSpec:
        total = values.sum(axis=0)
        peak = int(np.argmax(total))
        if total[peak] <= 0:
            sentence = f"Nothing waited at any time: 0 {tab}."
        else:
            most = max(range(len(values)), key=lambda tenant: float(values[tenant].sum()))
            share = float(values[most].sum() / total.sum())
            sentence = (
                f"{digits(float(total.mean()))} {y_title} on average; at most {digits(float(total[peak]))}, on "
                f"{self.weekday(float(self.middle_s[peak]))}. {percent(share)} of it is {self.lived.tenants[most]}'s."
            )
        return {**self._over_time("Queue", values, y_title, sentence), "tab": tab}

    def _by_tenant(self) -> ChartSpec:
        rows = self.n.tenants
        total = self.n.held_gpu_s
        top = rows[0]
        sentence = f"{top.name} used {digits(top.held_gpu_s / 3600)} GPU-hours, {percent(top.held_gpu_s / total if total else math.nan)} of what was used"
        if len(rows) > 1:
            sentence += f"; {rows[-1].name} used least, {digits(rows[-1].held_gpu_s / 3600)}"
        return {
            "title": "Use",
            "tab": "by tenant",
            "sentence": sentence + ".",
            "kind": "bar",
            "x": [row.name for row in rows],
            "y": [row.held_gpu_s / 3600 for row in rows],
            "x_title": "tenant",
            "y_title": "GPU-hours held",
        }

    def _by_user(self) -> ChartSpec:
        users = [(name, gpu_s) for name, gpu_s in self.n.users_gpu_s.items()]
        shown, total = users[:12], sum(gpu_s for _, gpu_s in users)
        top, gpu_s = shown[0]
        sentence = f"{top} used most, {digits(gpu_s / 3600)} GPU-hours: {percent(gpu_s / total if total else math.nan)} of what was used."
        if len(users) > len(shown):
            sentence += f" Shown are {len(shown)} of {len(users):,} users."
        return {
            "title": "Use",
            "tab": "by user",
            "sentence": sentence,
            "kind": "bar",
            "x": [name for name, _ in shown],
            "y": [gpu_s / 3600 for _, gpu_s in shown],
            "x_title": "user",
            "y_title": "GPU-hours held",
        }

    def _fair(self) -> ChartSpec:
        rows = [row for row in self.n.tenants if row.fair_gpu_s > 0 or row.held_gpu_s > 0]
        off = [row for row in rows if row.fair_gpu_s > 0]
        sentence = "Nobody asked for a GPU: 0 GPU-hours."
        if off:
            low, high = (pick(off, key=lambda row: row.held_gpu_s / row.fair_gpu_s) for pick in (min, max))
            sentence = f"{high.name} got {percent(high.held_gpu_s / high.fair_gpu_s)} of its fair share"
            if low is not high:
                sentence += f", {low.name} {percent(low.held_gpu_s / low.fair_gpu_s)}"
            sentence += f"; Jain's index over all is {self.n.jain_index:.2f} (1 is perfectly even)."
        sentence += (
            " A fair share is what a division by weights would have given, of what was asked for at each moment."
        )
        return {
            "title": "Fair share against actual share",
            "sentence": sentence,
            "kind": "bar",
            "x": [row.name for row in rows],
            "series": [
                {"name": "fair share", "y": [row.fair_gpu_s / 3600 for row in rows], "tone": 11},
                {"name": "actual", "y": [row.held_gpu_s / 3600 for row in rows], "tone": 0},
            ],
            "x_title": "tenant",
            "y_title": "GPU-hours",
        }

    def _in_all(self) -> _Waits:
        return _Waits(
            "in all",
            "in the queue in all",
            "of jobs that ended",
            self.lived.waits_s,
            self.n.wait_s,
            lambda row: row.wait_s,
        )

    def _until_start(self) -> _Waits:
        return _Waits(
            "first start",
            "until the first start",
            "of jobs that started",
            self.lived.starts_s,
            self.n.start_wait_s,
            lambda row: row.start_wait_s,
        )

    def _waits_by_tenant(self, kind: _Waits) -> ChartSpec:
        rows = [row for row in self.n.tenants if math.isfinite(kind.of(row).p50)]
        unit, size = unit_for(max(kind.of(row).p95 for row in rows))
        worst = max(rows, key=lambda row: kind.of(row).p95)
        best = min(rows, key=lambda row: kind.of(row).p95)
        sentence = f"95 % of {worst.name}'s jobs wait at most {duration(kind.of(worst).p95)} {kind.meaning}"
        if best is not worst:
            sentence += f", the longest of all; {best.name}'s at most {duration(kind.of(best).p95)}"
        return {
            "title": "Waits by tenant",
            "tab": kind.tab,
            "sentence": sentence + ".",
            "kind": "bar",
            "x": [row.name for row in rows],
            "series": [
                {"name": "median", "y": [kind.of(row).p50 / size for row in rows], "tone": 11},
                {"name": "p95", "y": [kind.of(row).p95 / size for row in rows], "tone": 0},
            ],
            "x_title": "tenant",
            "y_title": f"wait {kind.meaning}, {_UNIT_NAMES[unit]}",
        }

    def _wait_cdf(self, kind: _Waits) -> ChartSpec:
        waits = np.array(list(kind.waits_s.values()))
        at_once = float((waits < 1.0).mean())
        series: list[SeriesSpec] = []
        rows = [row for row in self.n.tenants if math.isfinite(kind.of(row).p50)][: _MOST - 1]
        for tone, row in enumerate(rows if len(rows) > 1 else []):
            mine = [wait for job, wait in kind.waits_s.items() if self.lived.jobs[job].tenant == row.name]
            curve = fold_cdf(np.array(mine))
            series.append({"name": row.name, "x": curve.value, "y": curve.share, "tone": tone})
        curve = fold_cdf(waits)
        series.append({"name": "all", "x": curve.value, "y": curve.share, "tone": 9})
        return {
            "title": "How long jobs wait",
            "tab": kind.tab,
            "sentence": f"{percent(at_once)} {kind.whose} ({len(waits):,}) wait less than a second {kind.meaning}, half at most "
            f"{duration(kind.spread.p50)} and 95 % at most {duration(kind.spread.p95)}.",
            "kind": "cdf",
            "series": series,
            "x_title": f"wait {kind.meaning}",
            "y_title": f"share {kind.whose}",
            "x_scale": "duration",
        }

    # -- by day or hour -----------------------------------------------------------------------------------------------------

    def _slots(self) -> tuple[list[str], Callable[[float], int], str]:
        """Names of the days, or hours of a shorter stretch; which one a moment is in; what one is."""
        size = DAY_S if self.lived.window_s >= 3 * DAY_S else 3600.0 if self.lived.window_s >= 3 * 3600.0 else 300.0
        first = int(self.local(self.lived.begin_s) // size)
        last = max(int(self.local(self.lived.end_s) // size), first)
        times = moments([slot * size for slot in range(first, last + 1)])
        if size == DAY_S:
            names = [f"{_DAYS[(first + i + 3) % 7]} {time[5:10]}" for i, time in enumerate(times)]
        else:
            names = [time[5:16].replace("T", " ") for time in times]
        what = {DAY_S: "day", 3600.0: "hour"}.get(size, "five minutes")
        return names, lambda at_s: min(max(int(self.local(at_s) // size) - first, 0), last - first), what

    def _ends(self) -> ChartSpec:
        names, slot_of, what = self._slots()
        states = [state for state in _STATES if state in self.n.states]
        counts = {state: [0] * len(names) for state in states}
        for i in self.lived.ended():
            job = self.lived.jobs[i]
            assert job.finished_s is not None
            if job.state in counts:
                counts[job.state][slot_of(job.finished_s)] += 1
        done = self.n.states.get("done", 0)
        total = [sum(counts[state][i] for state in states) for i in range(len(names))]
        busiest = total.index(max(total))
        others = [f"{self.n.states[state]:,} {state}" for state in states if state != "done"]
        sentence = f"{done:,} of {count(self.n.ended, 'job')} ended well"
        sentence += f"; {listed(others, 4, 'more')}" if others else ""
        sentence += f". Most ended on {names[busiest]}: {total[busiest]:,}."
        series: list[SeriesSpec] = [
            {"name": state, "x": names, "y": counts[state], "tone": _STATE_TONES[state]} for state in states
        ]
        return {
            "title": "How jobs ended",
            "sentence": sentence,
            "kind": "bar",
            "stack": True,
            "series": series,
            "x_title": what,
            "y_title": "jobs",
        }

    def _reasons(self) -> ChartSpec:
        reasons = self.n.reasons
        why, most = next(iter(reasons.items()))
        return {
            "title": "Why jobs failed or were refused",
            "tab": "jobs",
            "sentence": f"{count(sum(reasons.values()), 'job')} in all; most often {why}, {most:,} times.",
            "kind": "bar",
            "x": list(reasons),
            "y": list(reasons.values()),
            "x_title": "why",
            "y_title": "jobs",
        }

    def _reason_hours(self) -> ChartSpec:
        hours = {why: self.n.reason_gpu_s[why] / 3600 for why in self.n.reasons}
        worst = max(hours, key=lambda why: hours[why])
        total = sum(hours.values())
        part = percent(total * 3600 / self.n.held_gpu_s) if self.n.held_gpu_s else "–"
        return {
            "title": "Why jobs failed or were refused",
            "tab": "GPU-hours",
            "sentence": f"They had held {digits(total)} GPU-hours, {part} of what was used; most of it by {worst}, {digits(hours[worst])}.",
            "kind": "bar",
            "x": list(hours),
            "y": list(hours.values()),
            "x_title": "why",
            "y_title": "GPU-hours that they had held",
        }

    def _suspended_tenants(self) -> ChartSpec:
        rows = [row for row in self.n.tenants if row.suspensions]
        most = max(rows, key=lambda row: row.suspensions)
        whys = list(dict.fromkeys(one.why for one in self.lived.suspensions))
        counts = Counter((self.lived.jobs[one.job].tenant, one.why) for one in self.lived.suspensions)
        jobs = len({one.job for one in self.lived.suspensions})
        series: list[SeriesSpec] = [
            {
                "name": why or "by the policy",
                "x": [row.name for row in rows],
                "y": [counts[row.name, why] for row in rows],
            }
            for why in whys
        ]
        return {
            "title": "Suspensions by the policy",
            "tab": "by tenant",
            "sentence": f"{count(jobs, 'job was', 'jobs were')} taken off GPUs {len(self.lived.suspensions):,} times in all; "
            f"most often {most.name}'s, {most.suspensions:,} times.",
            "kind": "bar",
            "stack": True,
            "series": series,
            "x_title": "tenant",
            "y_title": "suspensions",
        }

    def _suspended_when(self) -> ChartSpec:
        names, slot_of, what = self._slots()
        counts = [0] * len(names)
        for one in self.lived.suspensions:
            counts[slot_of(one.time_s)] += 1
        most = counts.index(max(counts))
        return {
            "title": "Suspensions by the policy",
            "tab": f"by {what}",
            "sentence": f"Most were on {names[most]}: {counts[most]:,} of {sum(counts):,}.",
            "kind": "bar",
            "x": names,
            "y": counts,
            "x_title": what,
            "y_title": "suspensions",
        }

    def _busy_hours(self) -> ChartSpec:
        z = self._in_use_by_hour()
        high, low = (np.unravel_index(pick(z), z.shape) for pick in (np.nanargmax, np.nanargmin))
        return {
            "title": "When the cluster is busy",
            "sentence": f"Fullest on {_DAYS[int(high[0])]} at {int(high[1])}:00 with {percent(float(z[high]))} of the GPUs in use, emptiest on "
            f"{_DAYS[int(low[0])]} at {int(low[1])}:00 with {percent(float(z[low]))}.",
            "kind": "heatmap",
            "x": list(range(24)),
            "y": list(_DAYS),
            "z": z,
            "x_title": "hour of the day",
            "y_title": "day of the week",
            "z_title": "in use",
            "z_scale": "percent",
        }

    def _in_use_by_hour(self) -> Floats:
        """The part of all GPU-time that was in use, by day of the week and hour; NaN for hours that the stretch has none of."""
        lived = self.lived
        first, last = math.floor(lived.begin_s / _QUARTER_S), math.ceil(lived.end_s / _QUARTER_S)
        bins = Bins(first * _QUARTER_S, last * _QUARTER_S, last - first)
        sizes = np.array([run.gpus for run in lived.runs])
        times = np.array([run.begin_s for run in lived.runs] + [run.end_s for run in lived.runs])
        held = np.maximum(bin_averages(times, np.concatenate([sizes, -sizes]), bins), 0.0)
        edges = bins.edges_s
        there_s = np.minimum(edges[1:], lived.end_s) - np.maximum(edges[:-1], lived.begin_s)
        local = self.wall((edges[1:] + edges[:-1]) / 2)
        day, hour = ((local // DAY_S).astype(int) + 3) % 7, (local % DAY_S // 3600).astype(int)
        held_s, all_s = np.zeros((7, 24)), np.zeros((7, 24))
        np.add.at(held_s, (day, hour), held * bins.width_s)
        np.add.at(all_s, (day, hour), there_s * max(lived.cluster.gpus, 1))
        part: Floats = np.divide(held_s, all_s, out=np.full((7, 24), np.nan), where=all_s > 0)
        return part

    def _occupancy(self) -> ChartSpec:
        journal = self.lived.journal()
        raster = fold_raster(journal, fold_runs(journal))
        edges = raster.bins.edges_s
        free = float((raster.codes == raster.FREE).mean())
        return {
            "title": "Who held which GPU when",
            "sentence": f"{percent(free)} of the map is free. A row is a {raster.row_is}; a colour is a tenant; empty is free.",
            "kind": "heatmap",
            "x": self.wall((edges[1:] + edges[:-1]) / 2),
            "x_scale": "time",
            "y": raster.row_names,
            "z": raster.codes,
            "categories": ["free", "down", *raster.names],
            "x_title": "date and time",
            "wide": True,
        }
