from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from fairlead.record.report import ChartSpec, RunReport, write_charts, write_report
from fairlead.record.report.charts import figure, labels
from fairlead.record.report.page import embed, plotly_js

from .build import Builder
from .runs import reports

NASTY = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=2">&\u2028\'"'


class Page(HTMLParser):
    """Collects what the tests ask about; the library's own script is left out."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text.replace(plotly_js(), "/*plotly*/"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def text_of(self, tag: str) -> list[str]:
        return [text for where, text in self.texts if where == tag]

    def figures(self) -> list[dict[str, object]]:
        texts = self.text_of("script")
        return json.loads(texts[0])  # type: ignore[no-any-return]


@pytest.fixture
def page(tmp_path: Path) -> Page:
    path = tmp_path / "report.html"
    write_report(path, reports(["fifo", "sjf", "srtf"]), title="Three policies", workload="made up")
    return Page(path.read_text(encoding="utf-8"))


def test_every_tag_is_closed_and_every_figure_has_its_place(page: Page) -> None:
    assert page.open == []
    places = [attrs["data-figure"] for _, attrs in page.tags if "data-figure" in attrs]
    assert places == [str(i) for i in range(len(page.figures()))]


def test_ids_are_unique_and_tabs_point_at_panels(page: Page) -> None:
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    tabs = [attrs for _, attrs in page.tags if attrs.get("role") == "tab"]
    assert tabs
    assert {tab["aria-controls"] for tab in tabs} <= set(ids)


def test_nothing_is_loaded_from_outside(page: Page) -> None:
    for tag, attrs in page.tags:
        assert tag not in ("link", "iframe", "img", "object", "base"), tag
        assert not {"src", "href", "action"} & set(attrs)
    assert not any("http" in text or "url(" in text for tag in ("style", "script") for text in page.text_of(tag))
    assert any("default-src 'none'" in (attrs.get("content") or "") for _, attrs in page.tags)


def test_the_library_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, reports(["a", "b"]))
    text = path.read_text(encoding="utf-8")
    assert text.count(plotly_js()) == 1
    assert len(text) - len(plotly_js()) < 300_000


def test_every_chart_has_a_title_units_and_a_sentence_with_numbers(page: Page) -> None:
    for sentence in page.text_of("figcaption"):
        assert re.search(r"\d", sentence), sentence
        assert sentence.endswith(".")
    for drawn in page.figures():
        layout = drawn["layout"]
        assert isinstance(layout, dict)
        assert layout["xaxis"]["title"]["text"]
    assert [text for text in page.text_of("h2") if text.strip()] == [
        "In short",
        "Comparison",
        "JCT of finished jobs",
        "Wait of finished jobs",
        "GPUs held",
        "Queue",
        "Waits by tenant",
        "JCT by size of job",
        "Who held which GPU when",
    ]


def test_names_can_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    runs = reports([NASTY, "b" + NASTY], tenants=[NASTY, "t1", "<b>t2"])
    write_report(path, runs, title=NASTY, workload=NASTY)
    page = Page(path.read_text(encoding="utf-8"))
    assert page.open == []
    assert sum(tag == "script" for tag, _ in page.tags) == 3
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert NASTY in page.text_of("h1")
    assert "<script" not in "".join(page.text_of("script"))


def test_embedded_json_reads_back_and_has_no_way_out() -> None:
    text = embed({"name": NASTY})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"name": NASTY}


def test_the_same_runs_give_the_same_file(tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write_report(tmp_path / name, reports(["x", "y"]))
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_one_run_without_tenants_and_one_of_nothing_can_be_reported(tmp_path: Path) -> None:
    write_report(tmp_path / "one.html", reports(["fifo"], tenants=()))
    page = Page((tmp_path / "one.html").read_text(encoding="utf-8"))
    assert "Waits by tenant" not in page.text_of("h2")
    write_report(tmp_path / "none.html", [RunReport.fold("fifo", Builder().build())])
    assert Page((tmp_path / "none.html").read_text(encoding="utf-8")).open == []
    with pytest.raises(ValueError, match="at least one run"):
        write_report(tmp_path / "no.html", [])


def test_any_charts_can_be_written(tmp_path: Path) -> None:
    charts: list[ChartSpec | list[ChartSpec]] = [
        {"title": "One", "kind": "cdf", "x": [1, 10, 100], "y": [0.1, 0.5, 1], "x_title": "GPU-hours"},
        {"title": "Two", "kind": "bar", "x": ["1", "2"], "series": {"a": [1, 2], "b": [3, float("nan")]}},
        [
            {"title": "Three", "tab": "x", "kind": "line", "x": [0, 1], "y": [5, 6], "y_scale": "log"},
            {"title": "Three", "tab": "y", "kind": "heatmap", "z": [[1, 2], [3, 4]], "x": ["Mon", "Tue"]},
        ],
    ]
    path = tmp_path / "charts.html"
    write_charts(path, "A trace", charts, facts=[("jobs", "3")])
    page = Page(path.read_text(encoding="utf-8"))
    assert page.open == []
    assert len(page.figures()) == 4
    assert [text for text in page.text_of("h2") if text.strip()] == ["One", "Two", "Three"]


def test_a_log_axis_draws_zero_at_its_start_and_bars_keep_names_that_look_like_numbers() -> None:
    cdf = figure({"title": "t", "kind": "cdf", "x": [0, 60.0], "y": [0.5, 1], "x_scale": "duration"})
    assert cdf["data"][0]["x"] == [1.0, 60.0]
    assert cdf["layout"]["xaxis"]["ticktext"][0] == "≤ 1 s"
    bar = figure({"title": "t", "kind": "bar", "x": ["1", "08"], "y": [1, 2]})
    assert bar["data"][0]["x"] == ["1", "08"]
    assert bar["layout"]["xaxis"]["type"] == "category"


def test_codes_of_a_map_are_one_byte_a_cell() -> None:
    codes = np.array([[0, 1, 2], [3, 0, 0]])
    drawn = figure({"title": "t", "kind": "heatmap", "z": codes, "categories": ["free", "down", "<a>", "b"]})
    meta = drawn["data"][0]["meta"]
    assert base64.b64decode(meta["codes"]) == bytes([0, 1, 2, 3, 0, 0])
    assert (meta["columns"], meta["names"][2]) == (3, "&lt;a&gt;")


def test_long_names_lose_their_middle_and_stay_different() -> None:
    long = ["x" * 20 + middle + "y" * 20 for middle in ("a", "b")]
    short = labels([*long, "short"])
    assert len(set(short)) == 3
    assert all(len(name) <= 32 for name in short)
