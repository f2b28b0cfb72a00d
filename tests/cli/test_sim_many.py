"""`fairlead sim compare` and `fairlead sim sweep`."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from fairlead.cli.inputs import split_policies

from .command import fairlead

SMALL = "gen:philly-like:jobs=300,gpus=64,load=0.95,seed=3"


def test_commas_inside_a_policys_parameters_do_not_split_it() -> None:
    found = split_policies("fifo,tiresias:thresholds=3200/7200,knob=2,mine.py:Name:x=1,y=2,las")
    assert found == ["fifo", "tiresias:thresholds=3200/7200,knob=2", "mine.py:Name:x=1,y=2", "las"]


def test_compare_prints_a_table_and_writes_the_report(tmp_path: Path) -> None:
    html = tmp_path / "r.html"
    ran = fairlead("sim", "compare", SMALL, "--cluster", "8x8", "--policies", "fifo,srtf", "--policy", "las:quantum=60",
                   "--html", html)  # fmt: skip
    assert ran.code == 0, ran.err
    lines = [line.split()[0] for line in ran.out.splitlines() if line.strip()]
    assert [name for name in lines if name in ("fifo", "srtf", "las:quantum=60")] == ["las:quantum=60", "fifo", "srtf"]
    page = html.read_text(encoding="utf-8")
    assert "srtf" in page
    assert len(page) > 1_000_000  # it carries its own plotly


def test_compare_as_json_is_a_list_with_every_policy_and_placer() -> None:
    ran = fairlead("sim", "compare", SMALL, "--cluster", "8x8", "--policies", "fifo,sjf", "--placers",
                   "consolidate,spread", "-o", "json")  # fmt: skip
    found = [(one["policy"], one["placer"], one["finished"]) for one in ran.json()]
    assert found == [(policy, placer, 300) for policy in ("fifo", "sjf") for placer in ("consolidate", "spread")]
    assert {"rho", "jain_index", "tenants", "journal_sha256"} <= set(ran.json()[0])


def test_a_misspelt_last_policy_is_found_before_anything_runs() -> None:
    ran = fairlead("sim", "compare", SMALL, "--cluster", "8x8", "--policies", "fifo,srft")
    assert ran.code == 2
    assert "did you mean 'srtf'?" in ran.err
    assert ran.out == ""


def test_sweep_has_a_row_for_every_combination() -> None:
    ask = ("sim", "sweep", SMALL, "--policy", "tiresias", "--set", "thresholds=1600,3200", "--set", "knob=0,2",
           "--clusters", "8x8,16x8", "--load-scale", "1,2")  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(fairlead(*ask, "-o", "csv").out)))
    assert len(rows) == 16
    chosen = {(row["thresholds"], row["knob"], row["cluster"], row["load_scale"]) for row in rows}
    assert len(chosen) == 16
    assert {row["finished"] for row in rows} == {"300"}
    waits = {row["load_scale"]: float(row["wait_mean_s"]) for row in rows if row["cluster"] == "8x8"}
    assert waits["2.0"] > waits["1.0"]
    assert len(fairlead(*ask, "-o", "json").json()) == 16
    table = fairlead(*ask).out
    assert "thresholds" in table
    assert "seed" not in table  # it does not vary


def test_seeds_of_a_sweep_seed_a_generated_workload_that_has_none() -> None:
    ran = fairlead("sim", "sweep", "gen:poisson:jobs=50,load=0.5", "--cluster", "8x8", "--policy", "fifo", "--seeds",
                   "1,2", "-o", "json")  # fmt: skip
    assert len({row["journal_sha256"] for row in ran.json()}) == 2
