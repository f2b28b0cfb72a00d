"""What there is to choose from: every policy and placer by name, in words and with its parameters."""

from __future__ import annotations

from typing import Any

from fairlead.placement.registry import placers
from fairlead.policy.base import Policy, QueuePolicy
from fairlead.policy.registry import policies


def known_policies() -> list[dict[str, Any]]:
    return [_policy(name, policy) for name, policy in policies().items()]


def known_placers() -> list[dict[str, Any]]:
    return [
        {"name": name, "summary": _summary(placer), "parameters": dict(placer.parameters)}
        for name, placer in placers().items()
    ]


def _policy(name: str, policy: Policy) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "summary": _summary(policy), "parameters": dict(policy.parameters)}
    if issubclass(policy, QueuePolicy):
        # every queue policy takes these three beside its own
        row["parameters"] |= {"strict": policy.strict, "preempt": policy.preempts, "quantum": policy.quantum}
        return {**row, "kind": "queue", "preempts": policy.preempts, "strict": policy.strict}
    return {**row, "kind": "planner", "preempts": True, "strict": False}


def _summary(plug: type) -> str:
    return (plug.__doc__ or "").strip().partition("\n")[0]
