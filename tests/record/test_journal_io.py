from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec
from fairlead.model.errors import InputError
from fairlead.record.journal import Journal
from fairlead.record.journal_io import read_journal, write_journal

from .build import Builder, random_journal

BOTH = pytest.mark.parametrize("ending", ["parquet", "jsonl"])


def same(a: Journal, b: Journal) -> None:
    assert (a.cluster, a.sha256, a.run) == (b.cluster, b.sha256, b.run)
    assert a.jobs.tenant_names == b.jobs.tenant_names
    for left, right in ((a, b), (a.jobs, b.jobs)):
        for field in dataclasses.fields(left):
            x, y = getattr(left, field.name), getattr(right, field.name)
            if isinstance(x, np.ndarray):
                assert x.dtype == y.dtype, field.name
                assert x.tobytes() == y.tobytes(), field.name
            elif x is None:
                assert y is None


@BOTH
@pytest.mark.parametrize("seed", range(6))
def test_a_journal_comes_back_bit_for_bit(tmp_path: Path, ending: str, seed: int) -> None:
    journal = random_journal(seed, tenants=3 * (seed % 2))
    path = tmp_path / f"run.{ending}"
    write_journal(journal, path)
    same(read_journal(path), journal)


@BOTH
def test_odd_floats_names_and_a_full_cluster_come_back(tmp_path: Path, ending: str) -> None:
    nodes = (
        NodeSpec("n\u2028ü</script>", 2, "V100", 96_000, 1 << 20, 16_384, ("eu", "r1")),
        NodeSpec("m", 1, path=("eu", "r2")),
    )
    cluster = ClusterSpec(nodes, ("region", "rack"), {"a": TenantSpec("a", 4, 2.5)}, {"V100": 1.5})
    build = Builder(cluster, ["a", 'b,"c\n'])
    build.run = {"policy": "sjf", "seed": 7, "options": {"quantum": 0.1, "strict": False, "x": None}}
    job = build.job(0.1 + 0.2, 2, 1e-300, "a")
    build.start(1 / 3, job, [1, 0]).finish(np.nextafter(1e9, 2e9), job)
    build.gpu_ids.append(7)  # no START refers to it
    path = tmp_path / f"run.{ending}"
    write_journal(build.build(), path)
    same(read_journal(path), build.build())


@BOTH
def test_an_empty_journal_comes_back(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"run.{ending}"
    write_journal(Builder().build(), path)
    same(read_journal(path), Builder().build())


@BOTH
def test_jobs_without_events_come_back(tmp_path: Path, ending: str) -> None:
    build = Builder()
    build.job(1, 2, 3)
    path = tmp_path / f"run.{ending}"
    write_journal(build.build(), path)
    same(read_journal(path), build.build())


def test_an_unknown_ending_says_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.parquet or \.jsonl"):
        write_journal(Builder().build(), tmp_path / "run.csv")
    with pytest.raises(InputError, match=r"\.parquet or \.jsonl"):
        read_journal(tmp_path / "run.csv")


def test_a_file_that_is_no_journal_is_named(tmp_path: Path) -> None:
    for name, content in (("a.jsonl", b'{"x": 1}\n'), ("b.jsonl", b"\n"), ("c.parquet", b"not parquet at all")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            read_journal(tmp_path / name)
    with pytest.raises(InputError, match="no such file"):
        read_journal(tmp_path / "gone.jsonl")


def test_a_broken_line_is_named_and_so_is_a_missing_end(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write_journal(random_journal(1), path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], "{broken\n", *lines[4:]]))
    with pytest.raises(InputError, match=r"run\.jsonl:4: "):
        read_journal(path)
    path.write_text("".join(lines[:-2]))
    with pytest.raises(InputError, match="ends too early"):
        read_journal(path)
