"""Near-miss suggestions for names that people type."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from fairlead.model.errors import InputError


def unknown(kind: str, name: str, known: Iterable[str], *, file: str | None = None) -> InputError:
    """The error for a name that is not among `known`, with the nearest one when there is one."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return InputError(f"no {kind} is called {name!r}{hint}", file=file, accepts="one of " + ", ".join(names))
