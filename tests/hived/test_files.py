"""Cells in files: fairlead's own form, HiveD's, quotas in GPUs, and what is wrong with those that can't be."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from fairlead.model.cell_shares import even_shares, owned_cells
from fairlead.model.cells import CellQuota, CellsSpec, VirtualClusterSpec, cells_from, check_cells
from fairlead.model.cluster import ClusterSpec, TenantSpec, parse_cluster_shape
from fairlead.model.errors import InputError
from fairlead.policy.hived.algorithm import Hived
from fairlead.policy.hived.groups import Bind, Pod
from fairlead.workload.clusters import load_cluster

DOCS = Path(__file__).resolve().parents[2] / "docs"

OWN = """
levels: [region, rack]
groups:
  - {name: v100, count: 8, gpus: 8, gpu_type: V100, per: {rack: 4}, region: east}
  - {name: t4, count: 5, gpus: 4, gpu_type: T4, per: {rack: 2}, region: west}
cells:
  inside:
    V100: {socket: 2, switch: 2}
  above: [rack]
  pinned:
    lab: {node: v100-3, socket: 1}
    wing: {rack: rack-1}
tenants:
  vision: {cells: {V100: {node: 1, switch: 1}, T4-2x4: {rack: 1}}, pinned: [lab]}
  speech: {quota_gpus: 6}
  guests: {pinned: [wing]}
"""

HIVED = """
physicalCluster:
  cellTypes:
    HALF: {childCellType: GPU, childCellNumber: 2}
    NODE: {childCellType: HALF, childCellNumber: 2, isNodeLevel: true}
    PAIR: {childCellType: NODE, childCellNumber: 2}
  physicalCells:
  - cellType: PAIR
    cellChildren:
    - cellAddress: left
    - cellAddress: right
      pinnedCellId: mine
  - cellType: PAIR
    cellChildren: [{cellAddress: a}, {cellAddress: b}]
virtualClusters:
  one:
    virtualCells: [{cellType: PAIR.NODE.HALF, cellNumber: 2}]
    pinnedCells: [{pinnedCellId: mine}]
  two:
    virtualCells: [{cellType: PAIR, cellNumber: 1}]
"""


def load(tmp_path: Path, text: str) -> ClusterSpec:
    path = tmp_path / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    return load_cluster(str(path))


def cells(tmp_path: Path, text: str) -> CellsSpec:
    found = load(tmp_path, text).cells
    assert found is not None
    return found


def test_levels_inside_and_above_nodes(tmp_path: Path) -> None:
    spec = cells(tmp_path, OWN)
    assert spec.chains == ("V100/rack", "T4-2x4/rack", "T4-1x4/rack"), "a rack of one node is a chain of its own"
    assert spec.levels("V100/rack") == ("V100", "V100/switch", "V100/socket", "V100/node", "V100/rack")
    assert spec.fan_out("V100/rack") == (0, 2, 2, 2, 4)
    assert spec.levels("T4-1x4/rack") == ("T4", "T4-1x4/2-gpu", "T4-1x4/node", "T4-1x4/rack"), "in halves by default"
    assert [top.address for top in spec.physical] == ["rack-0", "rack-1", "rack-2", "rack-3", "rack-4"]
    assert spec.gpus("V100/rack") == 32


def test_owners_and_pins(tmp_path: Path) -> None:
    spec = cells(tmp_path, OWN)
    vision = spec.virtual["vision"]
    assert vision.cells == (
        CellQuota("V100/rack", "V100/node", 1),
        CellQuota("V100/rack", "V100/switch", 1),
        CellQuota("T4-2x4/rack", "T4-2x4/rack", 1),
    )
    pins = {name: cell.address for name, (_, cell) in spec.pinned_cells().items()}
    assert pins == {"lab": "rack-0/v100-3/1", "wing": "rack-1"}
    assert "speech" not in spec.virtual


def test_a_quota_in_gpus_becomes_the_largest_cells_that_nobody_owns(tmp_path: Path) -> None:
    cluster = load(tmp_path, OWN)
    spec = owned_cells(cluster, {})
    assert spec.virtual["speech"].cells == (
        CellQuota("V100/rack", "V100/socket", 1),
        CellQuota("V100/rack", "V100/switch", 1),
    )
    more = replace(cluster, tenants={**cluster.tenants, "speech": TenantSpec("speech", 2 * 8 + 3)})
    assert sum(spec.gpus(quota.kind) * quota.count for quota in owned_cells(more, {}).virtual["speech"].cells) == 19
    hived = Hived(owned_cells(more, {}))
    assert isinstance(hived.schedule(Pod("a", "speech", 8)), Bind)


def test_quotas_that_do_not_fit_are_an_error() -> None:
    cluster = replace(parse_cluster_shape("2x8"), tenants={"a": TenantSpec("a", 9), "b": TenantSpec("b", 8)})
    with pytest.raises(InputError, match="17 GPUs for them, of 16 that nobody owns"):
        owned_cells(cluster, {})


def test_a_cluster_is_divided_in_whole_nodes_by_weight() -> None:
    cluster = parse_cluster_shape("10x8")
    assert even_shares(("a", "b", "c"), (1.0, 1.0, 8.0), cluster) == {"a": 8, "b": 8, "c": 64}
    assert even_shares(("a", "b", "c"), (1.0, 1.0, 1.0), cluster) == {"a": 32, "b": 24, "c": 24}
    assert even_shares(("a", "b"), (0.0, 1.0), cluster) == {"a": 8, "b": 72}, "at least a node each"
    assert even_shares(("a", "b", "c"), (1.0, 1.0, 1.0), parse_cluster_shape("1x8")) == {"a": 3, "b": 3, "c": 2}
    assert sum(even_shares(("a", "b"), (1.0, 2.0), parse_cluster_shape("3x8+2x4")).values()) == 32


def test_hiveds_own_configuration_is_a_cluster(tmp_path: Path) -> None:
    cluster = load(tmp_path, HIVED)
    assert [(node.name, node.gpus, node.gpu_type, node.path) for node in cluster.nodes] == [
        ("left", 4, "GPU", ("0",)), ("right", 4, "GPU", ("0",)), ("a", 4, "GPU", ("1",)), ("b", 4, "GPU", ("1",)),
    ]  # fmt: skip
    assert set(cluster.tenants) == {"one", "two"}
    assert cluster.cells is not None
    assert cluster.cells.virtual["one"] == VirtualClusterSpec("one", (CellQuota("PAIR", "HALF", 2),), ("mine",))
    hived = Hived(cluster.cells)
    where = hived.schedule(Pod("p", "one", 4, pinned="mine"))
    assert isinstance(where, Bind)
    assert (where.node, where.gpus) == ("right", (0, 1, 2, 3))


def test_cells_survive_being_written_down(tmp_path: Path) -> None:
    spec = cells(tmp_path, HIVED)
    assert cells_from(json.loads(json.dumps(asdict(spec)))) == spec


def test_too_few_for_the_owners_says_chain_level_and_number(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        load(tmp_path, HIVED.replace("cellNumber: 1", "cellNumber: 2"))
    assert "chain 'PAIR' is short of 1 at level 4 (PAIR): 2 are owned, 1 can be had" in str(error.value)
    assert "cluster.yaml:15" in str(error.value)
    with pytest.raises(InputError, match=r"short of 1 at level 2 \(HALF\): 3 are owned, 2 can be had"):
        load(tmp_path, HIVED.replace("cellNumber: 2}]", "cellNumber: 3}]"))
    with pytest.raises(
        InputError, match=r"chain 'V100/rack' is short of 2 at level 4 \(V100/node\): 5 are owned, 3 can"
    ):
        load(tmp_path, OWN.replace("node: 1", "node: 5"))


def test_a_pinned_cell_splits_what_is_around_it() -> None:
    """By numbers alone, one node and two GPUs fit into two nodes; with one pinned GPU in each node they do not."""
    spec = owned_cells(replace(parse_cluster_shape("2x2"), tenants={"a": TenantSpec("a", 0)}), {})
    tops = tuple(
        replace(top, children=(replace(top.children[0], pinned=f"p{i}"), top.children[1]))
        for i, top in enumerate(spec.physical)
    )
    chain = spec.chains[0]
    owners = {
        "a": VirtualClusterSpec("a", (), ("p0", "p1")),
        "b": VirtualClusterSpec("b", (CellQuota(chain, chain, 1),)),
    }
    with pytest.raises(InputError, match=r"short of 1 at level 2 \(gpu/node\): 1 are owned, 0 can be had"):
        check_cells(replace(spec, physical=tops, virtual=owners))
    check_cells(
        replace(spec, physical=tops, virtual={**owners, "b": VirtualClusterSpec("b", (CellQuota(chain, "gpu", 2),))})
    )


BAD = {
    "a level that is not there": (OWN, "above: [rack]", "above: [row]", "this is no level"),
    "levels in the wrong order": (OWN, "above: [rack]", "above: [rack, region]", "not in order"),
    "a split that leaves single GPUs": (OWN, "{socket: 2, switch: 2}", "{socket: 2, switch: 4}", "can't be split so"),
    "a split that does not divide": (OWN, "{socket: 2, switch: 2}", "{socket: 3}", "can't be split so"),
    "GPUs that no node has": (OWN, "    V100: {socket", "    H100: {socket", "no node has such GPUs"),
    "a name that is taken": (OWN, "socket: 2, switch", "rack: 2, switch", "this name is taken"),
    "hardware that is not there": (OWN, "{V100: {node: 1", "{H100: {node: 1", "no such hardware"),
    "a level of cells that is not there": (OWN, "node: 1, switch", "tray: 1, switch", "have no such level"),
    "cells of one of two kinds of hardware": (OWN, "{V100: {node: 1, switch: 1}, T4-2x4: {rack: 1}}", "{node: 1}", "more than one kind"),
    "a pin that is nowhere": (OWN, "{rack: rack-1}", "{rack: rack-9}", "0 have this place"),
    "a pin of two owners": (OWN, "pinned: [wing]", "pinned: [wing, lab]", "wanted by 'vision' and 'guests'"),
    "a pin that nobody defined": (OWN, "pinned: [wing]", "pinned: [den]", "that is not there"),
    "a key that is not there": (OWN, "  above:", "  over:", "there is no such key"),
    "a type of a top cell that is not there": (HIVED, "- cellType: PAIR\n    cellChildren: [", "- cellType: PAR\n    cellChildren: [", "unknown type"),
    "a chain that is not there": (HIVED, "cellType: PAIR, cellNumber", "cellType: TRIO, cellNumber", "chain that the cluster does not"),
    "a type that its chain does not have": (HIVED, "PAIR.NODE.HALF", "PAIR.THIRD", "that chain 'PAIR' does not have"),
    "too few children": (HIVED, "[{cellAddress: a}, {cellAddress: b}]", "[{cellAddress: a}]", "has 1 children, a PAIR has 2"),
    "the same node twice": (HIVED, "cellAddress: b", "cellAddress: a", "is in 2 cells"),
    "no node in a chain": (HIVED, ", isNodeLevel: true", "", "is a node"),
    "a key that HiveD does not have": (HIVED, "pinnedCellId: mine\n  - cellType", "pinId: mine\n  - cellType", "extra inputs"),
    "text for a number": (HIVED, "cellNumber: 2", "cellNumber: many", "valid integer"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_what_can_not_be_says_why(what: str, tmp_path: Path) -> None:
    text, old, new, sentence = BAD[what]
    assert old in text
    with pytest.raises(InputError) as error:
        load(tmp_path, text.replace(old, new))
    assert sentence in str(error.value)
    assert "cluster.yaml:" in str(error.value), "the line is named"


def test_the_python_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DOCS / "schedulers" / "hived.md").read_text(encoding="utf-8")
    cluster, program = (
        re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("yaml file=cluster.yaml", "python")
    )
    assert cluster
    assert program
    (tmp_path / "cluster.yaml").write_text(cluster[1], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(program[1], names)
    assert isinstance(names["where"], Bind)
    assert names["lost"] == ()


def test_the_example_in_the_docs(tmp_path: Path) -> None:
    page = DOCS / "cluster-file.md"
    blocks = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    spec = load(tmp_path, blocks[1])
    assert spec.cells is not None
    assert set(spec.cells.virtual) == {"vision", "speech"}
    assert isinstance(Hived(owned_cells(spec, {})).schedule(Pod("a", "speech", 4)), Bind)
