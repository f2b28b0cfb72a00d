"""The Ray executor's parts that need no Ray."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead.backends.local.settings import PASSED_ON
from fairlead.backends.orders import LOGIN_PATH
from fairlead.backends.ray import RaySettings
from fairlead.backends.ray.keeper import Keeper
from fairlead.backends.ray.nodes import Nodes, name_of
from fairlead.backends.ray.plan import methods, plan
from fairlead.backends.ray.ship import lay_down
from fairlead.backends.ray.whole import report_of, whole
from fairlead.cli.live.engines import ray_settings
from fairlead.model.errors import InputError
from fairlead.runtime.protocols import Order, Place, Suspension
from fairlead.server.config import Config

from .ray_pretended import node

RUNNING = {"phase": "running", "time_s": 1.0}
DONE = {"phase": "ended", "time_s": 5.0, "exit_code": 0, "signal": None}
FAILED = {"phase": "ended", "time_s": 4.0, "exit_code": 3, "signal": None}
TERMED = {"phase": "ended", "time_s": 4.5, "exit_code": None, "signal": 15}
LOST = {"phase": "lost", "time_s": 4.2, "message": "its actor is gone"}
SAVED = {"phase": "suspended", "time_s": 4.0, "method": "checkpoint"}
KILLED = {"phase": "suspended", "time_s": 6.0, "method": "requeue"}
STOPPED = {"phase": "suspended", "time_s": 4.0, "method": "stop"}
NEVER = {"phase": "failed", "time_s": 2.0, "message": "no such program", "retry": False}
#: whose turn to begin came when another part had failed already
TOO_LATE = {"phase": "failed", "time_s": 4.1, "message": "another part of it failed before it began", "retry": True}


@pytest.mark.parametrize(
    ("parts", "want"),
    [
        ([{}, {}], ("starting", None)),
        ([RUNNING, {}], ("starting", None)),
        ([RUNNING, RUNNING], ("running", 1.0)),
        ([RUNNING, DONE], ("running", 1.0)),
        ([DONE, DONE], ("ended", 5.0)),
        ([TERMED, FAILED], ("ended", 4.5)),
        ([FAILED, LOST], ("lost", 4.2)),
        ([TERMED, NEVER], ("failed", 4.5)),
        ([FAILED, TOO_LATE], ("ended", 4.1)),
        ([SAVED, SAVED], ("suspended", 4.0)),
        ([SAVED, KILLED], ("suspended", 6.0)),
        ([STOPPED, STOPPED], ("suspended", 4.0)),
        ([STOPPED, RUNNING], ("running", 1.0)),
    ],
)
def test_a_run_is_what_its_parts_are(parts: list[dict[str, Any]], want: tuple[str, float | None]) -> None:
    state = whole(parts)
    assert (state["phase"], state.get("time_s")) == want


def test_the_first_that_failed_speaks_for_all() -> None:
    report = report_of("job", 1, whole([TERMED, FAILED]))
    assert report is not None
    assert (report.exit_code, report.signal) == (3, None)


def test_a_gang_of_which_one_was_killed_was_not_checkpointed() -> None:
    assert whole([SAVED, KILLED])["method"] == "requeue"


def names(nodes: Nodes) -> dict[str, str]:
    return {one.name: one.id for one in nodes.by_name.values()}


def test_a_node_that_comes_back_has_its_name_again(tmp_path: Path) -> None:
    file = str(tmp_path / "nodes.json")
    nodes = Nodes(file)
    nodes.update([node("a", "host"), node("b", "host"), node("c", "host", gpus=8), node("d", "other")], 0.0)
    assert names(nodes) == {"host": "a", "host-2": "b", "host-3": "c", "other": "d"}
    came, gone = nodes.update([node("a", "host"), node("b", "host", alive=False), node("d", "other")], 1.0)
    assert (came, [(one.name, one.message) for one in gone]) == (
        [],
        [("host-2", "it died"), ("host-3", "Ray does not know it any more")],
    )
    again = Nodes(file)  # after a restart of ours, too
    came, _ = again.update([node("a", "host"), node("d", "other"), node("e", "host", gpus=8), node("f", "host")], 2.0)
    assert names(again) == {"host": "a", "host-2": "f", "host-3": "e", "other": "d"}


def test_a_node_that_went_and_came_between_two_looks_did_both(tmp_path: Path) -> None:
    nodes = Nodes(str(tmp_path / "nodes.json"))
    nodes.update([node("a", "host")], 0.0)
    came, gone = nodes.update([node("b", "host")], 1.0)
    assert [one.name for one in came] == [one.name for one in gone] == ["host"]


def test_a_node_that_is_back_before_its_death_was_noticed_has_its_name_again_after_it(tmp_path: Path) -> None:
    nodes = Nodes(str(tmp_path / "nodes.json"))
    nodes.update([node("a", "host"), node("b", "pair"), node("c", "pair")], 0.0)
    nodes.cluster()
    nodes.update([node("a", "host"), node("d", "host"), node("b", "pair"), node("c", "pair")], 1.0)
    came, gone = nodes.update([node("a", "host", alive=False), node("d", "host"), node("c", "pair")], 9.0)
    assert ([one.name for one in came], [one.name for one in gone]) == (["host"], ["host", "pair"])
    assert names(nodes) == {"host": "d", "pair": "b", "pair-2": "c"}  # whom others go by keeps its own name
    assert names(Nodes(str(tmp_path / "nodes.json"))) == names(nodes)


def test_a_head_that_is_out_of_reach_changes_nobodys_name(tmp_path: Path) -> None:
    nodes = Nodes(str(tmp_path / "nodes.json"))
    nodes.update([node("b", "host"), node("a", "host")], 0.0)
    before = names(nodes)
    assert len(nodes.all_gone("no answer", 1.0)) == 2
    came, gone = nodes.update([node("b", "host"), node("a", "host")], 2.0)
    assert (len(came), gone, names(nodes)) == (2, [], before)


def test_zones_are_levels_where_every_node_has_them(tmp_path: Path) -> None:
    where = {"ray.io/availability-region": "west", "ray.io/availability-zone": "west-1"}
    nodes = Nodes(str(tmp_path / "nodes.json"))
    nodes.update([node("a", "x", **where)], 0.0)
    spec = nodes.cluster()
    assert (spec.levels, spec.nodes[0].path, spec.nodes[0].gpu_type) == (("region", "zone"), ("west", "west-1"), "A100")
    nodes.update([node("a", "x", **where), node("b", "y")], 1.0)
    assert (nodes.cluster().levels, nodes.cluster().nodes[0].path) == ((), ())


def test_a_node_is_named_by_its_label_its_name_or_its_host() -> None:
    info = {"NodeID": "f00", "NodeManagerAddress": "10.0.0.7", "NodeManagerHostname": "gpu7", "NodeName": "10.0.0.7"}
    assert name_of(info) == "gpu7"
    assert name_of({**info, "NodeName": "left"}) == "left"
    assert name_of({**info, "NodeName": "left", "Labels": {"fairlead.node": "rack1-7"}}) == "rack1-7"


GPU, CPU = [Place("n", (0,))], [Place("n", ())]


@pytest.mark.parametrize(
    ("order", "want"),
    [
        (Order("j", 1, ["x"], GPU), ["requeue"]),
        (Order("j", 1, ["x"], GPU, checkpoint_signal="SIGUSR1"), ["checkpoint", "requeue"]),
        (Order("j", 1, ["x"], CPU), ["stop", "requeue"]),
        (Order("j", 1, ["x"], GPU, suspend=(Suspension.STOP, Suspension.DRIVER)), ["stop"]),
        (Order("j", 1, ["x"], GPU, suspend=(Suspension.CHECKPOINT, Suspension.STOP)), ["stop"]),
        (Order("j", 1, ["x"], GPU, suspend=(Suspension.REQUEUE, Suspension.STOP)), ["requeue"]),
    ],
)
def test_a_job_with_gpus_is_stopped_only_where_nothing_else_will_do(order: Order, want: list[str]) -> None:
    assert methods(order) == want


def test_what_ray_is_asked_for(tmp_path: Path) -> None:
    settings = RaySettings(tmp_path)
    order = Order("job", 2, ["x"], [Place("a", (0, 1)), Place("b", (3,))], memory_mib=300, resumes=True, per_gpu=True)
    made = plan(order, {"a": 4, "b": 4}, settings, "ns")
    assert made["name"] == "ns/job@2"
    assert [(one["node"], one["resources"], one["num_gpus"]) for one in made["places"]] == [
        ("a", {"GPU": 2}, 2),
        ("b", {"GPU": 1}, 1),
    ]
    first, second = (one["order"] for one in made["places"])
    assert (first["memory_mib"], second["memory_mib"], second["first_rank"], second["world"]) == (200, 100, 2, 3)
    assert first["env"]["FAIRLEAD_RESUME"] == "1"
    share = plan(Order("s", 1, ["x"], [Place("a", (0,), 250)]), {"a": 4}, settings, "ns")["places"][0]
    assert (share["resources"], share["num_gpus"]) == ({"GPU": 0.25}, 0.25)
    lent = plan(Order("l", 1, ["x"], GPU, env={"FAIRLEAD_RAY_LEND": "1"}), {"n": 4}, settings, "ns")["places"][0]
    assert (lent["resources"], lent["num_gpus"]) == ({"CPU": 0.001}, 0)
    assert lent["order"]["ranks"][0]["env"]["FAIRLEAD_RAY_LENT"] == "1"


async def _hello() -> dict[str, Any]:
    return {"ip": "10.0.0.7", "port": 5, "gpus": ["0"], "node_id": "f0"}


def test_a_job_of_a_user_has_nothing_of_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = {"name": "ada", "uid": 7, "gid": 7, "home": str(tmp_path), "shell": "/bin/zsh"}
    roots = {"HOME": "/root", "USER": "root", "PATH": "/root/bin", "LD_LIBRARY_PATH": "/root/lib", "LANG": "C"}
    monkeypatch.setattr("fairlead.backends.ray.plan.account", lambda name: ada if name else None)
    monkeypatch.setattr("os.environ", roots)
    keeper = Keeper(sys.path[0])
    monkeypatch.setattr(keeper, "hello", _hello)

    def completed(**more: Any) -> dict[str, Any]:
        made = plan(Order("job", 1, ["x"], GPU, **more), {"n": 4}, RaySettings(tmp_path), "ns")
        return asyncio.run(keeper._completed(made["places"][0]["order"], list(PASSED_ON), {"ip": "i", "port": 1}))

    hers = completed(user="ada", env={"SHELL": "/bin/sh"})
    want = {"HOME": str(tmp_path), "USER": "ada", "LOGNAME": "ada", "PATH": LOGIN_PATH, "LANG": "C", "SHELL": "/bin/sh"}
    assert want.items() <= hers["env"].items()
    assert ("LD_LIBRARY_PATH" in hers["env"], hers["workdir"]) == (False, str(tmp_path))
    own = completed(workdir="/tmp")
    assert roots.items() <= own["env"].items()
    assert own["workdir"] == "/tmp"


def test_what_a_node_needs_lies_in_the_state_directory_once(tmp_path: Path) -> None:
    root = Path(lay_down(str(tmp_path)))
    assert lay_down(str(tmp_path)) == str(root)
    assert (root / "fairlead/backends/ray/supervise.py").exists()
    assert (root / "fairlead/backends/local/procs.py").exists()


def test_how_long_a_node_is_given_to_be_gone_can_be_set(tmp_path: Path) -> None:
    assert ray_settings(Config(tmp_path, ray_python="python", ray_fence=600.0)).fence_s == 600.0


@pytest.mark.parametrize("name", ["poll_s", "start_s", "fence_s", "connect_s"])
def test_a_time_of_nothing_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=name):
        RaySettings(tmp_path, **{name: 0.0})
