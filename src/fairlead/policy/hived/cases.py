"""Running tables of cases: pods that are asked for one after another, and what HiveD must answer.

The form is that of the tables made from HiveD's own tests: `affinity_groups`, `pods`, then lists of pods to ask for
(`should_succeed`, `should_fail_user_error`, `stateful_preemption`) and what must come of it (`expected_bind`,
`expected_preempt_victims`, `deleted_preemptor_groups`, `should_be_lazy_preempted` after a reconfiguration).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.model.cells import CellsSpec
from fairlead.policy.hived.algorithm import Hived
from fairlead.policy.hived.cells import CellState
from fairlead.policy.hived.groups import Answer, Bind, Phase, Pod, Preempt, UserError


def pod_of(name: str, cases: Mapping[str, Any]) -> Pod:
    """A pod of a table, with its group."""
    row = cases["pods"][name]
    members = tuple((one["pods"], one["gpus_per_pod"]) for one in cases["affinity_groups"].get(row["group"], ()))
    return Pod(
        name=name,
        vc=row["vc"],
        gpus=row["leaf_cells"],
        priority=row["priority"],
        group=row["group"],
        members=members,
        gpu_type=row["leaf_cell_type"],
        pinned=row["pinned_cell"],
        lazy=bool(row["lazy_preemption"]),
        ignore_suggested=bool(row["ignore_suggested_nodes"]),
        multi_chain=bool(row["multi_chain_relax"]),
    )


def started(spec: CellsSpec) -> Hived:
    """As HiveD starts: every node is bad until it is heard of, and then all are, in order."""
    hived = Hived(spec, nodes_known=False)
    for node in hived.nodes():
        hived.set_healthy_node(node)
    return hived


class Cases:
    """One table against one scheduler. What goes otherwise than the table says is written to `wrong`."""

    def __init__(self, spec: CellsSpec, cases: Mapping[str, Any]) -> None:
        self.cases = cases
        self.hived = started(spec)
        self.running: list[tuple[Pod, Bind]] = []
        self.preempting: list[Pod] = []
        self.wrong: list[str] = []

    def ask(self, name: str, suggested: Iterable[str] | None = None, phase: Phase = Phase.PREEMPTING) -> Answer:
        """Ask for a pod, compare, and start it where it is to go."""
        pod = pod_of(name, self.cases)
        nodes = self.hived.nodes() if suggested is None else suggested
        answer = self.hived.schedule(pod, nodes, phase)
        self._compare(name, answer)
        if isinstance(answer, Bind):
            self.start(pod, answer)
        elif isinstance(answer, Preempt):
            self.preempting.append(pod)
        return answer

    def start(self, pod: Pod, where: Bind) -> None:
        self.hived.add_allocated(pod, where)
        self.running.append((pod, where))

    def stop(self, name: str) -> None:
        """A running pod ends."""
        one = next(one for one in self.running if one[0].name == name)
        self.running.remove(one)
        self.hived.delete_allocated(*one)

    def delete_all(self) -> None:
        """The last first; afterwards no group may be left."""
        for pod, where in reversed(self.running):
            self.hived.delete_allocated(pod, where)
        for pod in reversed(self.preempting):
            self.hived.delete_unallocated(pod)
        self.running, self.preempting = [], []
        self.wrong += [f"group {name} is still there, though all its pods are gone" for name in self.hived.groups]

    def _compare(self, name: str, answer: Answer) -> None:
        want = self.cases["expected_bind"].get(name)
        victims = self.cases["expected_preempt_victims"].get(name)
        if want is not None:
            if not isinstance(answer, Bind) or (answer.node, list(answer.gpus)) != (want["node"], want["gpus"]):
                self.wrong.append(f"{name}: wanted {want['node']} {want['gpus']}, got {answer}")
        elif isinstance(answer, Bind):
            self.wrong.append(f"{name}: was not to be started, got {answer.node} {list(answer.gpus)}")
        if victims:
            found = {pod for pods in answer.victims.values() for pod in pods} if isinstance(answer, Preempt) else set()
            if found != set(victims):
                self.wrong.append(f"{name}: wanted to preempt {sorted(victims)}, got {answer}")
        for group in self.cases["deleted_preemptor_groups"].get(name, ()):
            state = self.hived.groups.get(group)
            if state is not None and group != self.cases["pods"][name]["group"]:
                self.wrong.append(f"{name}: group {group} was to be deleted, it is {state.state}")


def check_cases(spec: CellsSpec, cases: Mapping[str, Any], reconfigured: CellsSpec | None = None) -> list[str]:
    """Everything in a table that can be checked without further steps: what went wrong, in words; nothing if all is well.

    `reconfigured` are the cells after the change that lets `should_be_lazy_preempted` happen.
    """
    run = Cases(spec, cases)
    for name in cases["should_succeed"]:
        run.ask(name)
    wrong = run.wrong
    for names in cases["should_fail_user_error"]:
        wrong += _must_fail(run, [names] if isinstance(names, str) else names)
    if reconfigured is not None:
        changed = Cases(reconfigured, cases)
        for pod, where in run.running:
            changed.start(pod, where)
        for name in cases["should_be_lazy_preempted"]:
            group = cases["pods"][name]["group"]
            if group not in changed.hived.groups or changed.hived.groups[group].virtual is not None:
                wrong.append(f"{name}: group {group} was to be lazily preempted")
        changed.delete_all()
        wrong += changed.wrong
    run.delete_all()
    return wrong + check_stateful(spec, cases)


def _must_fail(run: Cases, names: list[str]) -> list[str]:
    try:
        for name in names:
            pod = pod_of(name, run.cases)
            answer = run.hived.schedule(pod, run.hived.nodes())
            if isinstance(answer, Bind):
                run.start(pod, answer)
            elif isinstance(answer, Preempt):
                run.preempting.append(pod)
    except UserError:
        return []
    return [f"{' and '.join(names)}: no user error"]


def check_stateful(spec: CellsSpec, cases: Mapping[str, Any]) -> list[str]:
    """Preemptors that wait for their victims, and give way to higher ones. A victim that is to be gone before the next
    pod comes is one whose preemptors are deleted by a pod that starts at once."""
    names = cases["stateful_preemption"]
    run = Cases(spec, cases)
    for number, name in enumerate(names):
        following = names[number + 1] if number + 1 < len(names) else None
        answer = run.ask(name)
        if following in cases["expected_bind"] and isinstance(answer, Preempt) and run.running:
            run.stop(run.running[0][0].name)
        if following is None and isinstance(answer, Preempt):
            run.wrong += _cancelled(run, name)
    return run.wrong


def _cancelled(run: Cases, name: str) -> list[str]:
    """The last preemptor is deleted before its time: its cells must go back to whom they were taken from, or be free."""
    pod = run.preempting.pop()
    gpus = list(run.hived.groups[pod.group_name].gpus())
    run.hived.delete_unallocated(pod)
    wrong = [
        f"{name}: {gpu.address} is {gpu.state} at priority {gpu.priority} after the preemption was cancelled"
        for gpu in gpus
        if not (
            gpu.state is CellState.FREE
            or (gpu.state is CellState.USED and gpu.user is not None and gpu.priority == gpu.user.priority)
        )
    ]
    gone = run.cases["deleted_preemptor_groups"].get(name, ())
    return wrong + [f"{name}: group {group} was to be deleted" for group in gone if group in run.hived.groups]
