"""What a policy loses where an executor can't do all that it would ask for."""

from __future__ import annotations

from fairlead.core.plugs import parse_choice
from fairlead.policy.base import AnyPlanner, QueuePolicy
from fairlead.policy.registry import find_policy
from fairlead.runtime.protocols import Capabilities

_OFF = ("false", "0", "no")


def losses(policy: str, can: Capabilities) -> list[str]:
    """Sentences, none where it loses nothing. `policy` as on a command line: what its parameters switch off is not lost."""
    choice = parse_choice(policy)
    found = find_policy(choice.name)

    def wants(parameter: str, usual: object) -> bool:
        return choice.values.get(parameter, str(usual)).lower() not in _OFF

    preempts = wants("preempt", found.preempts) if issubclass(found, QueuePolicy) else True
    told = []
    if preempts and not can.suspend:
        told.append("it can't suspend jobs: each runs to its end")
    if preempts and can.suspend and not can.frees_memory:
        told.append("a suspended job keeps its GPU memory: whoever gets its GPUs must fit beside it")
    if preempts and can.suspend and not can.migrate:
        told.append("a suspended job goes on only where it was, or starts again from its last checkpoint elsewhere")
    if issubclass(found, AnyPlanner):
        if wants("pack", found.parameters.get("pack", False)) and not can.share:
            told.append("it can't put two jobs on one GPU")
        if wants("grow", found.parameters.get("grow", False)) and not can.resize:
            told.append("an elastic job keeps the number of GPUs that it was given first")
        if found.inside_nodes and not can.choose_gpus:
            told.append(
                "the engine chooses which GPUs of a node a job gets: cells smaller than a node are only counted"
            )
    return told
