"""The page: HTML around the charts. Every name that comes from outside goes through `escape` or `embed`."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from fairlead.record.columns import cells, shown_columns
from fairlead.record.report.charts import ChartSpec, figure
from fairlead.record.report.run import RunReport
from fairlead.record.report.script import JS
from fairlead.record.report.style import CSS

_TONES = 12


@dataclass(frozen=True)
class Tile:
    """A number that everybody asks for first."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Lead:
    """What a page says before its charts, for whoever reads no further."""

    tiles: Sequence[Tile] = ()
    sentences: Sequence[str] = ()


def page(
    title: str,
    facts: Iterable[tuple[str, str]],
    body: str,
    figures: Sequence[dict[str, Any]],
    *,
    lead: Lead | None = None,
    script: str = JS,
) -> str:
    """A whole document. `body` is HTML; everything else is text."""
    listed = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts if value)
    scripts = (plotly_js(), script)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_policy(scripts))}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1><dl class=facts>{listed}</dl></header>\n"
        f"<main>\n{_lead_html(lead or Lead())}{body}</main>\n"
        "<footer>Made by fairlead. This file needs nothing else to be read.</footer>\n"
        f'<script type="application/json" id="figures">{embed(figures)}</script>\n'
        f"<script>{scripts[0]}</script>\n<script>{scripts[1]}</script>\n</body>\n</html>\n"
    )


def _policy(scripts: Iterable[str]) -> str:
    """Nothing may be loaded from anywhere, and no script runs but ours: the browser itself holds the page to it."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; img-src data: blob:"


def _lead_html(lead: Lead) -> str:
    tiles = "".join(
        f"<div class=tile><dt>{escape(one.label)}</dt><dd>{escape(one.value)}</dd>"
        f"{f'<dd class=note>{escape(one.note)}</dd>' if one.note else ''}</div>"
        for one in lead.tiles
    )
    said = "".join(f"<li>{escape(one)}</li>" for one in lead.sentences)
    out = f"<dl class=tiles>{tiles}</dl>\n" if tiles else ""
    if said:
        out += f'<section class="card short"><h2>In short</h2><ul>{said}</ul></section>\n'
    return out


def embed(value: object) -> str:
    """JSON that can't end the script element it stands in, whatever names it holds."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plotly_js() -> str:
    """The library as its Python package carries it, read as a file: importing the package takes longer."""
    return files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")


def charts_html(sections: Sequence[Sequence[ChartSpec]]) -> tuple[str, list[dict[str, Any]]]:
    """The cards of all charts, and their figures by number."""
    figures: list[dict[str, Any]] = []
    out = ['<div class="charts">\n']
    for number, specs in enumerate(sections):
        wide = " wide" if any(spec.get("wide") for spec in specs) else ""
        out.append(f'<section class="card{wide}"><h2>{escape(specs[0]["title"])}</h2>\n')
        if len(specs) == 1:
            out.append(_figure_html(specs[0], figures))
        else:
            out.append(_tabs_html(number, specs, figures))
        out.append("</section>\n")
    out.append("</div>\n")
    return "".join(out), figures


def _figure_html(spec: ChartSpec, figures: list[dict[str, Any]]) -> str:
    figures.append(figure(spec))
    label = escape(f"{spec['title']} {spec.get('tab', '')}".strip())
    return (
        f"<figure><figcaption>{escape(spec.get('sentence', ''))}</figcaption>"
        f'<div class="plot" role="img" aria-label="{label}" data-figure="{len(figures) - 1}"></div>'
        f"{_legend_html(spec)}"
        f'<div class="save" role="group" aria-label="Save {label}">'
        '<button type="button" data-save="png">PNG</button><button type="button" data-save="csv">CSV</button></div>'
        "</figure>\n"
    )


def _legend_html(spec: ChartSpec) -> str:
    """plotly.js has no legend for coded cells."""
    names = spec.get("categories", ())
    if len(set(names[2:])) < 2:
        names = names[:2]
    used = set(np.unique(np.asarray(spec["z"])).tolist()) if names else set()
    items = [
        f'<li><span class="swatch" style="background:var(--{_tone(code)})"></span>{escape(name)}</li>'
        for code, name in enumerate(names)
        if code != 1 or code in used
    ]
    return f'<ul class="legend">{"".join(items)}</ul>' if items else ""


def _tone(code: int) -> str:
    return ("free", "down")[code] if code < 2 else f"t{(code - 2) % _TONES}"


def _tabs_html(number: int, specs: Sequence[ChartSpec], figures: list[dict[str, Any]]) -> str:
    title = escape(specs[0]["title"])
    buttons, panels = [], []
    for i, spec in enumerate(specs):
        tab, panel = f"tab-{number}-{i}", f"panel-{number}-{i}"
        on = i == 0
        buttons.append(
            f'<button role="tab" id="{tab}" aria-controls="{panel}" aria-selected="{str(on).lower()}" '
            f'tabindex="{0 if on else -1}">{escape(spec.get("tab", str(i + 1)))}</button>'
        )
        panels.append(
            f'<div role="tabpanel" id="{panel}" aria-labelledby="{tab}"{"" if on else " hidden"}>'
            f"{_figure_html(spec, figures)}</div>"
        )
    return f'<div class="tabs" role="tablist" aria-label="{title}">{"".join(buttons)}</div>\n{"".join(panels)}'


def comparison_html(runs: Sequence[RunReport]) -> str:
    """A row per run; the best of each column is marked, ratios are to the first run."""
    metrics = [run.metrics for run in runs]
    columns = shown_columns(metrics)
    head = "".join(f'<th scope="col" title="{escape(c.help)}">{escape(c.title)}</th>' for c in columns)
    by_column = [cells(column, metrics) for column in columns]
    rows = []
    for i, run in enumerate(runs):
        swatch = f'<span class="swatch" style="background:var(--t{i % _TONES})"></span>' if len(runs) > 1 else ""
        row = [f'<th scope="row" title="{escape(run.name)}">{swatch}{escape(run.name)}</th>']
        for column_cells in by_column:
            cell = column_cells[i]
            ratio = f"<small>{escape(cell.ratio)}</small>" if cell.ratio else ""
            row.append(f"<td{' class=best' if cell.best else ''}>{escape(cell.text)}{ratio}</td>")
        rows.append(f"<tr>{''.join(row)}</tr>\n")
    note = "<p>Marked: the best of its column. Below a number: its ratio to the first row, where it differs.</p>"
    meanings = "".join(f"<li>{escape(c.title)}: {escape(c.help)}</li>" for c in columns)
    return (
        '<section class="card"><h2>' + ("Comparison" if len(runs) > 1 else "Result") + "</h2>\n"
        '<div class="scroll" tabindex="0" role="region" aria-label="Comparison">'
        f'<table><thead><tr><th scope="col">policy</th>{head}</tr></thead>\n'
        f"<tbody>{''.join(rows)}</tbody></table></div>\n"
        f"<details><summary>What the columns say</summary>{note if len(runs) > 1 else ''}<ul>{meanings}</ul>"
        "</details></section>\n"
    )
