"""Engines for whole schedulers to run on."""

from __future__ import annotations

from servers.ray_cluster import ray_cluster, ray_python
from servers.slurm import slurm_cluster

__all__ = ["ray_cluster", "ray_python", "slurm_cluster"]
