from __future__ import annotations

import io
import subprocess
import sys

import pytest
from rich.console import Console

from fairlead.record.columns import COLUMNS, cells
from fairlead.record.metrics import Metrics, fold_metrics
from fairlead.record.tables import comparison_table
from fairlead.record.units import count, digits, duration, percent

from .build import Builder


def one_job(wait: float) -> Metrics:
    build = Builder("1x4")
    job = build.job(0, 4, 100)
    return fold_metrics(build.start(wait, job, [0, 1, 2, 3]).finish(wait + 100, job).build())


def shown(width: int, names: tuple[str, str] = ("fifo", "[bold]sjf[/bold]")) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    table = comparison_table([(names[0], one_job(100)), (names[1], one_job(300))], width=width)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_ratios_are_to_the_first_run_and_names_are_no_markup() -> None:
    text = shown(200)
    assert "[bold]sjf[/bold]" in text
    assert "2×" in text  # JCT: 400 s over 200 s
    assert "3×" in text  # wait: 300 s over 100 s


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160, 250])
def test_the_table_keeps_within_its_width_and_cuts_nothing(width: int) -> None:
    text = shown(width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert "JCT" in text


def test_the_best_is_marked_and_nothing_is_where_all_are_alike() -> None:
    by_title = {column.title: column for column in COLUMNS}
    runs = [one_job(100), one_job(300)]
    assert [cell.best for cell in cells(by_title["JCT mean"], runs)] == [True, False]
    assert [cell.best for cell in cells(by_title["finished"], runs)] == [False, False]
    assert [cell.ratio for cell in cells(by_title["GPUs held"], runs)] == ["", "0.5×"]
    assert [cell.ratio for cell in cells(by_title["preempted"], runs)] == ["", ""]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.25, "0.25 s"), (90, "90 s"), (150, "2.5 min"), (7200, "2 h"), (3e6, "34.7 d"), (float("nan"), "–")],
)
def test_durations_are_in_their_own_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_numbers_as_people_read_them() -> None:
    assert [digits(x) for x in (0, 0.125, 12.34, 1234.5, 10)] == ["0", "0.12", "12.3", "1,234", "10"]
    assert percent(0.123) == "12.3 %"
    assert (count(1, "job"), count(2000, "job")) == ("1 job", "2,000 jobs")


def test_metrics_and_report_load_nothing_slow() -> None:
    code = (
        "import sys, fairlead.record.metrics, fairlead.record.report, fairlead.record.tables, "
        "fairlead.record.journal_io, fairlead.record.jobs_csv\n"
        "print([m for m in ('plotly', 'rich', 'polars', 'pyarrow', 'pandas', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
