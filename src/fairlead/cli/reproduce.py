"""`fairlead reproduce`: what the papers claim, measured again here."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.panels import SIMULATION
from fairlead.cli.render import Output, emit, say
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.sim.claims import Result

#: beside the project's own folder
_DATA = Path("shared", "data")
_WIDTH = 116


class Form(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"
    markdown = "markdown"


def register(app: typer.Typer) -> None:
    app.command("reproduce", rich_help_panel=SIMULATION, short_help="Measure the papers' claims again.")(reproduce)


def reproduce(
    claims: Annotated[
        list[int] | None, typer.Argument(metavar="[CLAIM]...", help="By number, all without any.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Public traces; default ../shared/data beside the project, if there."),
    ] = None,
    generated: Annotated[
        bool, typer.Option("--generated", help="Use generated workloads even if there is data.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Synthetic workloads are averaged over so many.")] = 10,
    output: Annotated[Form, typer.Option("-o", "--output", help="How to print the result.")] = Form.table,
    jobs: Annotated[int | None, typer.Option(min=32, hidden=True, help="Smaller workloads, to try it out.")] = None,
) -> None:
    """Measure the papers' claims again: a paper's figures, ours, what differs and why.

    Exits with 1 if a claim that must hold exactly does not; trends are reported as they are.
    """
    from fairlead.cli.work import announce_compiling
    from fairlead.sim.claims import CLAIMS, Ask

    chosen = sorted(set(claims or CLAIMS))
    for claim in chosen:
        if claim not in CLAIMS:
            raise InputError("there is no such claim", value=claim, accepts=", ".join(map(str, CLAIMS)))
    ask = Ask(data=_data(data, generated), seeds=seeds, jobs=jobs)
    announce_compiling()
    results: list[Result] = []
    for claim in chosen:
        results.append(CLAIMS[claim](ask))
        say(f"claim {claim} measured")
    if output is Form.markdown:
        print(markdown(results))
    else:
        emit([one.to_json() for one in results], Output(output.value), lambda: blocks(results))
    failed = [str(one.claim) for one in results if one.holds is False]
    if failed:
        say(f"claim {', '.join(failed)} must hold exactly and does not")
        raise typer.Exit(1)


def _data(given: Path | None, generated: bool) -> Path | None:
    if generated:
        return None
    if given is not None:
        if not given.is_dir():
            raise InputError("there is no such folder", file=str(given), accepts="--data DIR, or --generated")
        return given
    import fairlead

    beside = Path(fairlead.__file__).resolve().parents[3] / _DATA
    return beside if beside.is_dir() else None


def blocks(results: Sequence[Result]) -> str:
    """For a terminal: each claim as a small table between its setting and what differs."""
    return "\n\n".join(_block(one) for one in results)


def _block(result: Result) -> str:
    import textwrap

    rows = [("", "paper", "ours")]
    rows += [(figure.name_text(), figure.paper_text(), figure.ours_text()) for figure in result.figures]
    wide = [max(len(row[column]) for row in rows) for column in (0, 1)]
    held = {None: "a trend", True: "holds exactly", False: "DOES NOT HOLD"}[result.holds]
    lines = [f"Claim {result.claim}: {result.title} ({held})"]
    lines += textwrap.wrap(f"Setting: {result.setting}.", _WIDTH, initial_indent="  ", subsequent_indent="    ")
    lines += [f"  {name:<{wide[0]}}  {paper:<{wide[1]}}  {ours}".rstrip() for name, paper, ours in rows]
    lines += textwrap.wrap(f"Differs: {result.differs}", _WIDTH, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines)


def markdown(results: Sequence[Result]) -> str:
    """One table, a row per claim; the figures of a claim are lines within its cells."""
    lines = [
        "| Claim | Figure | Paper | Ours | Setting | What differs and why |",
        "|---|---|---|---|---|---|",
    ]
    for one in results:
        cells = (
            f"{one.claim}. {one.title}",
            "<br>".join(figure.name_text() for figure in one.figures),
            "<br>".join(figure.paper_text() for figure in one.figures),
            "<br>".join(figure.ours_text() for figure in one.figures),
            one.setting,
            one.differs,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
