"""What a reader could not use: rows that are wrong, and rows that are right but left out."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairlead.model.errors import InputError

#: a file can be bad in every one of its millions of rows: all are counted, so many are kept
KEPT_BAD_ROWS = 100


@dataclass(frozen=True, slots=True)
class BadRow:
    """One row that can't be used. `line` is the physical line (in a Parquet file: the row's number)."""

    file: str
    line: int
    column: str | None
    value: str | None
    why: str
    accepts: str = ""

    def error(self) -> InputError:
        return InputError(
            self.why,
            file=self.file,
            line=self.line,
            column=self.column,
            value=self.value,
            accepts=self.accepts or None,
        )


@dataclass
class Report:
    """Collects bad and dropped rows over all blocks and files of one trace."""

    skip_bad: bool = False
    bad: list[BadRow] = field(default_factory=list)
    bad_count: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    def add_bad(self, rows: list[BadRow]) -> None:
        """Count the rows, or raise for the first of them when nothing may be skipped."""
        if rows and not self.skip_bad:
            raise min(rows, key=lambda row: row.line).error()
        self.bad_count += len(rows)
        self.bad += rows[: max(0, KEPT_BAD_ROWS - len(self.bad))]

    def add_dropped(self, reason: str, count: int) -> None:
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count
