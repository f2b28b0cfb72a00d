"""A bar per run on stderr, where somebody watches and there is something to wait for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

#: shorter runs end before a bar could be read
_WORTH_A_BAR = 200_000

Update = Callable[[int, int], None]


class Bars:
    """`next()` gives the progress function of the next run, or None where nothing is shown."""

    def __init__(self, updates: Sequence[Update]) -> None:
        self._updates = iter(updates)

    def next(self) -> Update | None:
        return next(self._updates, None)


@contextmanager
def progress_bar(names: Sequence[str], jobs: int, *, is_slow: bool = False) -> Iterator[Bars]:
    """One bar for each name, of `jobs` jobs each."""
    if not sys.stderr.isatty() or (jobs * len(names) < _WORTH_A_BAR and not is_slow):
        yield Bars(())
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from fairlead.cli.render import console

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(errors=True)) as bar:
        tasks = [bar.add_task(name, total=jobs, start=False) for name in names]

        def update_of(number: int) -> Update:
            def update(ended: int, total: int) -> None:
                bar.start_task(tasks[number])
                bar.update(tasks[number], completed=ended, total=total)

            return update

        yield Bars([update_of(i) for i in range(len(tasks))])
