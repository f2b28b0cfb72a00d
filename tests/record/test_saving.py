"""Charts as tables, and what a report says before its charts."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from fairlead.cli.saving import BROWSER, Saving, pictures_of
from fairlead.model.errors import InputError
from fairlead.record.report import charts_report, report_of
from fairlead.record.report.charts import ChartSpec, figure
from fairlead.record.report.saving import csv_of, file_names

from .runs import reports


def table(spec: ChartSpec) -> list[list[str]]:
    return list(csv.reader(io.StringIO(csv_of(figure(spec)))))


def test_series_with_the_same_x_are_columns_and_others_are_one_below_the_other() -> None:
    bar: ChartSpec = {"title": "t", "kind": "bar", "x": ["a", "b"], "series": {"p": [1, 2.5], "q": [3, float("nan")]}}
    assert table({**bar, "x_title": "who", "y_title": "GPUs"}) == [
        ["who", "p: GPUs", "q: GPUs"],
        ["a", "1", "3"],
        ["b", "2.5", ""],
    ]
    two: ChartSpec = {
        "title": "t",
        "kind": "cdf",
        "series": [{"name": "p", "x": [0, 60], "y": [0.5, 1]}, {"name": "q", "x": [7], "y": [1]}],
        "x_title": "wait",
        "y_title": "share",
        "x_scale": "duration",
    }
    # 0 is drawn at the axis' start, and is 0 all the same
    assert table(two) == [["series", "wait, in seconds", "share"], ["p", "0", "0.5"], ["p", "60", "1"], ["q", "7", "1"]]


def test_a_map_has_its_names_and_long_names_are_whole() -> None:
    long = "x" * 60
    spec: ChartSpec = {"title": "t", "kind": "heatmap", "z": [[0, 2], [1, 2]], "y": [long, "b"], "x": [1.5, 2]}
    named: ChartSpec = {**spec, "categories": ["free", "down", long + "y"], "x_title": "hours"}
    assert table(named) == [["hours", "1.5", "2"], [long, "free", long + "y"], ["b", "down", long + "y"]]
    assert table({**spec, "z_scale": "percent", "y_title": "node"})[0] == ["node / x", "1.5", "2"]


def test_a_name_that_a_spreadsheet_would_compute_is_text() -> None:
    (_, row) = table({"title": "t", "kind": "bar", "x": ['=HYPERLINK("x")'], "y": [1]})
    assert row == ['\'=HYPERLINK("x")', "1"]


def test_times_are_moments_and_small_numbers_are_written_as_a_browser_does() -> None:
    spec: ChartSpec = {"title": "t", "kind": "line", "x": [0, 86400.4], "y": [0.00001234, 1.5e-7], "x_scale": "time"}
    assert table(spec)[1:] == [["1970-01-01T00:00:00", "0.00001234"], ["1970-01-02T00:00:00", "1.5e-7"]]


def test_every_chart_has_a_file_name_of_its_own() -> None:
    assert file_names([{"title": "GPUs: held"}, {"title": "GPUs – held!"}, {"title": "…"}]) == [
        "gpus-held",
        "gpus-held-2",
        "chart",
    ]
    report = report_of(reports(["fifo", "sjf"]))
    assert len(set(report.names())) == len(report.figures()) == len(report.tables())


def test_what_is_said_first_has_the_numbers_of_the_table() -> None:
    runs = reports(["fifo", "sjf", "las"])
    lead = report_of(runs).lead
    means = {run.name: run.metrics.core.jct_s.mean for run in runs}
    best = min(means, key=lambda name: means[name])
    assert any(
        tile.label == "shortest mean JCT" and (tile.note.startswith(best) or "every" in tile.note)
        for tile in lead.tiles
    )
    assert best in lead.sentences[0]
    assert all(sentence.endswith(".") for sentence in lead.sentences)
    alone = report_of(runs[:1]).lead
    assert [tile.label for tile in alone.tiles][:2] == ["finished", "mean JCT"]


def test_files_go_where_they_should_and_a_missing_browser_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = charts_report("t", [{"title": "One", "kind": "bar", "x": ["a"], "y": [1]}])
    saving = Saving(tmp_path / "r.html", tmp_path / "deep" / "csv")
    saving.check()
    saving.write(report)
    assert (tmp_path / "deep" / "csv" / "one.csv").read_text() == "x,y\na,1\n"
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="this is a file"):
        Saving(csv=tmp_path / "file").check()
    monkeypatch.setenv(BROWSER, str(tmp_path / "no-such-browser"))
    with pytest.raises(InputError, match=r"FAIRLEAD_BROWSER.*apt-get install chromium.*--csv DIR"):
        Saving(png=tmp_path / "png").check()


def test_pictures_are_drawn_by_the_browser_that_is_here(tmp_path: Path) -> None:
    from tests.dashboard.browser import chromium

    chromium()
    report = charts_report(
        "t",
        [
            {"title": "One", "kind": "bar", "x": ["a"], "y": [1], "sentence": "It is 1."},
            {"title": "Two", "kind": "heatmap", "z": [[0, 2], [3, 2]], "categories": ["free", "down", "a", "b"]},
        ],
    )
    made = pictures_of(report)
    assert list(made) == ["one", "two"]
    assert all(data.startswith(b"\x89PNG") and len(data) > 5_000 for data in made.values())
