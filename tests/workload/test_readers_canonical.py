"""The canonical trace: columns, names, order, origin, detection; the same through both parsers."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fairlead.model.errors import InputError
from fairlead.workload.readers import format_names, load_trace, table
from fairlead.workload.trace import Names, Status, Trace

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the real traces are not here")

FULL = """\
job_id,submit_s,gpus,duration_s,tenant,user,name,gpu_type,gpu_share,gpu_memory,cpus,memory,priority,time_limit,status,attempts,min_gpus,max_gpus,profile,preemptible,num_nodes,topology
a,10,4,100,vc1,ann,train,V100,,16GiB,8,32GiB,3,200,Pass,2,2,8,resnet50,false,2,rack
b,5.5,1,0.25,vc2,bob,,,0.25,4096,0.5,1000,,,failed,,1,1,,,,
c,10,0,7,,ann,train,,,,16,,-1,50,CANCELLED,1,,,,yes,0,node
"""


def decoded(names: Names | None) -> list[str | None]:
    assert names is not None
    return [names.values[code] if code >= 0 else None for code in names.codes.tolist()]


def load_text(tmp_path: Path, text: str, **options: object) -> Trace:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return load_trace(path, **options).trace  # type: ignore[arg-type]


@pytest.fixture(params=["exact", "fast"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small files go through the csv module, large ones through polars: here either takes all."""
    if request.param == "fast":
        monkeypatch.setattr(table, "FAST_BYTES", 0)
    return str(request.param)


@pytest.mark.usefixtures("parser")
def test_every_column_is_read_in_order_of_submission(tmp_path: Path) -> None:
    trace = load_text(tmp_path, FULL)
    assert list(trace.job_ids or []) == ["b", "a", "c"]
    assert trace.submit_s.tolist() == [0, 4.5, 4.5]
    assert trace.gpus.tolist() == [1, 4, 0]
    assert trace.duration_s.tolist() == [0.25, 100, 7]
    assert decoded(trace.tenant) == ["vc2", "vc1", None]
    assert decoded(trace.user) == ["bob", "ann", "ann"]
    assert trace.user is not None
    assert trace.user.values == ("bob", "ann")
    assert decoded(trace.group) == [None, "train", "train"]
    assert decoded(trace.gpu_type) == [None, "V100", None]
    assert decoded(trace.profile) == [None, "resnet50", None]
    assert decoded(trace.topology) == [None, "rack", "node"]
    wanted = {
        "gpu_share_milli": [250, 1000, 1000],
        "gpu_memory_mib": [4096, 16384, 0],
        "cpu_milli": [500, 8000, 16000],
        "memory_mib": [1000, 32768, 0],
        "priority": [0, 3, -1],
        "estimate_s": [0.25, 200, 50],
        "status": [Status.FAILED, Status.PASSED, Status.KILLED],
        "attempts": [1, 2, 1],
        "min_gpus": [1, 2, 0],
        "max_gpus": [1, 8, 0],
        "preemptible": [1, 0, 1],
        "num_nodes": [0, 2, 0],
    }
    for column, values in wanted.items():
        assert trace.columns()[column].tolist() == values, column


@pytest.mark.usefixtures("parser")
def test_jobs_of_one_instant_keep_the_order_of_the_file(tmp_path: Path) -> None:
    rows = "".join(f"{i},{7 - i // 10},1,1\n" for i in range(70))
    trace = load_text(tmp_path, "job_id,submit_s,gpus,duration_s\n" + rows)
    assert trace.job_ids is not None
    assert [int(i) for i in trace.job_ids] == [block * 10 + i for block in range(6, -1, -1) for i in range(10)]


@pytest.mark.usefixtures("parser")
def test_ids_stay_as_they_are_written(tmp_path: Path) -> None:
    text = "job_id,submit_s,gpus,duration_s\n007,0,1,1\n-12,1,1,1\n+5,2,1,1\n99999999999999999999,3,1,1\n"
    assert list(load_text(tmp_path, text).job_ids or []) == ["007", "-12", "+5", "99999999999999999999"]
    text = "job_id,submit_s,gpus,duration_s\n7,0,1,1\n-12,1,1,1\n9223372036854775807,1,1,1\n"
    ids = load_text(tmp_path, text).job_ids
    assert isinstance(ids, np.ndarray)
    assert ids.tolist() == [7, -12, 2**63 - 1]
    assert load_text(tmp_path, "job_id,submit_s,gpus,duration_s\n0,0,1,1\n1,1,1,1\n").job_ids is None


@pytest.mark.usefixtures("parser")
def test_quotes_comments_blank_lines_and_dos_line_ends_are_read(tmp_path: Path) -> None:
    text = (
        "\ufeff# made by hand\r\n\r\n"
        'job_id, submit_s ,gpus,duration_s,"tenant"\r\n'
        '"a,1",0,1,2,"say ""hi"""\r\n'
        "# between\r\n"
        '"b\n#b", 1 ,2.0,3e0,\r\n'
        "\r\n"
    )
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    trace = load_trace(path).trace
    assert list(trace.job_ids or []) == ["a,1", "b\n#b"]
    assert decoded(trace.tenant) == ['say "hi"', None]
    assert trace.gpus.tolist() == [1, 2]
    assert trace.duration_s.tolist() == [2, 3]


def test_unknown_columns_are_noted_with_the_name_that_may_be_meant(tmp_path: Path) -> None:
    trace = load_text(tmp_path, "job_id,submit_s,gpus,duration_s,teant,colour\n0,0,1,1,x,y\n")
    assert trace.notes == ("column 'teant' is not used (did you mean 'tenant'?)", "column 'colour' is not used")


def test_times_start_at_the_first_submission_and_the_shift_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("# origin: 2017-10-09T00:00:00\njob_id,submit_s,gpus,duration_s\n1,100,1,1\n2,130.5,1,1\n")
    loaded = load_trace(path)
    assert loaded.trace.submit_s.tolist() == [0, 30.5]
    assert loaded.shift_s == 100
    assert loaded.trace.origin == "2017-10-09T00:00:00"
    assert loaded.format == "canonical"


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(gzip.compress(b"job_id,submit_s,gpus,duration_s\n3,0,1,1\n"))
    assert list(load_trace(path).trace.job_ids or []) == [3]


def test_a_parquet_file_may_hold_integers_floats_and_text(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    frame = pl.DataFrame(
        {
            "job_id": ["x", "y"],
            "submit_s": [5, 3],
            "gpus": [8, 1],
            "duration_s": [1.5, 2.5],
            "tenant": pl.Series(["t", None], dtype=pl.Categorical),
            "gpu_share": [None, 0.5],
            "status": ["passed", ""],
        }
    )
    frame.write_parquet(path)
    trace = load_trace(path).trace
    assert list(trace.job_ids or []) == ["y", "x"]
    assert trace.submit_s.tolist() == [0, 2]
    assert trace.gpu_share_milli is not None
    assert trace.gpu_share_milli.tolist() == [500, 1000]
    assert decoded(trace.tenant) == [None, "t"]


def test_several_files_are_one_trace(tmp_path: Path) -> None:
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("job_id,submit_s,gpus,duration_s,tenant\n1,100,1,1,a\n")
    second.write_text("job_id,submit_s,gpus,duration_s,priority,min_gpus\nx,50,2,1,9,1\n")
    trace = load_trace([first, str(second)]).trace
    assert list(trace.job_ids or []) == ["x", "1"]
    assert decoded(trace.tenant) == [None, "a"]
    assert trace.priority is not None
    assert trace.priority.tolist() == [9, 0]
    assert trace.min_gpus is not None
    assert trace.min_gpus.tolist() == [1, 1]


@pytest.mark.usefixtures("parser")
def test_limit_keeps_the_first_rows_and_does_not_look_further(tmp_path: Path) -> None:
    text = "job_id,submit_s,gpus,duration_s\n5,9,1,1\n6,8,1,1\n7,7,one,1\nshort\n"
    ids = load_text(tmp_path, text, limit=2).job_ids
    assert ids is not None
    assert list(ids) == [6, 5]
    with pytest.raises(InputError, match="'one'"):
        load_text(tmp_path, text, limit=3)


def test_a_format_can_be_forced_and_a_wrong_name_is_suggested(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"column 'user': the column is missing"):
        load_text(tmp_path, "job_id,submit_s,gpus,duration_s\n1,0,1,1\n", format="helios", limit=1)
    with pytest.raises(InputError, match="did you mean 'philly'"):
        load_text(tmp_path, FULL, format="phily")
    assert "canonical" in format_names()


def test_both_parsers_give_the_same_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    rows = [
        f"{i},{rng.exponential(100)!r},{rng.integers(1, 9)},{rng.lognormal(5, 3)!r},t{rng.integers(4)},{m}"
        for i, m in zip(rng.permutation(500), rng.choice(["", "8GiB", "512", "1.5TB"], 500))
    ]
    text = "job_id,submit_s,gpus,duration_s,tenant,memory\n" + "\n".join(rows)
    exact = load_text(tmp_path, text)
    monkeypatch.setattr(table, "FAST_BYTES", 0)
    fast = load_text(tmp_path, text)
    for name, values in exact.columns().items():
        other = fast.columns()[name]
        if isinstance(values, Names):
            assert decoded(values) == decoded(other)
        else:
            assert np.array_equal(values, other), name


def test_a_small_trace_is_read_without_polars(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(FULL)
    code = (
        "import sys; from fairlead.workload.readers import load_trace; from fairlead.workload.clusters import "
        f"load_cluster; load_trace({str(path)!r}); load_cluster('2x4'); assert 'polars' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@needs_shared
@pytest.mark.parametrize(("jobs", "tenants", "gpu_s"), [(10_000, 10, 211_402_789), (60_000, 14, 2_311_629_757)])
def test_the_pollux_subset_of_philly(jobs: int, tenants: int, gpu_s: int) -> None:
    loaded = load_trace(SHARED / "train" / f"philly_pollux_{jobs}.csv.gz")
    trace = loaded.trace
    assert (loaded.format, len(trace), loaded.bad_count, loaded.dropped) == ("canonical", jobs, 0, {})
    assert trace.job_ids is None
    assert trace.tenant is not None
    assert len(trace.tenant.values) == tenants
    assert float(trace.gpus @ trace.duration_s) == gpu_s


@pytest.mark.long
def test_memory_stays_bounded_on_five_million_rows(tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    with path.open("w") as file:
        file.write("job_id,submit_s,gpus,duration_s,tenant\n")
        for first in range(0, 5_000_000, 100_000):
            file.writelines(f"j{i},{i}.25,{1 + i % 8},{i % 977}.5,t{i % 13}\n" for i in range(first, first + 100_000))
    code = (
        "from fairlead.workload.readers import load_trace\n"
        f"trace = load_trace({str(path)!r}).trace\n"
        "assert len(trace) == 5_000_000 and trace.job_id(4_999_999) == 'j4999999'\n"
        # not ru_maxrss: what the process held that began this one counts there too
        "print(next(int(line.split()[1]) // 1024 for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 800  # the columns are 5e6 * 48 bytes, a list of str would be 300 MiB more
