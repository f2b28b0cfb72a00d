"""`fairlead sim run`: the outputs that tools rely on."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from .command import fairlead

FIXED = [
    "policy", "jobs", "finished", "makespan_s", "jct_s", "wait_s", "gpu_utilization", "preemptions", "migrations",
    "load_s", "compile_s", "wall_s", "events", "journal_sha256",
]  # fmt: skip
SPREAD = ["mean", "p50", "p90", "p95", "p99"]
SMALL = "gen:philly-like:jobs=300,gpus=64,load=0.95,seed=3"


def test_the_json_object_begins_with_the_fixed_names(claim: Path) -> None:
    ran = fairlead("sim", "run", claim, "--cluster", "1x2", "--policy", "srsf", "-o", "json")
    found = ran.json()
    assert list(found)[: len(FIXED)] == FIXED
    assert list(found["jct_s"]) == list(found["wait_s"]) == SPREAD
    assert found["policy"] == "srsf"
    assert (found["jobs"], found["finished"], found["makespan_s"]) == (3, 3, 16.0)
    assert len(found["journal_sha256"]) == 64
    assert found["load_s"] > 0
    assert found["wall_s"] > 0


@pytest.mark.parametrize(("policy", "finishes"), [("srsf", [2, 10, 16]), ("las:quantum=1", [5, 14, 16])])
def test_the_first_claim_of_the_papers_holds_to_the_second(
    policy: str, finishes: list[float], claim: Path, tmp_path: Path
) -> None:
    out = tmp_path / "jobs.csv"
    ran = fairlead("sim", "run", claim, "--cluster", "1x2", "--policy", policy, "-o", "json", "--jobs-out", out)
    assert ran.json()["jct_s"]["mean"] == pytest.approx(sum(finishes) / 3)
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["job_id", "submit_s", "start_s", "finish_s", "wait_s", "preemptions"]
    assert [row["job_id"] for row in rows] == ["a", "b", "c"]
    assert [float(row["finish_s"]) for row in rows] == finishes


def test_hash_seed_and_compilation_do_not_change_the_journal() -> None:
    ask = ("sim", "run", SMALL, "--cluster", "8x8", "--policy", "las", "-o", "json", "--job-failures", "0.1",
           "--retries", "2", "--seed", "5")  # fmt: skip
    runs = [
        fairlead(*ask, PYTHONHASHSEED="1").json(),
        fairlead(*ask, PYTHONHASHSEED="2").json(),
        fairlead(*ask, NUMBA_DISABLE_JIT="1").json(),
    ]
    assert len({run["journal_sha256"] for run in runs}) == 1
    assert len({json.dumps([run[key] for key in FIXED[:9]]) for run in runs}) == 1
    other = fairlead(*ask[:-1], "6").json()
    assert other["journal_sha256"] != runs[0]["journal_sha256"]


def test_a_refused_job_is_explained_with_numbers(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("job_id,submit_s,gpus,duration_s\n1,0,128,9\n2,0,65,9\n3,0,8,9\n", encoding="utf-8")
    ran = fairlead("sim", "run", trace, "--cluster", "8x8", "--policy", "fifo", "-o", "json")
    assert ran.json()["refused"] == {"too_many_gpus": 2}
    assert ran.json()["finished"] == 1
    assert "2 jobs refused: asking for more GPUs than the cluster has (up to 128 of 64)" in ran.err


def test_a_quota_refuses_what_can_never_run_and_is_said(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("job_id,submit_s,gpus,duration_s,tenant\n1,0,8,9,a\n2,0,2,9,a\n3,0,8,9,b\n", encoding="utf-8")
    ask = ("sim", "run", trace, "--cluster", "2x8", "--policy", "fifo-backfill", "-o", "json")
    ran = fairlead(*ask, "--quota", "a=4")
    assert ran.json()["refused"] == {"over_quota": 1}
    assert "a up to 8 of 4" in ran.err
    wrong = fairlead(*ask, "--quota", "c=4")
    assert wrong.code == 2
    assert "no tenant is called 'c'" in wrong.err


def test_costs_are_charged_only_when_asked_for(claim: Path) -> None:
    ask = ("sim", "run", claim, "--cluster", "1x2", "--policy", "las:quantum=1", "-o", "json")
    free, costly = fairlead(*ask).json(), fairlead(*ask, "--start-cost", "3", "--preempt-cost", "h200").json()
    assert (free["charged_gpu_s"], free["options"]) == (0.0, {})
    assert costly["charged_gpu_s"] > 0
    assert costly["options"] == {"start_cost_s": 3.0, "resume_cost_s": 0.5, "resume_cost_s_per_gib": 0.56}
    assert any("gpu_memory" in note for note in costly["notes"])
    assert costly["makespan_s"] > free["makespan_s"]


def test_node_events_take_nodes_away(claim: Path, tmp_path: Path) -> None:
    events = tmp_path / "nodes.csv"
    events.write_text("time_s,node,up\n1,node-0,0\n11,0,1\n", encoding="utf-8")
    ask = ("sim", "run", claim, "--cluster", "1x2", "--policy", "fifo", "-o", "json")
    whole, broken = fairlead(*ask).json(), fairlead(*ask, "--node-events", events).json()
    # the job that ran loses its first second, and nothing runs for ten
    assert broken["makespan_s"] == whole["makespan_s"] + 11
    assert broken["lost_gpu_s"] == 2.0


def test_profiles_change_how_fast_jobs_run(tmp_path: Path) -> None:
    trace, profiles = tmp_path / "t.csv", tmp_path / "p.yaml"
    trace.write_text("job_id,submit_s,gpus,duration_s,profile\n1,0,1,100,slow\n", encoding="utf-8")
    profiles.write_text("slow: {speed: {V100: 0.5}}\n", encoding="utf-8")
    ask = ("sim", "run", trace, "--cluster", "1x1@V100", "--policy", "fifo", "-o", "json")
    assert fairlead(*ask, "--profiles", profiles).json()["makespan_s"] == 200.0


def test_a_story_and_details_are_part_of_the_one_object(claim: Path) -> None:
    ask = ("sim", "run", claim, "--cluster", "1x2", "--policy", "srsf", "--story", "c", "--details")
    found = fairlead(*ask, "-o", "json").json()
    assert found["story"][0] == "c is job 2 of the trace."
    assert any("started at 10 s" in line for line in found["story"])
    assert found["details"]["sizes"]
    shown = fairlead(*ask)
    assert "started at 10 s" in shown.out
    assert "Jain" in shown.out


def test_journal_html_and_yaml_are_written(claim: Path, tmp_path: Path) -> None:
    journal, html = tmp_path / "j.jsonl", tmp_path / "r.html"
    ask = ("sim", "run", claim, "--cluster", "1x2", "--policy", "srsf", "-o", "yaml")
    ran = fairlead(*ask, "--journal", journal, "--html", html)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("policy: srsf\njobs: 3\n")
    assert json.loads(journal.read_text(encoding="utf-8").splitlines()[0])["sha256"] in ran.out
    assert "<html" in html.read_text(encoding="utf-8")[:200]


def test_a_users_own_policy_takes_parameters(claim: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from fairlead.policy.base import QueuePolicy\n\n\n"
        "class Wide(QueuePolicy):\n"
        '    """Most GPUs first."""\n\n'
        '    parameters = {"sign": -1.0}\n\n'
        "    @staticmethod\n"
        "    def key(job, now, p):\n"
        "        return p[0] * job.gpus\n",
        encoding="utf-8",
    )
    out = tmp_path / "jobs.csv"

    def order(policy: str) -> list[str]:
        ran = fairlead(
            "sim", "run", claim, "--cluster", "1x2", "--policy", policy, "--jobs-out", out, "-o", "json", cwd=tmp_path
        )
        assert ran.json()["policy"] == policy
        with out.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return [row["job_id"] for row in sorted(rows, key=lambda row: float(row["start_s"]))]

    assert order("mine.py:Wide") == ["a", "c", "b"]
    assert order("mine.py:Wide:sign=1") == ["b", "a", "c"]


def test_limit_takes_the_first_jobs_of_files_and_of_generated_workloads(claim: Path) -> None:
    for trace in (claim, SMALL):
        ran = fairlead("sim", "run", trace, "--cluster", "8x8", "--policy", "fifo", "--limit", "2", "-o", "json")
        assert ran.json()["jobs"] == 2
