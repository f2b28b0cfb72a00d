"""Clusters from shapes, YAML files and published lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairlead.model.cluster import NodeGroup, NodeSpec, TenantSpec, read_shape
from fairlead.model.errors import InputError
from fairlead.workload.clusters import load_cluster

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data" / "cluster"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the real lists are not here")


def load_text(tmp_path: Path, text: str, name: str = "cluster.yaml") -> object:
    path = tmp_path / name
    path.write_text(text)
    return load_cluster(str(path))


def test_a_shape_is_read_as_one() -> None:
    cluster = load_cluster("2x8@V100+1x4@T4")
    assert [(node.gpus, node.gpu_type) for node in cluster.nodes] == [(8, "V100"), (8, "V100"), (4, "T4")]
    with pytest.raises(InputError, match="no cluster shape"):
        load_cluster("many")
    with pytest.raises(InputError, match="no such file"):
        load_cluster("no-such.yaml")
    with pytest.raises(InputError, match="no such file"):
        load_cluster("no-such.csv")


def test_a_shape_says_how_much_it_is_before_anything_is_built() -> None:
    assert read_shape("2x8@V100 + 0001x4") == [NodeGroup(2, 8, "V100"), NodeGroup(1, 4, "")]
    assert read_shape("1000000000000x1") == [NodeGroup(10**12, 1, "")]
    assert read_shape("1x0000000000009999999999") == [NodeGroup(1, 9_999_999_999, "")]
    for shape in ("1x1000001", "2x500000+1x1", "1x" + "9" * 50, "1000000000000x1"):
        with pytest.raises(InputError, match="up to 1,000,000 GPUs in all"):
            load_cluster(shape)
    with pytest.raises(InputError, match="no cluster shape"):
        read_shape("9" * 5000 + "x8")


def test_the_example_in_the_docs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "cluster-file.md").read_text()
    example = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert example
    path = tmp_path / "example.yaml"
    path.write_text(example[1])
    cluster = load_cluster(str(path))
    assert (len(cluster.nodes), cluster.gpus, cluster.levels) == (53, 32 * 8 + 20 * 4 + 2, ("region", "rack"))
    assert cluster.nodes[0] == NodeSpec("v100-0", 8, "V100", 64_000, 524_288, 16_384, ("east", "rack-0"))
    assert cluster.nodes[16].path == ("east", "rack-1")
    assert cluster.nodes[32] == NodeSpec("t4-32", 4, "T4", path=("west", "rack-2"))
    assert cluster.nodes[51].path == ("west", "rack-3")
    assert cluster.nodes[52] == NodeSpec("big-memory", 2, "V100", 128_000, 2_097_152, None, ("east", "annex"))
    assert cluster.tenants["vision"] == TenantSpec("vision", 128, 2.0)
    assert cluster.tenants["guests"] == TenantSpec("guests", None, 1.0)
    assert cluster.speeds == {"V100": 1.0, "T4": 0.4}


def test_levels_nest_and_a_level_left_out_is_one_domain(tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    path.write_text("levels: [hall, row, rack]\ngroups: [{count: 6, gpus: 1, per: {rack: 2, row: 4}}]\n")
    cluster = load_cluster(str(path))
    assert [node.path for node in cluster.nodes] == [
        *[("hall-0", "row-0", "rack-0")] * 2,
        *[("hall-0", "row-0", "rack-1")] * 2,
        *[("hall-0", "row-1", "rack-2")] * 2,
    ]
    assert [node.name for node in cluster.nodes][:2] == ["node-0", "node-1"]


BAD_FILES = {
    "an unknown key": ("groups:\n  - {count: 1, gpus: 1}\ntenant: {a: {}}\n", 3, "tenant", "did you mean 'tenants'"),
    "an unknown key of a group": (
        "groups:\n  - count: 1\n    gpus: 1\n    gpu_typ: V100\n",
        4,
        "groups[0].gpu_typ",
        "did you mean 'gpu_type'",
    ),
    "an unknown key of a tenant": (
        "groups: [{count: 1, gpus: 1}]\ntenants:\n  a: {quota: 3}\n",
        3,
        "tenants.a.quota",
        "did you mean 'quota_gpus'",
    ),
    "text for a number": ("groups:\n  - count: many\n    gpus: 1\n", 2, "groups[0].count", "many"),
    "a negative number": ("groups:\n  - count: 1\n    gpus: -8\n", 3, "groups[0].gpus", "-8"),
    "a missing key": ("groups:\n  - count: 1\n", 2, "groups[0].gpus", "the key is missing"),
    "a level that is not there": (
        "groups:\n  - {count: 1, gpus: 1,\n     per: {rack: 2}}\n",
        3,
        "groups[0].per.rack",
        "there is no such level",
    ),
    "a node without its rack": ("levels: [rack]\nnodes:\n  - {name: a, gpus: 1}\n", 3, "nodes[0]", "has no rack"),
    "racks that don't fill a row": (
        "levels: [row, rack]\ngroups: [{count: 9, gpus: 1, per: {row: 5, rack: 2}}]\n",
        2,
        "groups[0].per",
        "a multiple of 2",
    ),
    "a level with a key's name": ("levels: [gpus]\nnodes: [{name: a, gpus: 1}]\n", 1, "levels[0]", "name a level"),
    "a speed of nothing": ("groups: [{count: 1, gpus: 1}]\nspeeds:\n  A: 0\n", 3, "speeds.A", "greater than 0"),
    "two nodes of one name": ("nodes: [{name: a, gpus: 1}, {name: a, gpus: 1}]\n", None, "name", "same name"),
    "a few zeros too many": ("groups:\n  - {count: 1000000000000, gpus: 8}\n", 2, "groups[0].count", "up to 1,000,000"),
    "too large together": (
        "groups: [{count: 999999, gpus: 1}]\nnodes:\n  - {name: a, gpus: 2}\n",
        3,
        "nodes[0].gpus",
        "no cluster has so many GPUs",
    ),
    "no nodes": ("levels: []\n", None, None, "no nodes"),
    "no mapping": ("- 1\n", None, None, "no cluster file"),
    "nothing": ("", None, None, "no cluster file"),
    "broken YAML": ("groups: [{count: 1\nlevels: [\n", 2, None, "the YAML is broken"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_named(case: str, tmp_path: Path) -> None:
    text, line, column, words = BAD_FILES[case]
    with pytest.raises(InputError) as caught:
        load_text(tmp_path, text)
    error = caught.value
    assert error.file == str(tmp_path / "cluster.yaml")
    assert words in str(error)
    assert error.column == column
    if line is not None:
        assert error.line == line


def test_small_lists_of_each_kind(tmp_path: Path) -> None:
    cases = {
        "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\nn1,96000,393216,8,G2\n": (
            NodeSpec("n0", 0, "", 32000, 262144),
            NodeSpec("n1", 8, "G2", 96000, 393216),
        ),
        "machine,gpu_type,cap_cpu,cap_mem,cap_gpu\na,CPU,96,512,0\nb,T4,96,512,2\n": (
            NodeSpec("a", 0, "", 96000, 524288),
            NodeSpec("b", 2, "T4", 96000, 524288),
        ),
        "a,CPU,96,512,0\nb,T4,96,512,2\n": (
            NodeSpec("a", 0, "", 96000, 524288),
            NodeSpec("b", 2, "T4", 96000, 524288),
        ),
        "machineId, number of GPUs, single GPU mem\nm31,8, 24GB\nm0,0, 12GB\n": (
            NodeSpec("m31", 8, gpu_memory_mib=24 * 1024),
        ),
        "ip,DSW,PSW,ASW\nh1,G6,P1,S1\nh2,G6,P2,S1\n": (
            NodeSpec("h1", 8, path=("G6", "G6/P1", "G6/P1/S1")),
            NodeSpec("h2", 8, path=("G6", "G6/P2", "G6/P2/S1")),
        ),
    }
    for text, nodes in cases.items():
        path = tmp_path / "list.csv"
        path.write_text(text)
        assert load_cluster(str(path)).nodes == nodes, text


def test_helios_quotas_are_those_of_a_day(tmp_path: Path) -> None:
    path = tmp_path / "gpus.csv"
    path.write_text("date,vcA,vcB,total\n2020-04-01,16,8,24\n2020-04-02,32,0,32\n")
    last = load_cluster(str(path))
    assert {name: tenant.quota_gpus for name, tenant in last.tenants.items()} == {"vcA": 32, "vcB": 0}
    assert (len(last.nodes), last.gpus) == (4, 32)
    first = load_cluster(f"{path}@2020-04-01")
    assert first.tenants["vcB"].quota_gpus == 8
    with pytest.raises(InputError, match="a day from 2020-04-01 to 2020-04-02"):
        load_cluster(f"{path}@2021-01-01")


def test_a_bad_machine_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"l\.csv:3, column 'gpu': this is not a whole number; got '1\.5'"):
        load_text(tmp_path, "sn,cpu_milli,memory_mib,gpu,model\na,1,1,1,\nb,1,1,1.5,\n", "l.csv")
    with pytest.raises(InputError, match=r"l\.csv:2, column 'single GPU mem': this is not a size"):
        load_text(tmp_path, "machineId,number of GPUs,single GPU mem\nm31,8,big\n", "l.csv")
    with pytest.raises(InputError, match="no list of machines known here"):
        load_text(tmp_path, "a,b\n1,2\n", "l.csv")


@needs_shared
@pytest.mark.parametrize(
    ("file", "nodes", "gpus"),
    [
        ("openb_nodes_all.csv", 1523, 6212),
        ("pai2020_machines.csv.gz", 1897, 6742),
        ("philly_machines.csv", 539, 3205),
        ("lingjun_topo.csv", 847, 6776),
        ("helios_venus_vc_gpus_daily.csv", 135, 1080),
        ("helios_venus_vc_gpus_daily.csv@2020-04-01", 121, 968),
    ],
)
def test_the_real_lists(file: str, nodes: int, gpus: int) -> None:
    cluster = load_cluster(str(SHARED / file))
    assert (len(cluster.nodes), cluster.gpus) == (nodes, gpus)
    if file.startswith("lingjun"):
        assert [len({node.path[i] for node in cluster.nodes}) for i in range(3)] == [1, 3, 119]
    if file.startswith("helios"):
        assert sum(tenant.quota_gpus or 0 for tenant in cluster.tenants.values()) == gpus
