"""Seeded workloads: cluster-like mixes at any scale, the papers' synthetic ones, and a simple Poisson one."""

from __future__ import annotations

# importing a generator's file registers it
from fairlead.workload.generate import gandiva, helios, pai, philly, poisson, tiresias
from fairlead.workload.generate.registry import Generator, generate, generators

__all__ = ["Generator", "generate", "generators"]

_FILES = (gandiva, helios, pai, philly, poisson, tiresias)
