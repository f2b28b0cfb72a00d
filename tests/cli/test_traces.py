"""`fairlead trace`: generate, describe, convert, and there and back again."""

from __future__ import annotations

from pathlib import Path

from .command import fairlead


def test_generate_describe_convert_and_back(tmp_path: Path) -> None:
    first, parquet, again = tmp_path / "a.csv", tmp_path / "b.parquet", tmp_path / "c.csv"
    made = fairlead("trace", "generate", "philly-like", "--jobs", "500", "--gpus", "64", "--load", "0.9", "--seed", "4",
                    "-o", first)  # fmt: skip
    assert made.code == 0, made.err
    assert "500 jobs" in made.out
    html = tmp_path / "d.html"
    found = fairlead("trace", "describe", first, "-o", "json", "--html", html).json()
    assert found["jobs"] == 500
    assert found["tenants"] == 12
    assert html.stat().st_size > 1_000_000
    assert "by size" in fairlead("trace", "describe", first).out
    assert fairlead("trace", "convert", first, parquet).code == 0
    assert "wrote 500 jobs" in fairlead("trace", "convert", parquet, again).err
    assert again.read_bytes() == first.read_bytes()


def test_a_generated_workload_needs_no_file(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    fairlead("trace", "generate", "poisson", "--jobs", "200", "--load", "0.5", "--seed", "9", "--set", "sizes=1/2",
             "-o", out)  # fmt: skip
    named = "gen:poisson:jobs=200,load=0.5,seed=9,sizes=1/2"
    ask = ("--cluster", "8x8", "--policy", "fifo", "-o", "json")
    hashes = {fairlead("sim", "run", trace, *ask).json()["journal_sha256"] for trace in (out, named)}
    assert len(hashes) == 1
    assert fairlead("trace", "describe", named, "-o", "json").json()["jobs"] == 200


def test_convert_lists_what_it_dropped(tmp_path: Path) -> None:
    trace, out = tmp_path / "a.csv", tmp_path / "b.csv"
    trace.write_text("job_id,submit_s,gpus,duration_s\na,0,2,2\nb,0,x,8\nc,1,1,1\n", encoding="utf-8")
    ran = fairlead("trace", "convert", trace, out, "--skip-bad")
    assert ran.code == 0
    assert "skipped 1 bad row:" in ran.err
    assert "a.csv:3, column 'gpus'" in ran.err
    assert "wrote 2 jobs" in ran.err
    assert len(out.read_text(encoding="utf-8").splitlines()) == 3


def test_generators_and_formats_are_listed() -> None:
    assert "philly-like" in fairlead("trace", "generate", "--list").out
    found = [one["name"] for one in fairlead("trace", "formats", "-o", "json").json()]
    assert {"canonical", "philly", "helios", "pai"} <= set(found)
