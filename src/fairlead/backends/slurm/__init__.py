"""Runs jobs through Slurm. Its executor decides nothing: Slurm starts what it is told, where it is told."""

from fairlead.backends.slurm.executor import SlurmExecutor
from fairlead.backends.slurm.settings import SlurmSettings
from fairlead.backends.slurm.watcher import SlurmWatcher

__all__ = ["SlurmExecutor", "SlurmSettings", "SlurmWatcher"]
