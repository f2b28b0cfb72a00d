"""Seeded workloads: cluster-like mixes at any scale, the papers' synthetic ones, and a simple Poisson one."""

from __future__ import annotations

# Importing a generator's file registers it.
from fairlead.workload.generate import philly as _philly
from fairlead.workload.generate.registry import generate, generators

__all__ = ["generate", "generators"]

_ = (_philly,)
