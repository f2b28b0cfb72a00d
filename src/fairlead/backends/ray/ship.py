"""The modules that a node needs to look after a run, laid down where the nodes can read them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from fairlead.backends.local.rundir import write_file

_BACKENDS = Path(__file__).resolve().parents[1]
_NEEDED = (
    *(f"local/{name}.py" for name in ("driver", "gang", "limits", "logs", "procs", "rundir", "supervise", "wire")),
    "ray/supervise.py",
)


def lay_down(parent: str) -> str:
    """The directory to put on the path; of its own for every version, so that what runs keeps what it began with."""
    sources = {name: (_BACKENDS / name).read_bytes() for name in _NEEDED}
    digest = hashlib.sha256(b"".join(sources.values())).hexdigest()[:12]
    root = os.path.join(parent, f"code-{digest}")
    packages = ("fairlead", "fairlead/backends", "fairlead/backends/local", "fairlead/backends/ray")
    for package in packages:
        os.makedirs(os.path.join(root, package), 0o755, exist_ok=True)
        _put(os.path.join(root, package, "__init__.py"), b"")
    for name, source in sources.items():
        _put(os.path.join(root, "fairlead/backends", name), source)
    return root


def _put(path: str, data: bytes) -> None:
    if not os.path.exists(path):
        write_file(path, data, durable=False)
        os.chmod(path, 0o644)
