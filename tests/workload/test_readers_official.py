"""The published formats, on invented rows in their layout, and on the real files where they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.model.errors import InputError
from fairlead.workload.readers import load_trace, table
from fairlead.workload.trace import Names, Status

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the real traces are not here")


@pytest.fixture(params=["exact", "fast"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "fast":
        monkeypatch.setattr(table, "FAST_BYTES", 0)


def write(tmp_path: Path, text: str, name: str = "file") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def decoded(names: Names | None) -> list[str | None]:
    assert names is not None
    return [names.values[code] if code >= 0 else None for code in names.codes.tolist()]


def listed(values: Any) -> list[Any]:
    assert values is not None
    return list(values)


HELIOS = """\
job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,uAn,vcA,train.sh,8,32,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:01:10,2020-04-01 01:01:10,3600,60
12,uBo,vcB,"a, b",0,4,1,COMPLETED,2020-04-01 00:00:11,2020-04-01 00:00:11,2020-04-01 00:00:21,10,0
13,uBo,vcB,"a, b",16,64,2,NODE_FAIL,2020-04-01 00:00:05,2020-04-01 00:00:05,2020-04-01 00:00:06,1,0
14,uAn,vcA,train.sh,1,4,1,CANCELLED,2020-04-01 00:00:12,None,2020-04-01 00:00:22,0,10
15,uAn,vcA,train.sh,1,4,1,TIMEOUT,2020-04-01 00:00:13,2020-04-01 00:00:13,2020-04-01 00:00:13,0,0
"""


def test_helios(tmp_path: Path) -> None:
    loaded = load_trace(write(tmp_path, HELIOS))
    trace = loaded.trace
    assert loaded.format == "helios"
    assert loaded.dropped == {"asks for no GPU": 1, "never started": 1, "ran for 0 s": 1}
    assert trace.origin == "2020-04-01T00:00:05"
    assert listed(trace.job_ids) == [13, 11]
    assert trace.submit_s.tolist() == [0, 5]
    assert trace.duration_s.tolist() == [1, 3600]
    assert trace.gpus.tolist() == [16, 8]
    assert decoded(trace.tenant) == ["vcB", "vcA"]
    assert decoded(trace.group) == ["a, b", "train.sh"]
    assert listed(trace.cpu_milli) == [64_000, 32_000]
    assert listed(trace.status) == [Status.FAILED, Status.PASSED]
    assert not any("node_num" in note for note in trace.notes)


def test_helios_with_an_impossible_end(tmp_path: Path) -> None:
    text = HELIOS.replace("2020-04-01 01:01:10,3600", "2020-03-31 01:01:10,3600")
    with pytest.raises(InputError, match=r"file:2, column 'end_time': this is before the job's start"):
        load_trace(write(tmp_path, text))
    with pytest.raises(InputError, match=r"file:2, column 'submit_time': this is not a time; got 'x'"):
        load_trace(write(tmp_path, HELIOS.replace("2020-04-01 00:00:10", "x")))


SEREN = """\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
7,u1,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,936.0
8,u2,2,16,256,Pretrain,COMPLETED,2023-03-01 00:18:20+08:00,2023-03-01 00:18:20+08:00,2023-03-01 00:18:30+08:00,10,0,160.0
"""
KALOS = """\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time
dlc1,uf,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0
dlc2,uf,1,8,90,,,Other,CANCELLED,2023-05-17 11:00:59+00:00,,2023-05-17 11:01:16+00:00,,,17,,
dlc3,uf,1,0,90,10,,Other,COMPLETED,2023-05-17 11:00:59+00:00,2023-05-17 11:01:00+00:00,2023-05-17 11:01:16+00:00,,,17,1.0,0
"""


def test_acme_seren(tmp_path: Path) -> None:
    loaded = load_trace(write(tmp_path, SEREN))
    assert loaded.format == "acme"
    assert loaded.trace.origin == "2023-03-01T00:18:20+08:00"
    assert listed(loaded.trace.job_ids) == [8, 7]
    assert loaded.trace.duration_s.tolist() == [10, 117]
    assert listed(loaded.trace.status) == [Status.PASSED, Status.FAILED]


def test_acme_kalos_counts_from_the_start(tmp_path: Path) -> None:
    loaded = load_trace(write(tmp_path, KALOS))
    assert loaded.dropped == {"never started": 1, "asks for no GPU": 1}
    assert loaded.trace.duration_s.tolist() == [8]  # its duration column says 18: from submission
    assert listed(loaded.trace.memory_mib) == [8 * 1000 * 1024]
    assert loaded.trace.origin == "2023-05-17T11:00:58+00:00"


def test_openb(tmp_path: Path) -> None:
    text = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,0,125,0
p1,6000,12288,1,460,V100M16,LS,Succeeded,4,29,9
p2,20000,65536,0,0,,LS,Failed,5,30,6
p3,20000,65536,8,1000,V100M16|V100M32,LS,Failed,5,30,6
p4,1000,1,1,500,,BE,Pending,6,30,
"""
    loaded = load_trace(write(tmp_path, text))
    trace = loaded.trace
    assert (loaded.format, loaded.dropped) == ("openb", {"never started": 1})
    assert trace.gpus.tolist() == [1, 1, 0, 8]
    assert listed(trace.gpu_share_milli) == [1000, 460, 1000, 1000]
    assert trace.duration_s.tolist() == [125, 20, 24, 24]
    assert decoded(trace.gpu_type) == [None, "V100M16", None, None]
    assert listed(trace.cpu_milli) == [12000, 6000, 20000, 20000]
    assert listed(trace.status) == [Status.UNKNOWN, Status.PASSED, Status.FAILED, Status.FAILED]


def test_the_merged_lists(tmp_path: Path) -> None:
    text = """\
job_id,submit_time,num_gpus,duration_s,vc,in_pollux_subset
0,2017-08-14 23:27:00,1,9,a,False
1,2017-08-14 23:28:30,2,0,,True
2,2017-08-14 23:29:00,2,3,,True
"""
    loaded = load_trace(write(tmp_path, text))
    assert (loaded.format, loaded.dropped) == ("philly-merged", {"ran for 0 s": 1})
    assert loaded.trace.submit_s.tolist() == [0, 120]
    assert decoded(loaded.trace.tenant) == ["a", None]
    text = "job_id,submission_time,duration,num_gpu\nx-1,50,9,64\nx-2,70,3,1\n"
    loaded = load_trace(write(tmp_path, text))
    assert (loaded.format, listed(loaded.trace.job_ids), loaded.shift_s) == ("itp", ["x-1", "x-2"], 50)
    text = """\
# slice
# a, b
job_id,user,tenant,class,submit_time,num_chips,chip_type,num_nodes,duration_s,walltime_limit_s,final_status
5,u,v,finetune,5000000,16,,2,24.0,24.0,CANCELED
"""
    loaded = load_trace(write(tmp_path, text))
    assert (loaded.format, loaded.shift_s, loaded.trace.gpus.tolist()) == ("helios-slice", 5, [16])
    assert loaded.trace.gpu_type is None
    assert listed(loaded.trace.status) == [Status.KILLED]


def philly_job(number: int, attempts: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": f"application_{number}",
        "attempts": attempts,
        "submitted_time": f"2017-10-07 01:11:{number:02}",
        "user": "ce2f4c",
        **more,
    }


def attempt(start: str | None, end: str | None, gpus: int = 2, machines: int = 1) -> dict[str, Any]:
    detail = [{"ip": f"m{m}", "gpus": [f"gpu{g}" for g in range(gpus)]} for m in range(machines)]
    return {"start_time": start and f"2017-10-07 {start}", "end_time": end and f"2017-10-07 {end}", "detail": detail}


PHILLY = [
    philly_job(39, [attempt("01:12:09", "01:13:23", 8), attempt("01:13:30", "02:00:00", 8)]),
    philly_job(20, [attempt("01:12:00", "01:13:00", 4, 3)], status="Killed", user="bo"),
    philly_job(21, []),
    philly_job(22, [attempt("01:12:00", None)]),
    philly_job(23, [attempt(None, None)]),
    philly_job(24, [attempt("01:12:00", "01:12:00")]),
    philly_job(25, [attempt(None, "01:15:00", 1), attempt("01:16:00", "01:17:00", 1)], status="Failed"),
]


@pytest.mark.parametrize("indent", [None, 4])
def test_philly(tmp_path: Path, indent: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.workload.readers.philly._CHUNK_BYTES", 64)
    loaded = load_trace(write(tmp_path, json.dumps(PHILLY, indent=indent), "cluster_job_log"))
    trace = loaded.trace
    assert loaded.format == "philly"
    assert loaded.dropped == {"never started": 2, "still running when the trace ends": 1, "ran for 0 s": 1}
    assert listed(trace.job_ids) == ["application_20", "application_25", "application_39"]
    assert trace.origin == "2017-10-07T01:11:20"
    assert trace.submit_s.tolist() == [0, 5, 19]
    assert trace.gpus.tolist() == [12, 1, 8]
    assert trace.duration_s.tolist() == [60, 60, 74 + 2790]
    assert listed(trace.attempts) == [1, 2, 2]
    assert listed(trace.status) == [Status.KILLED, Status.FAILED, Status.PASSED]
    assert decoded(trace.user) == ["bo", "ce2f4c", "ce2f4c"]
    assert len(load_trace(tmp_path / "cluster_job_log", limit=1).trace) == 1


BAD_PHILLY = {
    "a time that is none": ({"submitted_time": "today"}, "submitted_time", "this is not a time"),
    "no time": ({"submitted_time": None}, "submitted_time", "missing"),
    "attempts that are no list": ({"attempts": 3}, "attempts", "no list"),
    "an attempt that is none": ({"attempts": ["x"]}, r"attempts[0]", "no object"),
    "an end before the start": ({"attempts": [attempt("02:00:00", "01:00:00")]}, "attempts[0].end_time", "before"),
    "a strange end": ({"attempts": [attempt("01:00:00", "x")]}, "attempts[0].end_time", "not a time"),
    "a detail that is none": ({"attempts": [{"detail": 3}]}, "attempts[0].detail", "no list"),
}


@pytest.mark.parametrize("case", BAD_PHILLY)
def test_a_bad_philly_job_is_named(case: str, tmp_path: Path) -> None:
    change, column, words = BAD_PHILLY[case]
    jobs = [json.dumps(PHILLY[0]), json.dumps({**PHILLY[1], **change}), json.dumps(PHILLY[1])]
    path = write(tmp_path, "[\n" + ",\n".join(jobs) + "\n]\n")
    with pytest.raises(InputError) as caught:
        load_trace(path)
    assert (caught.value.line, caught.value.column) == (3, column)
    assert words in str(caught.value)
    loaded = load_trace(path, skip_bad=True)
    assert (len(loaded.trace), loaded.bad_count, loaded.bad[0].line) == (2, 1, 3)


@pytest.mark.parametrize("end", ["", ",", ',\n{"status": ', "\n}", "\n{}", ",\nnonsense]"])
def test_broken_json_is_named(end: str, tmp_path: Path) -> None:
    path = write(tmp_path, "[" + json.dumps(PHILLY[0]) + end)
    with pytest.raises(InputError) as caught:
        load_trace(path)
    assert caught.value.line == 1 + end.count("\n")
    assert len(load_trace(path, skip_bad=True).trace) == 1


HEX = "0123456789abcdef" * 3
JOBS = f"""\
j1,{HEX}01,ann,Terminated,100.0,900.0
j2,{HEX}02,bob,Failed,50.0,60.0
j3,{HEX}03,bob,Running,70.0,
j4,{HEX}04,bob,Terminated,80.0,90.0
j5,{HEX}05,ann,Terminated,85.0,90.0
j6,{HEX}06,ann,Terminated,86.0,99.0
"""
TASKS = """\
j1,ps,1.0,Terminated,110.0,905.0,600.0,29.296875,,
j1,worker,2.0,Terminated,120.0,900.0,400.0,10.0,50.0,MISC
j2,tensorflow,1.0,Failed,55.0,60.0,600.0,1.5,25.0,T4
j3,tensorflow,1.0,Running,75.0,,600.0,1.0,100.0,T4
j5,worker,3.0,Terminated,86.0,96.0,100.0,1.0,50.0,P100
j6,worker,1.0,Terminated,90.0,99.0,100.0,1.0,,
j7,worker,1.0,Terminated,90.0,99.0,100.0,1.0,100.0,T4
"""
INSTANCES = f"""\
j1,worker,i1,w1,{HEX}01,Terminated,115.0,910.0,m1
j3,tensorflow,i1,w1,{HEX}03,Running,75.0,,m1
"""
TAGS = f"{HEX}01,ann,V100,group7,nmt\n{HEX}02,bob,,group8,\n"


def test_pai_tables(tmp_path: Path) -> None:
    for name, text in {"a.csv": JOBS, "b.csv": TASKS, "c.csv": INSTANCES, "d": TAGS, "README": "words\n"}.items():
        write(tmp_path, text, name)
    loaded = load_trace(tmp_path)
    trace = loaded.trace
    assert loaded.format == "pai"
    assert loaded.dropped == {"has no tasks": 1, "still running when the trace ends": 1}
    assert listed(trace.job_ids) == ["j2", "j5", "j6", "j1"]
    assert trace.submit_s.tolist() == [0, 35, 36, 50]
    assert trace.duration_s.tolist() == [5, 10, 9, 800]
    assert trace.gpus.tolist() == [1, 2, 0, 1]
    assert listed(trace.gpu_share_milli) == [250, 1000, 1000, 1000]
    assert listed(trace.cpu_milli) == [6000, 3000, 1000, 14000]
    assert listed(trace.memory_mib) == [1536, 3072, 1024, 50480]
    assert listed(trace.status) == [Status.FAILED, Status.PASSED, Status.PASSED, Status.PASSED]
    assert decoded(trace.user) == ["bob", "ann", "ann", "ann"]
    assert decoded(trace.group) == ["group8", None, None, "group7"]
    assert decoded(trace.gpu_type) == [None, None, None, "V100"]
    assert any("1 jobs of more than one GPU had a fraction" in note for note in trace.notes)
    assert len(load_trace(tmp_path, limit=2).trace) == 2


def test_pai_tables_one_by_one(tmp_path: Path) -> None:
    jobs, tasks = write(tmp_path, JOBS, "1"), write(tmp_path, TASKS, "2")
    trace = load_trace([tasks, jobs]).trace
    assert len(trace) == 4
    assert trace.gpu_type is None
    alone = load_trace(tasks).trace
    assert listed(alone.job_ids) == ["j2", "j5", "j6", "j7", "j1"]
    assert any("submitted when its first task starts" in note for note in alone.notes)
    with pytest.raises(InputError, match="the tasks, which say how many GPUs"):
        load_trace(jobs)
    with pytest.raises(InputError, match="this is a task table, and so is 2"):
        load_trace([tasks, write(tmp_path, TASKS, "3")])
    with pytest.raises(InputError, match=r"4:2, column 'plan_gpu': this is not a number; got 'half'"):
        load_trace(write(tmp_path, TASKS.replace("50.0,MISC", "half,MISC"), "4"))
    headed = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n" + TASKS
    assert len(load_trace(write(tmp_path, headed, "5")).trace) == 5


def test_lingjun(tmp_path: Path) -> None:
    jobs = """\
id,uid,job_name,kind,model,status,reason,tenant_id,user_id,priority,gmt_job_submitted,gmt_job_running,gmt_job_stopped,gmt_job_finished
1,x,dlc1,PyTorchJob,gpt,Succeeded,"fine
really",t1,u1,5,2023/7/15 02:19,2023/7/15 02:20,,2023/7/15 03:20
2,x,dlc2,PyTorchJob,gpt,Stopped,,t1,u2,,2023/7/15 02:10,2023/7/15 02:20,2023/7/15 02:30,
3,x,dlc3,PyTorchJob,gpt,Failed,,t2,u2,1,2023/7/15 02:11,,,2023/7/15 02:30
4,x,dlc4,TFJob,gpt,Failed,,t2,u2,1,2023/7/15 02:11,2023/7/15 02:12,,2023/7/15 02:30
"""
    workers = """\
id,job_name,worker_name,replica_type,host_ip,RES
1,dlc1,w0,master,h1,"{""cpu"":""90"",""memory"":""500Gi"",""nvidia.com/gpu"":""8""}"
2,dlc1,w1,worker,h2,"{""cpu"":""90"",""memory"":""500Gi"",""nvidia.com/gpu"":""8""}"
3,dlc2,w0,master,h1,"{""cpu"":""500m"",""memory"":1073741824,""nvidia.com/gpu"":1}"
4,dlc4,w0,master,h1,"{""cpu"":""4""}"
"""
    write(tmp_path, jobs, "job.csv")
    write(tmp_path, workers, "worker.csv")
    write(tmp_path, "ip,DSW,PSW,ASW\nh1,G,P,S\n", "topo.csv")
    loaded = load_trace(tmp_path)
    trace = loaded.trace
    assert (loaded.format, loaded.dropped) == ("lingjun", {"never started": 1, "asks for no GPU": 1})
    assert listed(trace.job_ids) == ["dlc2", "dlc1"]
    assert trace.origin == "2023-07-15T02:10:00"
    assert trace.submit_s.tolist() == [0, 540]
    assert trace.duration_s.tolist() == [600, 3600]
    assert trace.gpus.tolist() == [1, 16]
    assert listed(trace.cpu_milli) == [500, 180_000]
    assert listed(trace.memory_mib) == [1024, 1_024_000]
    assert listed(trace.priority) == [0, 5]
    assert listed(trace.status) == [Status.KILLED, Status.PASSED]
    assert decoded(trace.tenant) == ["t1", "t1"]
    with pytest.raises(InputError, match=r"worker\.csv, which has their GPUs, is not there"):
        load_trace(tmp_path / "job.csv")
    write(tmp_path, workers.replace('""memory"":1073741824', '""memory"":""lots""'), "worker.csv")
    with pytest.raises(InputError, match=r"worker\.csv:4, column 'RES': these are no resources"):
        load_trace(tmp_path)


@needs_shared
@pytest.mark.parametrize(
    ("file", "format", "jobs", "dropped", "gpus", "gpu_s"),
    [
        ("pods/openb_pod_list_default.csv", "openb", 7255, {"never started": 897}, 8, 214_603_958),
        ("train/helios_venus_2vc_sept2020.csv", "helios-slice", 1867, {}, 144, 425_944_113),
        ("train/philly_to_2017-10.csv.gz", "philly-merged", 66_986, {"ran for 0 s": 6}, 128, 7_729_203_031),
        ("train/itp2021/cluster01.csv.gz", "itp", 1595, {}, 64, 81_864_453),
        ("train/itp2021/cluster02.csv.gz", "itp", 5778, {}, 64, 445_494_106),
        ("train/itp2021/cluster03.csv.gz", "itp", 3011, {}, 64, 595_593_077),
        ("train/itp2021/cluster05.csv.gz", "itp", 3629, {}, 8, 51_491_311),
        ("train/itp2021/cluster06.csv.gz", "itp", 2396, {}, 64, 445_963_163),
        ("train/itp2021/cluster10.csv.gz", "itp", 260, {}, 16, 14_484_569),
    ],
)
def test_the_real_files(file: str, format: str, jobs: int, dropped: dict[str, int], gpus: int, gpu_s: int) -> None:
    loaded = load_trace(SHARED / file)
    trace = loaded.trace
    assert (loaded.format, len(trace), loaded.dropped, loaded.bad_count) == (format, jobs, dropped, 0)
    assert int(trace.gpus.max()) == gpus
    assert float(trace.gpus @ trace.duration_s) == gpu_s
    assert (np.diff(trace.submit_s) >= 0).all()
    assert trace.submit_s[0] == 0
    assert (trace.duration_s > 0).all()


@needs_shared
@pytest.mark.parametrize("file", ["summary_helios.csv", "summary_acme_philly_helios_pai.csv"])
def test_summaries_are_no_traces(file: str) -> None:
    with pytest.raises(InputError, match="none of the trace formats"):
        load_trace(SHARED / "train" / file)
