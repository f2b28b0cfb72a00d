"""Every placer on small clusters: which GPUs each job gets. And docs/add-a-placer.md, which adds one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fairlead.core.plugs import parse_choice
from fairlead.model.cluster import ClusterSpec, NodeSpec, parse_cluster_shape
from fairlead.model.errors import InputError
from fairlead.placement.base import Placer
from fairlead.placement.registry import placers
from fairlead.sim.profiles import Profile, Profiles
from fairlead.sim.run import simulate
from fairlead.state.rules import Options
from fairlead.workload.trace import Names, Trace
from test_against_reference import rows_of
from test_policies import ROOT, follow_document


@dataclass(frozen=True)
class Case:
    """Jobs that come one after another, and the GPUs each gets: GPUs 0.. of the first node, then those of the next."""

    placer: str
    says: str
    cluster: ClusterSpec | str
    jobs: Sequence[float]  #: GPUs; below 1 a share; 0 a job of CPU only
    gets: str  #: per job: GPU ids joined by '+', 'nN' for node N, '-' where it waits, 'x' where it is refused


RACKS = ClusterSpec(
    tuple(NodeSpec(f"n{i}", 2, path=(f"rack-{i // 2}",)) for i in range(6)),
    levels=("rack",),
)
SMALL_CPU = ClusterSpec(tuple(NodeSpec(f"n{i}", 4, cpu_milli=4000, memory_mib=4096) for i in range(2)))
TYPES = "2x2@V100+2x2@T4"
FAST_LAST = ClusterSpec(
    tuple(NodeSpec(f"n{i}", 2, "T4" if i < 2 else "A100") for i in range(4)), speeds={"T4": 0.5, "A100": 2.0}
)
PACK = "reserve-and-pack:high=V100"

CASES = [
    Case("consolidate", "a gang goes to the node with the least free GPUs that are enough", "2x4", [3, 1, 2], "0+1+2 3 4+5"),
    Case("consolidate", "a gang larger than a node takes whole nodes and one part", "3x4", [1, 6], "0 4+5+6+7+1+2"),
    Case("consolidate", "a gang waits rather than take more nodes than it must", "2x4", [3, 3, 2], "0+1+2 4+5+6 -"),
    Case("consolidate", "the largest capacity that fits is taken whole", "2x2+2x4", [6], "4+5+6+7+0+1"),
    Case("consolidate", "a share goes to the GPU with the least free part that is enough", "1x2", [0.5, 0.75, 0.5, 0.25], "0 1 0 1"),
    Case("consolidate", "more than there is can never be had", "2x4", [9], "x"),
    Case("consolidate:relaxed=true", "a gang takes more nodes rather than wait", "2x4", [3, 3, 2], "0+1+2 4+5+6 3+7"),
    Case("spread", "each GPU is on the node with the most free ones", "3x4", [3, 1, 2], "0+4+8 1 5+9"),
    Case("spread", "a share goes to the GPU with the most free", "1x2", [0.25, 0.25, 0.5], "0 1 0"),
    Case("first-fit", "a gang goes to the first node that can take all of it", "2x4", [3, 2, 1], "0+1+2 4+5 3"),
    Case("first-fit", "or takes from each node what it has", "2x4", [3, 3, 2], "0+1+2 4+5+6 3+7"),
    Case("first-fit", "a share goes to the first GPU with enough free", "1x2", [0.5, 0.75, 0.25], "0 1 0"),
    Case("random", "the seed decides on the node", "8x1", [1, 1, 1, 1], "5 1 7 0"),
    Case("random", "a gang takes what each drawn node has", "2x2", [3], "2+3+0"),
    Case("rack", "one node is better than one rack", RACKS, [1, 2, 1], "0 2+3 1"),
    Case("rack", "one rack is better than two, and the fullest rack that is enough is best", RACKS, [1, 3], "0 2+3+1"),
    Case("rack", "the cluster is better than waiting", RACKS, [3, 3, 3, 2], "0+1+2 4+5+6 8+9+10 3+7"),
    Case("rack:within=rack", "unless it may not leave a rack", RACKS, [3, 3, 3, 2], "0+1+2 4+5+6 8+9+10 -"),
    Case("rack:within=rack", "a gang larger than a rack is refused then", RACKS, [5], "x"),
    Case("fragmentation", "a share goes where others like it leave no waste", "1x3", [0.5, 0.5, 1, 0.5], "0 0 1 2"),
    Case("fragmentation", "a gang goes where it leaves room that others can use", "1x2+1x4", [2, 4], "0+1 2+3+4+5"),
    Case("skew", "a job whose model is skewed waits for the fewest nodes", "2x4", [3, 3, 2], "0+1+2 4+5+6 -"),
    Case("skew:limit=0.6", "one below the limit takes what there is", "2x4", [3, 3, 2], "0+1+2 4+5+6 3+7"),
    Case("balance", "a gang goes to the node of which the least is taken", "2x4", [1, 1, 2, 1], "0 4 1+2 5"),
    Case("balance", "one larger than a node takes the emptiest nodes", "2x4", [1, 5], "0 4+5+6+7+1"),
    Case("balance", "a share goes to the fullest GPU of the emptiest node", "2x2", [0.5, 0.5, 0.5], "0 2 0"),
    Case("balance", "CPU weighs as much as GPUs do", SMALL_CPU, [0, 1, 1, 1], "n0 4 5 0"),
    Case("balance:cpu=2", "or more", SMALL_CPU, [0, 1, 1, 1, 1, 1], "n0 4 5 6 7 0"),
    Case("balance:gpu=0", "or alone", SMALL_CPU, [0, 1, 1], "n0 4 5"),
    Case("balance", "a job of no GPU goes to the node of which the least is taken", SMALL_CPU, [0, 0, 0], "n0 n1 n0"),
    Case(PACK, "gangs go to the high-end type, single GPUs to the weakest", TYPES, [2, 1, 1, 2], "0+1 4 5 2+3"),
    Case(PACK, "single GPUs take the high-end ones when there are no others", TYPES, [1, 1, 1, 1, 1], "4 5 6 7 0"),
    Case(PACK + ",keep=0.5", "unless too few of those would be left", TYPES, [1, 1, 1, 1, 1, 1, 1], "4 5 6 7 0 1 -"),
    Case(PACK + ",keep=1", "or unless they are all kept", TYPES, [1, 1, 1, 1, 1], "4 5 6 7 -"),
    Case(PACK, "gangs take weak GPUs rather than wait", TYPES, [2, 2, 2], "0+1 2+3 4+5"),
    Case(PACK + ",waits=true", "unless they are told to wait", TYPES, [2, 2, 2, 1], "0+1 2+3 - 4"),
    Case(PACK + ",gpus=3", "who is high-GPU is a matter of parallelism", TYPES, [2, 3], "4+5 0+1+2"),
    Case(PACK, "a gang stays on one type as long as it can", TYPES, [1, 4, 3], "4 0+1+2+3 6+7+5"),
    Case(PACK, "and takes several types when it must", TYPES, [6], "0+1+2+3+4+5"),
    Case(PACK, "a share goes to the fullest GPU of the weakest type", TYPES, [0.5, 0.75, 0.5], "4 5 4"),
    Case("reserve-and-pack", "the fastest types are the high-end ones", FAST_LAST, [2, 1, 1, 1], "4+5 0 1 2"),
    Case("reserve-and-pack", "without types or speeds it packs", "2x4", [3, 1, 2], "0+1+2 3 4+5"),
    *(
        Case(name, "a job of no GPU goes to the first node with room", SMALL_CPU, [0, 0, 0], "n0 n0 n1")
        for name in ("consolidate", "spread", "first-fit", "random", "rack", "fragmentation", "skew", "reserve-and-pack")
    ),
]  # fmt: skip


def placed(case: Case) -> str:
    jobs = np.array(case.jobs)
    gpus = np.ceil(jobs).astype(np.int32)
    trace = Trace(
        submit_s=np.zeros(len(jobs)),
        gpus=gpus,
        duration_s=np.full(len(jobs), 10.0),
        gpu_share_milli=np.where((jobs > 0) & (jobs < 1), (jobs * 1000).astype(np.int32), 1000).astype(np.int32),
        cpu_milli=np.where(gpus == 0, 2000, 0),
        profile=Names(np.zeros(len(jobs), np.int32), ("vgg",)),
    )
    cluster = parse_cluster_shape(case.cluster) if isinstance(case.cluster, str) else case.cluster
    profiles = Profiles({"vgg": Profile(skew=0.5)})
    run = simulate(trace, cluster, "fifo-backfill", case.placer, Options(seed=1), profiles)
    got = ["-"] * len(jobs)
    for time_s, kind, job, detail in rows_of(run):
        if time_s > 0:
            break
        at = int(run.journal.arg[list(run.journal.job).index(job)])
        ids = run.journal.gpu_ids[at : at + max(int(gpus[job]), 1)].tolist()  # in the order they were taken
        got[job] = "x" if kind.name == "REFUSE" else "+".join(f"n{-1 - i}" if i < 0 else str(i) for i in ids)
        assert kind.name == "REFUSE" or tuple(sorted(ids)) == detail
    return " ".join(got)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.placer}: {case.says}" for case in CASES])
def test_jobs_are_placed_where_the_placer_says(case: Case) -> None:
    assert placed(case) == case.gets


def test_a_job_is_high_gpu_by_its_efficiency_where_that_is_known() -> None:
    profiles = Profiles({"dense": Profile(utilization=0.6), "sparse": Profile(utilization=0.1), "other": Profile()})
    trace = Trace(
        submit_s=np.zeros(4),
        gpus=np.array([1, 2, 1, 2], np.int32),
        duration_s=np.full(4, 10.0),
        profile=Names(np.array([0, 1, 2, 2], np.int32), ("dense", "sparse", "other")),
    )
    run = simulate(trace, parse_cluster_shape("1x4@V100+1x4@T4"), "fifo", PACK, profiles=profiles)
    assert [detail for _, kind, _, detail in rows_of(run) if kind.name == "START"] == [(0,), (4, 5), (6,), (1, 2)]


def test_a_job_that_insists_on_a_high_end_type_gets_it_whatever_is_kept() -> None:
    trace = Trace(
        submit_s=np.zeros(2),
        gpus=np.ones(2, np.int32),
        duration_s=np.full(2, 10.0),
        gpu_type=Names(np.array([0, -1], np.int32), ("V100",)),
    )
    run = simulate(trace, parse_cluster_shape("1x2@V100+1x2@T4"), "fifo", PACK + ",keep=1")
    assert [detail for _, kind, _, detail in rows_of(run) if kind.name == "START"] == [(0,), (2,)]


def test_every_placer_has_a_case() -> None:
    ours = {name for name, placer in placers().items() if placer.__module__.startswith("fairlead.")}
    assert ours - {parse_choice(case.placer).name for case in CASES} == set(), "these placers have no case"


@pytest.mark.parametrize(
    ("placer", "sentence"),
    [
        ("consolidated", "no placer is called 'consolidated'; did you mean 'consolidate'?"),
        ("consolidate:relax=true", "no parameter of consolidate is called 'relax'; did you mean 'relaxed'?"),
        ("rack:within=row", "the cluster has no such topology level"),
        ("balance:cpu=-1", "a weight is not negative"),
        ("reserve-and-pack:high=V100", "the cluster has no such GPU type"),
        ("reserve-and-pack:keep=2", "what is kept is a share"),
    ],
)
def test_a_placer_that_can_not_be_used_is_an_error_with_a_sentence(placer: str, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        placed(Case(placer, "", RACKS, [1], ""))


@pytest.mark.parametrize("name", [name for name, p in placers().items() if p.takes_fewest_nodes(dict(p.parameters))])
def test_a_placer_that_promises_the_fewest_nodes_keeps_its_promise(name: str) -> None:
    for sizes in ([3, 5, 6], [7, 1, 4], [2, 2, 9]):
        for ids, gpus in zip(placed(Case(name, "", "4x4", sizes, "")).split(), sizes):
            if ids not in ("-", "x"):
                assert len({int(gpu) // 4 for gpu in ids.split("+")}) == -(-gpus // 4)


def test_every_placer_is_a_placer() -> None:
    assert all(issubclass(placer, Placer) for placer in placers().values())


def test_the_commands_of_add_a_placer_run_and_print_what_it_shows(tmp_path: Path) -> None:
    """The package of the document is installed by hand: an entry point is a line in a file beside it."""
    text = (ROOT / "docs" / "add-a-placer.md").read_text(encoding="utf-8")
    toml = re.search(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert toml is not None
    entry_points = tomllib.loads(toml[1])["project"]["entry-points"]
    installed = tmp_path / "emptiest-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: emptiest\nVersion: 1.0\n", encoding="utf-8")
    lines = [
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in entry_points.items()
    ]
    (installed / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    assert follow_document("add-a-placer.md", tmp_path) >= 2
