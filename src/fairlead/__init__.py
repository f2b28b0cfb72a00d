"""fairlead: deep-learning schedulers, written once, simulated and run on one decision core."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["AsyncClient", "Client", "__version__"]

if TYPE_CHECKING:
    from fairlead.client import AsyncClient, Client


def __getattr__(name: str) -> Any:
    """The clients are imported when they are used: `import fairlead` and the command line stay light."""
    if name in ("AsyncClient", "Client"):
        from fairlead import client

        return getattr(client, name)
    raise AttributeError(f"module 'fairlead' has no attribute {name!r}")
