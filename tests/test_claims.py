"""The papers' claims: the exact one holds, the quick trends are what docs/reproduce.md says, the rest has its shape."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.cli.reproduce import markdown
from fairlead.model.cluster import parse_cluster_shape
from fairlead.model.errors import InputError
from fairlead.sim.claims import CLAIMS, Ask, Figure, Result, claim_1, claim_14, claim_22
from fairlead.sim.claims.result import over_seeds
from fairlead.sim.claims.workloads import TESTBED, synthetic_480
from fairlead.sim.run import simulate
from fairlead.state.rules import Options
from fairlead.workload.trace import Trace
from reference import Options as ReferenceOptions
from reference import simulate as reference_simulate

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
DOCUMENT = ROOT / "docs" / "reproduce.md"
PAGES = sorted((ROOT / "docs" / "schedulers").glob("*.md"))
#: those that need no data and run in a second or two
QUICK = (1, 3, 6)
#: those that hold or do not
EXACT = (1, 7, 13, 14)
TINY = Ask(seeds=2, jobs=240)


def reproduce(*args: str | Path, code: int = 0) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "reproduce", *map(str, args)],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if "json" in args else done.stdout + done.stderr


def documented() -> dict[int, str]:
    """The rows of the tables of claims, by claim: in the document, and on the pages of the schedulers."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in (DOCUMENT, *PAGES))
    return {int(row[1]): row[0] for row in re.finditer(r"^\| (\d+)\. .*$", text, re.MULTILINE)}


def named(result: Result) -> dict[str, Figure]:
    return {figure.name: figure for figure in result.figures}


def test_claim_1_holds_exactly() -> None:
    result = CLAIMS[1](Ask())
    assert result.holds is True
    figures = named(result)
    assert figures["srsf finish"].ours == (2.0, 10.0, 16.0)
    assert figures["srsf mean JCT"].ours == (pytest.approx(28 / 3),)
    assert figures["las:quantum=1 finish"].ours == (5.0, 14.0, 16.0)
    assert figures["las:quantum=1 mean JCT"].ours == (pytest.approx(35 / 3),)


def test_a_claim_that_must_be_equal_and_is_not_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(claim_1.PAPER, "srsf", ((2.0, 10.0, 15.0), 9.33))
    assert CLAIMS[1](Ask()).holds is False


@pytest.mark.parametrize("claim", QUICK)
def test_the_document_says_what_the_quick_claims_measure(claim: int) -> None:
    measured = markdown([CLAIMS[claim](Ask())]).splitlines()[-1]
    assert documented()[claim] == measured, "print the table anew: fairlead reproduce -o markdown"


def test_the_document_has_a_row_for_every_claim_and_the_columns_of_the_command() -> None:
    assert sorted(documented()) == sorted(CLAIMS)
    assert markdown([]) in DOCUMENT.read_text(encoding="utf-8")


def test_the_policies_of_claim_3_rank_as_in_the_paper() -> None:
    figures = named(CLAIMS[3](Ask(seeds=2)))
    assert figures["fifo / tiresias, JCT"].ours[0] > 2.0
    assert figures["srtf / tiresias, JCT"].ours[0] < 1.0
    assert figures["tiresias gittins / tiresias, JCT"].ours[0] == pytest.approx(1.0, abs=0.1)
    assert figures["offered load while jobs arrive"].ours[0] > 1.0


def test_claim_6_charges_every_preemption() -> None:
    result = CLAIMS[6](Ask(seeds=1))
    for figure in result.figures:
        assert figure.sd is None
        if figure.parts == ("preemptions", "seconds"):
            assert figure.ours[0] > 0
            assert figure.ours[1] == 62.0 * figure.ours[0]


@pytest.mark.parametrize("policy", ["srtf", "tiresias"])
def test_the_reference_preempts_as_often_on_the_jobs_of_claim_6(policy: str) -> None:
    made = synthetic_480(seed=0, jobs=None)
    trace = replace(made, submit_s=np.floor(made.submit_s))  # sums of whole seconds are exact in any order
    spec, params = parse_cluster_shape(TESTBED), {"thresholds": [3200.0]} if policy == "tiresias" else {}
    want = reference_simulate(trace, spec, policy, params, "consolidate", {}, ReferenceOptions(resume_cost_s=62.0))
    got = simulate(trace, spec, policy, options=Options(resume_cost_s=62.0)).outcome
    np.testing.assert_array_equal(got.preemptions, want.preemptions)
    np.testing.assert_array_equal(got.finish_s, want.finish_s)


def test_claim_7_holds_and_its_jobs_get_equal_shares() -> None:
    result = CLAIMS[7](Ask())
    assert result.holds is True
    for figure in result.figures:
        if figure.name.startswith("share"):
            assert figure.ours == pytest.approx((4 / 6, 4 / 6), abs=0.005)


def test_gandiva_gives_feedback_earlier_than_fifo_by_the_papers_kind_of_margin() -> None:
    figures = named(CLAIMS[11](Ask(seeds=2)))
    assert figures["shorter by"].ours[0] > 0.7
    ours, fifo = figures["GPU utilisation while jobs arrive"].ours
    assert ours > fifo


def test_migration_shortens_the_makespan_on_a_real_trace() -> None:
    if not DATA.is_dir():
        pytest.skip("the public traces are not here")
    figures = named(CLAIMS[12](Ask(data=DATA)))
    assert figures["makespan shorter by"].ours[0] > 0.05
    assert figures["JCT shorter by"].ours[0] > 0.0
    assert figures["migrations"].ours[0] > 100


@pytest.mark.parametrize("claim", sorted(CLAIMS))
def test_every_claim_has_its_shape_on_a_tiny_generated_workload(claim: int) -> None:
    check_shape(CLAIMS[claim](TINY), claim)


@pytest.mark.parametrize("claim", [2, 4, 5])
def test_the_claims_on_data_say_which_data(claim: int) -> None:
    if not DATA.is_dir():
        pytest.skip("the public traces are not here")
    result = CLAIMS[claim](Ask(data=DATA, jobs=300))
    check_shape(result, claim)
    assert "public Philly trace" in result.setting
    assert "no data folder" in CLAIMS[claim](TINY).setting


def test_the_policies_of_claim_19_rank_as_in_the_paper() -> None:
    figures = named(CLAIMS[19](Ask(jobs=20_000)))
    waits = [figures[name].ours[1] for name in ("sjf (oracle)", "SJGG", "SJG", "SJU", "fifo-backfill")]
    assert waits == sorted(waits)
    assert waits[0] < 0.5 * waits[-1]


def test_keeping_high_end_gpus_shortens_the_wait_for_them_in_claim_21() -> None:
    figures = named(CLAIMS[21](Ask(jobs=30_000)))
    assert figures["balance, mean wait s"].ours[1] > 0
    assert figures["reserve-and-pack, keep=0.05 over balance"].ours[1] < 0.7


def test_the_hours_of_claim_22_are_those_in_which_anybody_is_on_a_gpu() -> None:
    trace = Trace(
        submit_s=np.array([0.0, 1800.0, 7200.0]),
        gpus=np.array([1, 1, 1], np.int32),
        duration_s=np.array([3600.0, 3600.0, 900.0]),
        gpu_share_milli=np.array([500, 500, 500], np.int32),
    )
    journal = simulate(trace, parse_cluster_shape("1x4"), "fifo-backfill").journal
    assert claim_22.in_use(journal).tolist()[:3] == [1.0, 0.5, 0.25]
    assert claim_22.saved(trace, parse_cluster_shape("1x4")).mean == pytest.approx(1 - 1.75 / 2.25)


@pytest.mark.parametrize("claim", [20, 21, 22])
def test_the_claims_on_pai_say_which_data(claim: int) -> None:
    if not DATA.is_dir():
        pytest.skip("the public traces are not here")
    result = CLAIMS[claim](Ask(data=DATA, jobs=2_000))
    check_shape(result, claim)
    assert {20: "Helios", 21: "PAI's 1,897 machines", 22: "openb"}[claim] in result.setting


def check_shape(result: Result, claim: int) -> None:
    assert result.claim == claim
    assert (result.holds is None) == (claim not in EXACT)
    assert result.title
    assert result.setting
    assert result.differs.endswith(".")
    assert result.figures
    for figure in result.figures:
        assert len(figure.parts) == len(figure.paper) == len(figure.ours)
        assert all(value >= 0 for value in figure.ours)
    json.dumps(result.to_json(), allow_nan=False)


def test_a_data_folder_without_the_trace_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="philly_pollux_60000"):
        CLAIMS[2](Ask(data=tmp_path))


def test_the_spread_over_seeds_is_a_standard_deviation() -> None:
    figure = over_seeds("x", ("a", "b"), (1.0, None), [(1.0, 2.0), (3.0, 2.0)])
    assert figure.ours == (2.0, 2.0)
    assert figure.sd == (pytest.approx(2**0.5), 0.0)
    assert figure.paper_text() == "1.00 / –"
    assert figure.ours_text() == "2.00 / 2.00 (± 1.41 / 0.00)"


def test_the_command_prints_the_claims_asked_for() -> None:
    found = reproduce("6", "1", "--seeds", "1", "--jobs", "64", "-o", "json")
    assert [one["claim"] for one in found] == [1, 6]
    assert set(found[0]) == {"claim", "title", "setting", "figures", "differs", "holds"}
    assert found[0]["figures"][0] == {
        "figure": "srsf finish",
        "form": "whole",
        "parts": ["job 1", "job 2", "job 3"],
        "paper": [2.0, 10.0, 16.0],
        "ours": [2.0, 10.0, 16.0],
        "sd": None,
    }


def test_the_command_prints_text_yaml_and_markdown() -> None:
    assert "holds exactly" in reproduce("1")
    assert "- claim: 1" in reproduce("1", "-o", "yaml")
    assert documented()[1] in reproduce("1", "-o", "markdown")


def test_a_claim_that_is_not_there_is_wrong_usage() -> None:
    known = ", ".join(map(str, CLAIMS))
    assert f"there is no such claim; got 99; expected {known}" in reproduce("99", code=2)


@pytest.mark.parametrize("data", [None, DATA])
def test_with_cells_nobody_waits_longer_than_in_a_cluster_of_his_own(data: Path | None) -> None:
    if data is not None and not data.is_dir():
        pytest.skip("the public traces are not here")
    given = claim_14.tenants(Ask(data=data, jobs=3000))
    for order in ("fifo-backfill", "sjf", "tiresias"):
        assert claim_14.excess(given, f"hived:order={order}") == claim_14.Excess(0.0, 0.0, 0)


def test_with_quotas_somebody_does() -> None:
    given = claim_14.tenants(Ask(jobs=8000))
    found = claim_14.excess(given, "fifo-backfill")
    assert found.worst_job > 10.0
    assert len(found.by_tenant) == len(given.names)
    assert max(found.by_tenant) == found.worst_tenant


def test_the_tenants_of_claim_14_have_all_nodes_between_them() -> None:
    given = claim_14.tenants(Ask(jobs=1000))
    assert sum(given.gpus.values()) == given.cluster.gpus
    assert sum(len(given.of(number)[0]) for number in range(len(given.names))) == len(given.trace)
