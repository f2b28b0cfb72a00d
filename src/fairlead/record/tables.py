"""The comparison of runs as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairlead.record.columns import Cell, Column, cells, shown_columns
from fairlead.record.metrics import Metrics

if TYPE_CHECKING:
    from rich.table import Table

#: what the box puts between two columns
_GAP = 3


def comparison_table(runs: Sequence[tuple[str, Metrics]], *, width: int = 120, title: str = "") -> Table:
    """One row per run; the best of each column is bold green, and below a number is its ratio to the first run.

    Columns that `width` characters have no room for are left out, the least telling first.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    chosen = _fitting([metrics for _, metrics in runs], width - max((len(name) for name, _ in runs), default=0))
    table = Table(title=title or None, box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    table.add_column("policy", no_wrap=True, vertical="top")
    for column, _ in chosen:
        table.add_column(_heading(column), justify="right", no_wrap=True)
    for i, (name, _) in enumerate(runs):
        row = [Text(name)]  # a Text: names are not markup
        for _, column_cells in chosen:
            cell = column_cells[i]
            text = Text(cell.text, style="bold green" if cell.best else "", justify="right")
            if cell.ratio:
                text.append(f"\n{cell.ratio}", style="not bold dim")
            row.append(text)
        table.add_row(*row)
    return table


def _heading(column: Column) -> str:
    """In two lines, so that columns are no wider than their numbers."""
    first, _, second = column.title.partition(" ")
    return f"{first}\n{second}"


def _fitting(runs: Sequence[Metrics], room: int) -> list[tuple[Column, list[Cell]]]:
    filled = [(column, cells(column, runs)) for column in shown_columns(runs)]
    kept = set()
    for column, column_cells in sorted(filled, key=lambda pair: pair[0].rank):
        lines = [*_heading(column).split("\n"), *(text for cell in column_cells for text in (cell.text, cell.ratio))]
        room -= max(map(len, lines)) + _GAP
        if room < 0:
            break
        kept.add(column.title)
    return [(column, column_cells) for column, column_cells in filled if column.title in kept]
