"""Traces in: `load_trace` finds out what a file is and returns it as a Trace."""

from fairlead.workload.readers.load import Loaded, load_trace
from fairlead.workload.readers.registry import format_names
from fairlead.workload.readers.report import BadRow

__all__ = ["BadRow", "Loaded", "format_names", "load_trace"]
