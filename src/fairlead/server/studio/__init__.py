"""The simulator for whoever has a browser: traces that people upload, and comparisons that run in a process of their own."""

from fairlead.server.studio.shelf import KeptRun, KeptTrace, Shelf
from fairlead.server.studio.studio import BadTrace, Full, Limits, Studio

__all__ = ["BadTrace", "Full", "KeptRun", "KeptTrace", "Limits", "Shelf", "Studio"]
