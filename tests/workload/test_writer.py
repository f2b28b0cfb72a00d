"""What is written reads back as the same trace, floats exactly."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.model.errors import InputError
from fairlead.workload import writer
from fairlead.workload.readers import load_trace, table
from fairlead.workload.trace import Names, Trace
from fairlead.workload.writer import write_trace

NAME = st.none() | st.text(min_size=1, max_size=6)


def names(values: list[str | None]) -> Names:
    table = list(dict.fromkeys(value for value in values if value))
    return Names(np.array([table.index(v) if v else -1 for v in values], np.int32), tuple(table))


def plain(trace: Trace) -> dict[str, Any]:
    """Columns as lists, names decoded."""
    found: dict[str, Any] = {"job_ids": [trace.job_id(i) for i in range(len(trace))]}
    for name, values in trace.columns().items():
        if isinstance(values, Names):
            found[name] = [values.values[code] if code >= 0 else None for code in values.codes.tolist()]
        elif name != "job_ids":
            found[name] = values.tolist()
    return found


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    rows = draw(st.integers(1, 12))

    def column(values: st.SearchStrategy[Any], dtype: Any) -> Any:
        return np.array(draw(st.lists(values, min_size=rows, max_size=rows)), dtype)

    def maybe(values: st.SearchStrategy[Any], dtype: Any) -> Any:
        return column(values, dtype) if draw(st.booleans()) else None

    def maybe_names() -> Names | None:
        values = draw(st.lists(NAME, min_size=rows, max_size=rows))
        return names(values) if any(values) else None

    submit_s = np.sort(column(st.floats(0, 1e9), np.float64))
    gpus = column(st.integers(0, 1000), np.int32)
    share = np.where(gpus == 1, column(st.integers(1, 1000), np.int32), 1000).astype(np.int32)
    ids = draw(st.lists(st.text(min_size=1, max_size=8), min_size=rows, max_size=rows, unique=True))
    return Trace(
        submit_s=submit_s - submit_s[0],
        gpus=gpus,
        duration_s=column(st.floats(0, 1e12), np.float64),
        job_ids=ids,
        tenant=maybe_names(),
        user=maybe_names(),
        group=maybe_names(),
        gpu_type=maybe_names(),
        profile=maybe_names(),
        gpu_share_milli=share if draw(st.booleans()) else None,
        gpu_memory_mib=maybe(st.integers(0, 10**7), np.int64),
        cpu_milli=maybe(st.integers(0, 10**8), np.int64),
        memory_mib=maybe(st.integers(0, 10**9), np.int64),
        priority=maybe(st.integers(-(2**31) + 1, 2**31 - 1), np.int32),
        estimate_s=maybe(st.floats(0, 1e12), np.float64),
        status=maybe(st.integers(0, 3), np.int8),
        attempts=maybe(st.integers(0, 99), np.int32),
        min_gpus=gpus // 2 if draw(st.booleans()) else None,
        max_gpus=gpus * 2 if draw(st.booleans()) else None,
        preemptible=maybe(st.integers(0, 1), np.int8),
        num_nodes=np.where(gpus % 2 == 0, np.minimum(gpus, 2), 1).astype(np.int32) if draw(st.booleans()) else None,
        topology=maybe_names(),
    )


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
@given(trace=traces())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_trace_reads_back_the_same(trace: Trace, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    write_trace(trace, path)
    assert plain(load_trace(path).trace) == plain(trace)


@pytest.mark.parametrize("fast", ["writer", "parser", "both"])
@given(trace=traces())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_paths_for_large_traces_do_the_same(
    trace: Trace, fast: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv"
    with monkeypatch.context() as patch:
        if fast != "parser":
            patch.setattr(writer, "FAST_ROWS", 0)
        if fast != "writer":
            patch.setattr(table, "FAST_BYTES", 0)
        write_trace(trace, path)
        assert plain(load_trace(path).trace) == plain(trace)


def small_trace(**more: Any) -> Trace:
    return Trace(np.array([0.0, 0.1]), np.array([1, 8], np.int32), np.array([1e-9, 1 / 3]), **more)


def test_the_file_is_plain_csv_under_the_names_of_the_job_yaml(tmp_path: Path) -> None:
    trace = small_trace(
        gpu_share_milli=np.array([250, 1000], np.int32),
        cpu_milli=np.array([1500, 8000]),
        memory_mib=np.array([1024, 0]),
        status=np.array([1, 3], np.int8),
        tenant=names([None, "a,b"]),
    )
    write_trace(trace, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0].items()) == [
        ("job_id", "0"),
        ("submit_s", "0.0"),
        ("gpus", "1"),
        ("duration_s", "1e-09"),
        ("tenant", ""),
        ("gpu_share", "0.25"),
        ("cpus", "1.5"),
        ("memory", "1024"),
        ("status", "passed"),
    ]
    assert rows[1]["tenant"] == "a,b"
    assert load_trace(tmp_path / "t.csv").trace.job_ids is None


def test_names_and_order_survive_a_second_trip(tmp_path: Path) -> None:
    trace = small_trace(tenant=Names(np.array([1, 0], np.int32), ("late", "first", "never")))
    write_trace(trace, tmp_path / "1.csv")
    once = load_trace(tmp_path / "1.csv").trace
    assert once.tenant is not None
    assert once.tenant.values == ("first", "late")
    write_trace(once, tmp_path / "2.csv")
    assert (tmp_path / "1.csv").read_bytes() == (tmp_path / "2.csv").read_bytes()


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_the_origin_is_kept(name: str, tmp_path: Path) -> None:
    trace = small_trace(origin="2020-01-01T08:00:00+08:00")
    write_trace(trace, tmp_path / name, origin_comment=True)
    assert load_trace(tmp_path / name).trace.origin == trace.origin


def test_gzip_files_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    write_trace(small_trace(), tmp_path / "a.csv.gz")
    write_trace(small_trace(), tmp_path / "b.csv.gz")
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_an_unknown_suffix_or_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a name that ends in \.csv"):
        write_trace(small_trace(), tmp_path / "t.xlsx")
    with pytest.raises(InputError, match="can't be written"):
        write_trace(small_trace(), tmp_path / "no" / "t.csv")
