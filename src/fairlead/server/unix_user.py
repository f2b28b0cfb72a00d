"""As whom jobs run. A scheduler that runs as root runs each as the user who submitted it; any other can only be itself."""

from __future__ import annotations

import os
import pwd

from fairlead.model.errors import InputError

#: run everything as whoever the scheduler runs as, though it could do otherwise
SELF = "self"


class UnixUsers:
    def __init__(self, run_as: str = "", euid: int | None = None) -> None:
        """`run_as`: "": the submitting user; `self`: whoever the scheduler runs as."""
        self._switches = (os.geteuid() if euid is None else euid) == 0 and run_as != SELF
        self._known: set[str] = set()

    def of(self, user: str) -> str:
        """The Unix user for a job, "" for the scheduler's own. InputError where this machine has no such user: its jobs would
        otherwise run as root."""
        if not self._switches:
            return ""
        if user not in self._known:
            try:
                pwd.getpwnam(user)
            except (KeyError, ValueError):
                raise InputError(
                    "jobs run as the Unix user who submitted them, and this machine has no such user",
                    value=user,
                    accepts="a user of this machine, or run_as: self in the scheduler's settings",
                ) from None
            self._known.add(user)
        return user
