"""What is wrong is named: file, line, column, value and what would do. The same through both parsers."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from fairlead.model.errors import InputError
from fairlead.workload.readers import load_trace, table
from fairlead.workload.readers.report import KEPT_BAD_ROWS

HEADER = "job_id,submit_s,gpus,duration_s,gpu_share,memory,status,priority,min_gpus,max_gpus,preemptible,num_nodes"
GOOD = "1,0,1,1,,,,,,,,"

#: what is wrong in the row; line 4 of the file; column, value and words of the error
BAD_ROWS = {
    "text for seconds": ("2,soon,1,1,,,,,,,,", "submit_s", "soon", "not a number"),
    "no seconds": ("2,,1,1,,,,,,,,", "submit_s", "", "empty"),
    "a NaN duration": ("2,0,1,nan,,,,,,,,", "duration_s", "nan", "finite"),
    "an endless duration": ("2,0,1,inf,,,,,,,,", "duration_s", "inf", "finite"),
    "a negative duration": ("2,0,1,-3.5,,,,,,,,", "duration_s", "-3.5", "below 0"),
    "an underscore": ("2,1_000,1,1,,,,,,,,", "submit_s", "1_000", "not a number"),
    "half a GPU": ("2,0,0.5,1,,,,,,,,", "gpus", "0.5", "gpu_share"),
    "minus one GPU": ("2,0,-1,1,,,,,,,,", "gpus", "-1", "below 0"),
    "a billion GPUs": ("2,0,1e9,1,,,,,,,,", "gpus", "1e9", "above 1e+06"),
    "no id": (",0,1,1,,,,,,,,", "job_id", "", "empty"),
    "a share above 1": ("2,0,1,1,1.5,,,,,,,", "gpu_share", "1.5", "0.001 to 1"),
    "a share of two GPUs": ("2,0,2,1,0.5,,,,,,,", "gpu_share", "0.5", "1 under gpus"),
    "a strange size": ("2,0,1,1,,16 elephants,,,,,,", "memory", "16 elephants", "16GiB"),
    "an unknown status": ("2,0,1,1,,,purple,,,,,", "status", "purple", "passed, failed"),
    "half a priority": ("2,0,1,1,,,,0.5,,,,", "priority", "0.5", "whole"),
    "min above gpus": ("2,0,1,1,,,,,2,,,", "min_gpus", "2", "at most gpus"),
    "max below gpus": ("2,0,4,1,,,,,,2,,", "max_gpus", "2", "at least gpus"),
    "neither yes nor no": ("2,0,1,1,,,,,,,maybe,", "preemptible", "maybe", "true or false"),
    "uneven parts": ("2,0,5,1,,,,,,,,2", "num_nodes", "2", "divides the job's gpus"),
    "nodes without GPUs": ("2,0,0,1,,,,,,,,2", "num_nodes", "2", "without GPUs"),
    "minus one node": ("2,0,1,1,,,,,,,,-1", "num_nodes", "-1", "below 0"),
    "too few fields": ("2,0,1,1", "gpu_share", "2,0,1,1", "4 fields where the header has 12"),
    "too many fields": ("2,0,1,1,,,,,,,,,,", None, "2,0,1,1,,,,,,,,,,", "14 fields where the header has 12"),
}


@pytest.mark.parametrize("fast", [False, True], ids=["exact", "fast"])
@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_is_named(case: str, fast: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row, column, value, words = BAD_ROWS[case]
    monkeypatch.setattr(table, "FAST_BYTES", 0 if fast else 1 << 20)
    path = tmp_path / "t.csv"
    path.write_text(f"# a comment\n{HEADER}\n{GOOD}\n{row}\n{GOOD}\n")
    with pytest.raises(InputError) as caught:
        load_trace(path)
    error = caught.value
    assert (error.file, error.line, error.column, error.value) == (str(path), 4, column, value)
    assert words in str(error)
    assert error.accepts

    loaded = load_trace(path, skip_bad=True)
    assert (len(loaded.trace), loaded.bad_count) == (2, 1)
    bad = loaded.bad[0]
    assert (bad.file, bad.line, bad.column, bad.value) == (str(path), 4, column, value)
    assert "skipped 1 bad rows" in loaded.trace.notes


def test_lines_are_physical_ones_after_quoted_line_breaks(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('job_id,submit_s,gpus,duration_s\n"a\n\nb",0,1,1\n\n# x\nc,0,one,1\n')
    with pytest.raises(InputError, match=r"t\.csv:7, column 'gpus'"):
        load_trace(path)


def test_all_bad_rows_are_counted_and_some_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\n0,0,1,1\n" + "1,0,x,1\n" * 250)
    loaded = load_trace(path, skip_bad=True)
    assert (len(loaded.bad), loaded.bad_count) == (KEPT_BAD_ROWS, 250)


def test_a_bad_row_deep_in_a_large_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.workload.readers.table.line_blocks", _small_blocks)
    path = tmp_path / "t.csv"
    rows = [f"{i},{i},1,1" for i in range(200_000)]
    rows[150_000] = "150000,150000,1,-1"
    path.write_text("job_id,submit_s,gpus,duration_s\n" + "\n".join(rows) + "\n")
    with pytest.raises(InputError, match=r"t\.csv:150002, column 'duration_s'.*got '-1'"):
        load_trace(path)


def _small_blocks(path: Path) -> object:
    from fairlead.workload.readers.source import line_blocks

    return line_blocks(path, 1_200_000)


def test_bad_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"job_id,submit_s,gpus,duration_s,tenant\n1,0,1,1,ok\n2,0,1,1,\xff\xfe\n")
    with pytest.raises(InputError, match=r"t\.csv:3: byte 9 of the line is not UTF-8"):
        load_trace(path)
    assert len(load_trace(path, skip_bad=True).trace) == 1


def test_a_quote_that_never_closes_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('job_id,submit_s,gpus,duration_s\n1,0,1,1\n"2,0,1,1\n3,0,1,1\n')
    with pytest.raises(InputError, match=r"t\.csv:3"):
        load_trace(path)


def test_a_truncated_gzip_is_named_and_its_whole_lines_can_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    rows = "".join(f"{i},{i * i},1,{i % 7 + 1}\n" for i in range(100_000))
    packed = gzip.compress(("job_id,submit_s,gpus,duration_s\n" + rows).encode())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match=r"t\.csv\.gz:\d+: the gzip data end before their end marker"):
        load_trace(path)
    loaded = load_trace(path, skip_bad=True)
    assert 10_000 < len(loaded.trace) < 100_000
    assert loaded.bad_count == 1
    assert loaded.bad[0].line == len(loaded.trace) + 2


def test_damaged_gzip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    packed = bytearray(gzip.compress(b"job_id,submit_s,gpus,duration_s\n" + b"1,0,1,1\n" * 50_000))
    packed[40:60] = bytes(20)
    path.write_bytes(packed)
    with pytest.raises(InputError, match="damaged"):
        load_trace(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"\n\n  \n", "the file is empty"),
        (b"# only\n# comments\n", "no header and no rows"),
        (b"job_id,submit_s,gpus,duration_s\n", "the trace has no jobs"),
        (b"job_id,submit_s,gpu,duration_s\n1,0,1,1\n", "column 'gpus': the column is missing; is 'gpu' meant"),
        (b"job_id,submit_s,gpus,duration\n1,0,1,1\n", "column 'duration_s': the column is missing; is 'duration'"),
        (b"job_id,submit_s,gpus,gpus,duration_s\n1,0,1,1,1\n", "column 'gpus': the column is there twice"),
        (b"colour,taste\nred,sweet\n", "none of the trace formats"),
        (b"sn,cpu_milli,memory_mib,gpu,model\nn,1,1,1,V\n", "a list of machines, not of jobs"),
        (b"PAR1 and no more", "this Parquet file can't be read"),
        (b"\x00" * 257 + b"ustar" + b"\x00" * 100, "tar archive"),
        (b'{"jobs": 1}\n', "none of the trace formats"),
    ],
)
def test_what_is_no_trace_is_said_so(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_trace(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_trace(tmp_path / "nope.csv")
    with pytest.raises(InputError, match="no file in this folder is a trace"):
        load_trace(tmp_path)
    with pytest.raises(InputError, match="no trace file was given"):
        load_trace([])
    with pytest.raises(InputError, match="limit"):
        load_trace(tmp_path, limit=0)


def test_when_every_row_is_bad_there_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\n1,x,1,1\n")
    with pytest.raises(InputError, match="no jobs that can be run \\(1 could not be read\\)"):
        load_trace(path, skip_bad=True)


def test_a_bad_row_of_a_parquet_file_has_its_number(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame(
        {"job_id": [1, 2, 3], "submit_s": [0.0, 1.0, 2.0], "gpus": [1, 2, 3], "duration_s": [1.0, None, -4.0]}
    ).write_parquet(path)
    with pytest.raises(InputError, match=r"t\.parquet:2, column 'duration_s': the cell is empty"):
        load_trace(path)
    loaded = load_trace(path, skip_bad=True)
    assert [(bad.line, bad.value) for bad in loaded.bad] == [(2, ""), (3, "-4.0")]
    pl.DataFrame({"job_id": [1], "submit_s": [0], "gpus": [[1]], "duration_s": [1]}).write_parquet(path)
    with pytest.raises(InputError, match="column 'gpus': the column holds List"):
        load_trace(path)


def test_files_of_different_formats_are_not_mixed(tmp_path: Path) -> None:
    one, other = tmp_path / "1.csv", tmp_path / "2.csv"
    one.write_text("job_id,submit_s,gpus,duration_s\n1,0,1,1\n")
    other.write_text("job_id,submission_time,duration,num_gpu\na,0,1,1\n")
    with pytest.raises(InputError, match=r"this is itp, but 1\.csv is canonical"):
        load_trace([one, other])
    with pytest.raises(InputError, match="several files in this folder are traces"):
        load_trace(tmp_path)
