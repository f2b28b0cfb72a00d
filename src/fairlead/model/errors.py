"""The one error that people cause: it says what, where, and what would do."""

from __future__ import annotations


class InputError(Exception):
    """Something a person wrote can't be used.

    `what` is a full sentence without a final stop. The rest says where it stands and what would have been accepted;
    leave out what does not apply.
    """

    def __init__(
        self,
        what: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: str | None = None,
        value: object = None,
        accepts: str | None = None,
    ) -> None:
        self.what = what
        self.file = file
        self.line = line
        self.column = column
        self.value = value
        self.accepts = accepts
        super().__init__(str(self))

    def __str__(self) -> str:
        where = self.file or ""
        if self.line is not None:
            where += f":{self.line}" if where else f"line {self.line}"
        if self.column is not None:
            where += f", column {self.column!r}" if where else f"column {self.column!r}"
        parts = [f"{where}: {self.what}" if where else self.what]
        if self.value is not None:
            parts.append(f"got {self.value!r}")
        if self.accepts:
            parts.append(f"expected {self.accepts}")
        return "; ".join(parts)
