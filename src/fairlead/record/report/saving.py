"""A chart as a table: the numbers that are drawn, as CSV. The page's own script writes the same, letter for letter."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

#: a spreadsheet takes a text that begins so for a formula
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def file_names(figures: Sequence[dict[str, Any]]) -> list[str]:
    """`gpus-held-computing` each, without an ending; no two are the same."""
    taken: dict[str, int] = {}
    names = []
    for figure in figures:
        name = re.sub(r"[^a-z0-9]+", "-", figure["title"].lower()).strip("-")[:60].strip("-") or "chart"
        taken[name] = taken.get(name, 0) + 1
        names.append(name if taken[name] == 1 else f"{name}-{taken[name]}")
    return names


def csv_of(figure: dict[str, Any]) -> str:
    """A line per x with a column for each series where they share their x; else a line per point, the series first."""
    lines = _map_lines(figure) if figure["data"] and figure["data"][0]["type"] == "heatmap" else _series_lines(figure)
    return "".join(",".join(map(_cell, line)) + "\n" for line in lines)


def _series_lines(figure: dict[str, Any]) -> list[list[Any]]:
    x_title, y_title = figure["columns"]
    columns = [(one["meta"].get("x", one["x"]), one["meta"].get("y", one["y"])) for one in figure["data"]]
    names = [one["meta"]["name"] for one in figure["data"]]
    if all(x == columns[0][0] for x, _ in columns):
        heads = [y_title] if len(names) == 1 else [f"{name}: {y_title}" for name in names]
        rows = zip(columns[0][0] if columns else [], *(y for _, y in columns), strict=True)
        return [[x_title, *heads], *map(list, rows)]
    lines: list[list[Any]] = [["series", x_title, y_title]]
    for name, (x, y) in zip(names, columns, strict=True):
        lines += [[name, a, b] for a, b in zip(x, y, strict=True)]
    return lines


def _map_lines(figure: dict[str, Any]) -> list[list[Any]]:
    (trace,) = figure["data"]
    meta = trace["meta"]
    rows: list[list[Any]] = trace.get("z", [])
    if "codes" in meta:
        names, wide = meta.get("true_names", meta["names"]), meta["columns"]
        codes = base64.b64decode(meta["codes"])
        rows = [[names[code] for code in codes[at : at + wide]] for at in range(0, len(codes), wide)]
    x_title, y_title = figure["columns"]
    corner = f"{y_title} / {x_title}" if y_title != "y" else x_title
    return [[corner, *trace["x"]], *([name, *row] for name, row in zip(meta.get("y", trace["y"]), rows, strict=True))]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int | float):
        return _number(value)
    text = f"'{value}" if value.startswith(_FORMULA) else value
    return '"' + text.replace('"', '""') + '"' if re.search(r'[",\n\r]', text) else text


def _number(value: float) -> str:
    """As a browser writes it."""
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    if abs(value) >= 1e-6:
        return np.format_float_positional(value, trim="-")
    mantissa, _, exponent = repr(float(value)).partition("e")
    return f"{mantissa}e{int(exponent)}"
