"""From a chart's description to the plain data that plotly.js draws. No plotly in Python: its objects are
slow.

Colours are not chosen here. A trace only says which of the page's tones it wants (`meta.tone`), so that the
page can paint it for light and for dark.
"""

from __future__ import annotations

import base64
import html
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt

Scale = Literal["linear", "log", "duration", "percent", "category", "time"]

#: where a logarithmic axis of seconds is labelled
_DURATION_TICKS = (
    (0.001, "1 ms"),
    (0.01, "10 ms"),
    (0.1, "0.1 s"),
    (1, "1 s"),
    (10, "10 s"),
    (60, "1 min"),
    (600, "10 min"),
    (3600, "1 h"),
    (36000, "10 h"),
    (86400 * 4, "4 d"),
    (86400 * 30, "30 d"),
    (86400 * 365, "1 y"),
)


_LONGEST = 28


class SeriesSpec(TypedDict, total=False):
    name: str
    x: Sequence[Any] | npt.NDArray[Any]  #: the chart's own x where left out
    y: Sequence[Any] | npt.NDArray[Any]
    tone: int  #: colour; the position where left out
    apart: bool  #: a line that is not stacked on the others: what there is in all


class _Needed(TypedDict):
    title: str
    kind: Literal["cdf", "bar", "line", "heatmap"]


class ChartSpec(_Needed, total=False):
    """`x` with `y` for one series, or `series` for several. `tabs` holds several charts of which one shows
    at a time."""

    sentence: str  #: what to see, with numbers
    x: Sequence[Any] | npt.NDArray[Any]
    y: Sequence[Any] | npt.NDArray[Any]
    series: Sequence[SeriesSpec] | Mapping[str, Sequence[Any]]
    x_title: str
    y_title: str
    #: `duration` is logarithmic in seconds and labelled in people's units; a cdf's x is `log` unless said
    #: otherwise; `time` is seconds since 1970 of whatever clock the reader has on the wall
    x_scale: Scale
    y_scale: Scale
    z: Sequence[Sequence[float]] | npt.NDArray[Any]  #: of a heatmap: rows × columns, the first row on top
    z_title: str
    z_scale: Scale  #: linear or percent
    #: of a heatmap whose z are codes: their names; code 0 is drawn as background, code 1 as a fault, then
    #: tones
    categories: Sequence[str]
    stack: bool  #: bars or lines on top of each other
    wide: bool  #: takes the page's full width
    tab: str  #: what its tab says, where it is one of `tabs`


def figure(spec: ChartSpec) -> dict[str, Any]:
    """`data` and `layout` for plotly.js, and `title`, `sentence` and `columns` for whoever saves it; all of it JSON."""
    made = _heatmap(spec) if spec["kind"] == "heatmap" else _drawn(spec)
    tab = spec.get("tab", "")
    return made | {
        "title": spec["title"] if tab.lower() in spec["title"].lower() else f"{spec['title']}: {tab}",
        "sentence": spec.get("sentence", ""),
        "columns": [
            (spec.get("x_title") or "x") + (", in seconds" if spec.get("x_scale") == "duration" else ""),
            (spec.get("y_title") or "y") + (", in seconds" if spec.get("y_scale") == "duration" else ""),
        ],
    }


def _drawn(spec: ChartSpec) -> dict[str, Any]:
    series = _series(spec)
    traces = [_trace(spec, one, i) for i, one in enumerate(series)]
    layout: dict[str, Any] = {
        "xaxis": _axis(spec.get("x_title", ""), _x_scale(spec), _span(series, "x")),
        "yaxis": _axis(spec.get("y_title", ""), _y_scale(spec), _span(series, "y")),
        "showlegend": len(series) > 1,
        "hovermode": "closest" if spec["kind"] == "cdf" else "x unified",
    }
    if spec["kind"] == "bar":
        layout |= {"barmode": "stack" if spec.get("stack") else "group", "bargap": 0.25}
    if spec["kind"] == "cdf":
        layout["yaxis"]["range"] = [0, 1.01]
    elif layout["yaxis"].get("type") != "log":
        layout["yaxis"]["rangemode"] = "tozero"
    return {"data": traces, "layout": layout}


def _series(spec: ChartSpec) -> list[SeriesSpec]:
    given = spec.get("series")
    if given is None:
        return [{"name": spec.get("y_title", ""), "x": spec["x"], "y": spec["y"]}]
    if isinstance(given, Mapping):
        return [{"name": name, "x": spec["x"], "y": values} for name, values in given.items()]
    return [one if "x" in one else {**one, "x": spec["x"]} for one in given]


def _x_scale(spec: ChartSpec) -> Scale:
    default: Scale = {"cdf": "log", "bar": "category"}.get(spec["kind"], "linear")  # type: ignore[assignment]
    return spec.get("x_scale", default)


def _y_scale(spec: ChartSpec) -> Scale:
    return spec.get("y_scale", "percent" if spec["kind"] == "cdf" else "linear")


def _trace(spec: ChartSpec, series: SeriesSpec, position: int) -> dict[str, Any]:
    name = series.get("name", "")
    trace: dict[str, Any] = {
        "name": labels([name])[0],
        "x": _values(series["x"], _x_scale(spec)),
        "y": _values(series["y"], _y_scale(spec)),
        "meta": {"tone": series.get("tone", position), "name": name, **_as_they_are(spec, series)},
    }
    hover = "%{y:.1%}" if _y_scale(spec) == "percent" else "%{y:,.4~g}"
    if spec["kind"] == "bar":
        return trace | {"type": "bar", "hovertemplate": hover}
    trace |= {"type": "scatter", "mode": "lines"}
    if series.get("apart"):
        trace["meta"]["apart"] = True
    elif spec.get("stack"):
        trace["stackgroup"] = "all"
    if spec["kind"] == "cdf":
        # the share only changes where a value is, so steps are the truth
        trace["line"] = {"shape": "hv"}
        trace["hovertemplate"] = "%{y:.1%} are at most %{customdata}<extra>%{fullData.name}</extra>"
        trace["customdata"] = _labels(series["x"], _x_scale(spec))
    else:
        trace["hovertemplate"] = hover
    return trace


def _values(values: Sequence[Any] | npt.NDArray[Any], scale: Scale) -> list[Any]:
    """As the axis takes them."""
    if scale == "category":
        return list(labels(values))
    if scale == "time":
        return moments(values)
    return list(numbers(_log_values(values) if scale in ("log", "duration") else values))


def _as_they_are(spec: ChartSpec, series: SeriesSpec) -> dict[str, list[Any]]:
    """What is drawn otherwise than it is, for whoever saves the numbers: names cut short, nothing on a logarithmic axis."""
    found: dict[str, list[Any]] = {}
    for axis, scale in (("x", _x_scale(spec)), ("y", _y_scale(spec))):
        values: Any = series[axis]  # type: ignore[literal-required]
        if scale in ("category", "log", "duration"):
            true = [str(value) for value in values] if scale == "category" else numbers(values)
            if true != _values(values, scale):
                found[axis] = true
    return found


def moments(seconds: Sequence[Any] | npt.NDArray[Any]) -> list[str]:
    """`2030-01-31T08:00:00` each."""
    whole = np.round(np.asarray(seconds, dtype=np.float64)).astype(np.int64)
    return [str(text) for text in np.datetime_as_string(whole.astype("datetime64[s]"))]


def _labels(values: Sequence[Any] | npt.NDArray[Any], scale: Scale) -> list[str]:
    from fairlead.record.units import digits, duration

    return [duration(float(v)) if scale == "duration" else digits(float(v)) for v in values]


def _log_values(values: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """A logarithm has no place for 0: what is below the axis' start is drawn at its start."""
    return np.maximum(np.asarray(values, dtype=np.float64), LOG_FLOOR)


LOG_FLOOR = 1.0


def _span(series: Sequence[SeriesSpec], axis: Literal["x", "y"]) -> tuple[float, float]:
    """The smallest and largest number of an axis; (0, 0) where it has names or nothing."""
    low, high = math.inf, -math.inf
    for one in series:
        values = np.asarray(one[axis])
        if values.dtype.kind in "iuf" and len(values):
            low, high = min(low, float(np.nanmin(values))), max(high, float(np.nanmax(values)))
    return (low, high) if math.isfinite(low) and math.isfinite(high) else (0.0, 0.0)


def _axis(title: str, scale: Scale, span: tuple[float, float]) -> dict[str, Any]:
    axis: dict[str, Any] = {"title": {"text": plain(title)}, "automargin": True}
    if scale == "category":
        return axis | {"type": "category"}
    if scale == "time":
        return axis | {"type": "date"}
    if scale == "percent":
        return axis | {"tickformat": ".0%"}
    if scale == "linear":
        return axis | {"tickformat": ",~r"} if span[1] >= 1e5 else axis
    low, high = math.log10(max(span[0], LOG_FLOOR)), math.log10(max(span[1], 10 * LOG_FLOOR))
    axis |= {"type": "log", "range": [low - 0.02 * (high - low), high + 0.02 * (high - low)]}
    if scale == "duration":
        ticks = [(at, text) for at, text in _DURATION_TICKS if low - 0.3 <= math.log10(at) <= high + 0.3]
        if low == math.log10(LOG_FLOOR) and span[0] < LOG_FLOOR:
            ticks = [(at, f"≤ {text}" if at == LOG_FLOOR else text) for at, text in ticks]
        axis |= {"tickvals": [at for at, _ in ticks], "ticktext": [text for _, text in ticks]}
    else:
        axis |= {"dtick": 1}
    return axis


def _heatmap(spec: ChartSpec) -> dict[str, Any]:
    z = np.asarray(spec["z"])
    x = list(spec.get("x", range(z.shape[1])))
    y = labels(spec.get("y", range(z.shape[0])))
    trace: dict[str, Any] = {"type": "heatmap", "y": y}
    timed = spec.get("x_scale") == "time"
    trace["x"] = moments(x) if timed else labels(x) if x and isinstance(x[0], str) else numbers(x)
    if "categories" in spec:
        codes = np.ascontiguousarray(z, dtype=np.int8)
        names = labels(spec["categories"])
        # one byte a cell; the page unpacks it
        packed = base64.b64encode(codes.tobytes()).decode("ascii")
        at = "%{x|%d %b %H:%M}" if timed else "%{x:.4~g}"
        trace |= {"showscale": False, "hovertemplate": f"%{{y}}<br>{at}: %{{text}}<extra></extra>"}
        trace["meta"] = {"codes": packed, "columns": codes.shape[1], "names": names}
        if names != list(spec["categories"]):
            trace["meta"]["true_names"] = list(spec["categories"])
    else:
        value = "%{z:.1%}" if spec.get("z_scale") == "percent" else "%{z:.4~g}"
        trace |= {"z": [numbers(row) for row in z], "hovertemplate": f"%{{y}}, %{{x}}: {value}<extra></extra>"}
        trace["colorbar"] = {"title": {"text": plain(spec.get("z_title", ""))}, "thickness": 12}
        trace["meta"] = {}
        if spec.get("z_scale") == "percent":
            small = z.size > 0 and float(np.nanmax(z)) < 0.1
            trace["colorbar"]["tickformat"] = ".1%" if small else ".0%"
    rows = [str(name) for name in spec.get("y", range(z.shape[0]))]
    if rows != y:
        trace["meta"]["y"] = rows
    yaxis = _axis(spec.get("y_title", ""), "category", (0, 0))
    # row 0 on top; a label for each row only where they can be read
    yaxis |= {"autorange": "reversed", "nticks": 24}
    xaxis = _axis(spec.get("x_title", ""), spec.get("x_scale", "linear"), (0, 0))
    return {"data": [trace], "layout": {"xaxis": xaxis, "yaxis": yaxis, "showlegend": False}}


def labels(names: Iterable[object]) -> list[str]:
    """Names for legends and axes: a long one loses its middle, since a chart has no room for it. Names that stand
    for different things stay different."""
    taken: Counter[str] = Counter()
    out = []
    for name in map(str, names):
        text = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 10]}…{name[-9:]}"
        taken[text] += 1
        out.append(plain(text if taken[text] == 1 or text == name else f"{text} ({taken[text]})"))
    return out


def plain(text: str) -> str:
    """plotly.js reads some HTML in its texts; a name is to be seen as it is written."""
    return html.escape(text, quote=False)


def numbers(values: Sequence[Any] | npt.NDArray[Any]) -> list[float | None]:
    """JSON numbers of six significant digits, more than any screen shows; null for NaN."""
    return [float(f"{v:.6g}") if math.isfinite(v) else None for v in np.asarray(values, dtype=np.float64).tolist()]
