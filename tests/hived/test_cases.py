"""HiveD's own cases: where each pod goes, who is preempted, what becomes of preemptors, bad nodes and reconfiguration."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.model.cells import CellsSpec
from fairlead.model.errors import InputError
from fairlead.policy.hived.algorithm import Hived
from fairlead.policy.hived.cases import Cases, check_cases, pod_of, started
from fairlead.policy.hived.cells import CellState
from fairlead.policy.hived.check import broken_rules
from fairlead.policy.hived.groups import Bind, GroupState, Phase, Pod, Preempt, UserError, Wait
from fairlead.policy.hived.recover import reconfigure
from fairlead.workload.hived_config import hived_cluster
from hived.tables import CASES

TOPOLOGY = Path(__file__).resolve().parents[3] / "shared" / "data" / "topology"
CONFIG, DEV = TOPOLOGY / "hived_design_config.yaml", TOPOLOGY / "hived_cases_dev.json"

pytestmark = pytest.mark.skipif(not CONFIG.is_file(), reason="the shared data is not here")

THREE = "3-DGX2-V100-NODE"


@pytest.fixture
def config() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    return loaded


def cells(config: dict[str, Any]) -> CellsSpec:
    spec = hived_cluster(config).cells
    assert spec is not None
    return spec


def owned(config: dict[str, Any], vc: str, number: int, **changes: Any) -> None:
    """Change the number-th line of what a virtual cluster owns."""
    config["virtualClusters"][vc]["virtualCells"][number].update(changes)


def reconfigured(config: dict[str, Any]) -> dict[str, Any]:
    """A shorter chain, a node with another name, fewer cells for VC2, and one top cell split into its nodes, while a new
    one of its kind appears."""
    new = copy.deepcopy(config)
    types, tops = new["physicalCluster"]["cellTypes"], new["physicalCluster"]["physicalCells"]
    types["DGX2-V100-NODE"] = {"childCellType": "DGX2-V100", "childCellNumber": 16, "isNodeLevel": True}
    tops[7]["cellChildren"][0]["cellChildren"][0]["cellAddress"] = "0.0.3.100"
    owned(new, "VC2", 0, cellNumber=1)
    other = copy.deepcopy(tops[8])
    nodes = [node for half in tops[8]["cellChildren"] for node in half["cellChildren"]]
    for number, node in enumerate(node for half in other["cellChildren"] for node in half["cellChildren"]):
        node["cellAddress"] = f"0.0.4.{100 + number}"
    tops[8:9] = [{**nodes[0], "cellType": "DGX2-V100-NODE"}]
    tops += [{**node, "cellType": "DGX2-V100-NODE"} for node in nodes[1:]] + [other]
    return new


def healths(run: Cases, vc: str, free_only: bool = True) -> set[bool]:
    """Of the preassigned cells of VC on the chain of three nodes, at node level."""
    found = run.hived.clusters[vc].preassigned[THREE][5]
    return {cell.healthy for cell in found if not free_only or cell.priority < -1}


def test_the_given_cases(config: dict[str, Any]) -> None:
    assert check_cases(cells(config), json.loads(DEV.read_text(encoding="utf-8"))) == []


def test_normal_operation_user_errors_stateful_preemption_and_reconfiguration(config: dict[str, Any]) -> None:
    assert check_cases(cells(config), CASES, cells(reconfigured(config))) == []


def test_a_wrong_table_is_noticed(config: dict[str, Any]) -> None:
    wrong = copy.deepcopy(CASES)
    wrong["expected_bind"]["pod1"]["gpus"] = [5]
    wrong["expected_bind"]["pod7"] = {"node": "1.0.0.1", "gpus": [0]}
    wrong["expected_preempt_victims"]["pod16"] = ["pod5"]
    wrong["should_fail_user_error"] = [["pod42"]]
    wrong["should_be_lazy_preempted"] = ["pod1"]
    found = check_cases(cells(config), wrong, cells(reconfigured(config)))
    assert [line.split(":")[0] for line in found] == ["pod1", "pod7", "pod16", "pod42", "pod1"]


def test_only_suggested_nodes_are_used(config: dict[str, Any]) -> None:
    run = Cases(cells(config), CASES)
    run.ask("pod36", ["0.0.1.0"])
    run.stop("pod36")
    run.ask("pod37", ["0.0.3.0"])
    run.ask("pod38", ["0.0.3.1"])
    run.stop("pod38")
    run.stop("pod37")
    everything = run.hived.nodes()
    run.ask("pod27", [node for node in everything if node != "0.0.3.1"])  # one of its two would be elsewhere
    assert run.wrong == []


def test_a_preemption_begins_and_goes_on_only_within_suggested_nodes(config: dict[str, Any]) -> None:
    run = Cases(cells(config), CASES)
    hived, everything = run.hived, run.hived.nodes()
    fewer = [node for node in everything if node != "0.0.3.1"]
    first, preemptor = pod_of("pod27", CASES), pod_of("pod33", CASES)
    where = hived.schedule(first, everything)
    assert isinstance(where, Bind)
    hived.add_allocated(first, where)
    assert isinstance(hived.schedule(preemptor, everything, Phase.FILTERING), Preempt)
    assert "group24" not in hived.groups, "nobody is preempted while filtering"
    assert isinstance(hived.schedule(preemptor, fewer), Wait)
    assert "group24" not in hived.groups
    assert isinstance(hived.schedule(preemptor, everything), Preempt)
    assert hived.groups["group24"].state is GroupState.PREEMPTING
    assert hived.groups["group18"].state is GroupState.BEING_PREEMPTED
    assert isinstance(hived.schedule(preemptor, fewer), Wait)
    assert "group24" not in hived.groups
    assert hived.groups["group18"].state is GroupState.ALLOCATED


def test_a_preemption_is_cancelled_when_a_node_of_it_turns_bad(config: dict[str, Any]) -> None:
    run = Cases(cells(config), CASES)
    run.ask("pod28")
    run.ask("pod33")
    assert run.hived.groups["group24"].state is GroupState.PREEMPTING
    run.hived.set_bad_node("0.0.3.1")
    assert isinstance(run.hived.schedule(pod_of("pod33", CASES), run.hived.nodes()), Wait)
    assert "group24" not in run.hived.groups
    assert run.hived.groups["group19"].state is GroupState.ALLOCATED
    assert {gpu.priority for gpu in run.hived.groups["group19"].gpus()} == {1}
    assert broken_rules(run.hived) == []


def test_a_group_that_gets_its_cells_waits_for_its_victims_and_then_runs(config: dict[str, Any]) -> None:
    run = Cases(cells(config), {**CASES, "expected_bind": {}})
    run.ask("pod25")
    for_25 = [gpu.address for gpu in run.hived.groups["group16"].gpus()]
    assert isinstance(run.ask("pod26"), Preempt)
    assert [gpu.state for gpu in run.hived.groups["group17"].gpus()] == [CellState.RESERVING] * 2
    run.stop("pod25")
    assert "group16" not in run.hived.groups
    assert [gpu.state for gpu in run.hived.groups["group17"].gpus()] == [CellState.RESERVED] * 2
    run.ask("pod26")
    assert run.hived.groups["group17"].state is GroupState.ALLOCATED
    assert [gpu.address for gpu in run.hived.groups["group17"].gpus()] == for_25
    assert broken_rules(run.hived) == []


def test_binding_backtracks_and_lazy_preemption_is_reverted(config: dict[str, Any]) -> None:
    owned(config, "VC1", 0, cellNumber=0)
    owned(config, "VC1", 3, cellNumber=3)
    run = Cases(cells(config), CASES)
    run.ask("pod39", ["0.0.3.2", "0.0.3.3"])
    run.ask("pod40", ["0.0.4.3"])
    run.ask("pod41", ["0.0.3.2", "0.0.3.3", "0.0.4.3"])  # lazily preempts both, finds no place, puts them back
    for group in ("group27", "group28"):
        assert run.hived.groups[group].state is GroupState.ALLOCATED
        assert run.hived.groups[group].virtual is not None
    assert run.wrong == []


def test_cells_are_doomed_when_healthy_ones_run_out_and_spared_when_they_return(config: dict[str, Any]) -> None:
    owned(config, "VC2", 2, cellType=f"{THREE}.DGX2-V100-NODE")
    run = Cases(cells(config), {**CASES, "expected_bind": {}})
    hived = run.hived
    hived.add_allocated(pod_of("pod42", CASES), _bound(hived, "pod42", "0.0.2.0"))
    hived.set_bad_node("0.0.2.1")
    assert healths(run, "VC1") == healths(run, "VC2") == {True}
    second = _bound(hived, "pod43", "0.0.2.2")
    hived.add_allocated(pod_of("pod43", CASES), second)
    assert healths(run, "VC1") == {False}
    hived.delete_allocated(pod_of("pod43", CASES), second)
    assert healths(run, "VC1") == {True}
    hived.set_bad_node("0.0.2.2")
    assert healths(run, "VC1") == healths(run, "VC2") == {False}
    hived.set_healthy_node("0.0.2.2")
    assert healths(run, "VC1", free_only=False) == healths(run, "VC2", free_only=False) == {True}
    hived.set_bad_node("0.0.2.0")
    hived.set_bad_node("0.0.2.2")
    hived.delete_allocated(pod_of("pod42", CASES), _place("0.0.2.0"))
    assert healths(run, "VC1", free_only=False) == healths(run, "VC2", free_only=False) == {False}
    for node in ("0.0.2.0", "0.0.2.1", "0.0.2.2"):
        hived.set_healthy_node(node)
    assert healths(run, "VC1", free_only=False) == healths(run, "VC2", free_only=False) == {True}
    assert not any(chain.doomed[level] for chain in hived.chains.values() for level in range(chain.top + 1))


def _bound(hived: Hived, name: str, node: str) -> Bind:
    answer = hived.schedule(pod_of(name, CASES), [node])
    assert isinstance(answer, Bind)
    assert answer.node == node
    return answer


def _place(node: str) -> Bind:
    from fairlead.policy.hived.groups import Place

    gpus = tuple(range(16))
    return Bind(node, gpus, THREE, {16: (Place(node, gpus),)})


def test_higher_cells_are_split_for_a_bad_node_only_as_far_as_their_owners_can_spare_them(
    config: dict[str, Any],
) -> None:
    owned(config, "VC1", 0, cellNumber=4)
    owned(config, "VC1", 2, cellNumber=0)
    owned(config, "VC1", 3, cellNumber=0)
    owned(config, "VC2", 2, cellType="4-DGX2-V100-NODE.2-DGX2-V100-NODE", cellNumber=1)
    run = Cases(cells(config), CASES)
    some = ["0.0.3.2", "0.0.3.3", "0.0.4.2", "0.0.4.3"]
    run.ask("pod44", some)
    run.hived.set_bad_node("0.0.3.3")
    run.ask("pod45", some)
    run.hived.set_bad_node("0.0.4.3")
    run.ask("pod46", [*some, "0.0.4.0", "0.0.4.1"])  # one more would leave VC2 without its pair
    assert run.wrong == []


def test_a_preemptor_takes_back_what_it_needs_at_once_where_lazy_preemption_is_off(config: dict[str, Any]) -> None:
    run = Cases(cells(config), CASES)
    for name in ("pod24", "pod25"):
        run.ask(name)
    assert run.hived.groups["group15"].virtual is None, "lazily preempted: it runs on, without a cell of its VC"
    run.ask("pod26")
    assert run.wrong == []


def test_an_assignment_that_does_not_fit_says_where_and_by_how_many(config: dict[str, Any]) -> None:
    owned(config, "VC1", 0, cellType="CT1-NODE")
    owned(config, "VC1", 1, cellType="CT1-NODE.CT1", cellNumber=2)
    with pytest.raises(InputError, match=r"chain 'CT1-NODE' is short of 1 at level 2 \(CT1-NODE\): 3 are owned, 2 can"):
        cells(config)


def test_a_group_that_fits_no_chain_can_be_divided_over_several(config: dict[str, Any]) -> None:
    hived = started(cells(config))
    wide = Pod("wide-0", "VC1", 16, members=((6, 16),), group="wide", gpu_type="DGX2-V100")
    assert isinstance(hived.schedule(wide), Wait)
    relaxed = Pod("wide-0", "VC1", 16, members=((6, 16),), group="wide", gpu_type="DGX2-V100", multi_chain=True)
    where = hived.schedule(relaxed)
    assert isinstance(where, Bind)
    assert len({place.node for place in where.places[16]}) == 6
    hived.add_allocated(relaxed, where)
    assert {gpu.chain for gpu in hived.groups["wide"].gpus()} == {"DGX2-V100-NODE", "4-DGX2-V100-NODE"}
    for number in range(1, 6):
        pod = replace(relaxed, name=f"wide-{number}")
        where = hived.schedule(pod)
        assert isinstance(where, Bind)
        hived.add_allocated(pod, where)
    with pytest.raises(UserError, match="has only 6 pods"):
        hived.schedule(replace(relaxed, name="wide-6"))


def test_a_reconfiguration_keeps_everybody_running_and_says_who_lost_his_cells(config: dict[str, Any]) -> None:
    run = Cases(cells(config), CASES)
    for name in CASES["should_succeed"]:
        run.ask(name)
    run.hived.set_bad_node("0.0.1.0")
    new, lost = reconfigure(run.hived, cells(reconfigured(config)))
    before = {name for name, group in run.hived.groups.items() if group.state is not GroupState.PREEMPTING}
    assert set(new.groups) == before
    assert set(lost) == {"group9", "group13"}
    assert new.groups["group15"].virtual is None, "it was lazily preempted before"
    assert new.bad_nodes == {"0.0.1.0"}
    for name in before:
        assert new.groups[name].pods == run.hived.groups[name].pods
    assert [gpu.index for gpu in new.groups["group1"].gpus()] == [0]
