"""Runs jobs on a Ray cluster. Ray itself is imported in a process of its own, never here."""

from fairlead.backends.ray.executor import RayExecutor
from fairlead.backends.ray.settings import RaySettings
from fairlead.backends.ray.watch import RayWatcher

__all__ = ["RayExecutor", "RaySettings", "RayWatcher"]
