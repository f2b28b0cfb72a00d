"""The file that a user's token is in: what the scheduler writes and whoever talks to it reads."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead.model.errors import InputError

PREFIX = "fl_"  #: so that a token is recognised where it should not be: in a log, in a repository


def read_token_file(path: Path) -> str:
    """A file that others could read is an error, not a token."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            found = file.read(1000).strip()
    except OSError as error:
        raise InputError(f"the token can't be read: {error.strerror}", file=str(path)) from None
    if mode & 0o077:
        raise InputError("others could read this token", file=str(path), accepts=f"chmod 600 {path}")
    try:
        return found.decode("ascii")
    except UnicodeDecodeError:
        raise InputError("this is no token", file=str(path), accepts=f"a line that begins with {PREFIX}") from None
