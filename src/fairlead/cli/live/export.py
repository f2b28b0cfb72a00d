"""`fairlead trace export`: the live journal as a trace that the simulator replays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairlead.cli.live.connect import Reach, talks
from fairlead.cli.render import say
from fairlead.model.errors import InputError


@talks
def export(
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="OUT", help="A .csv, .csv.gz or .parquet file; stdout, if not said."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Jobs submitted since then: 2030-01-31T08:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="And before then.")] = None,
    *,
    reach: Reach,
) -> None:
    """Write what a live scheduler ran as a trace, to replay it under another policy."""
    from fairlead.cli.inputs import output_file
    from fairlead.cli.trace import TRACE_ENDINGS

    output_file(out, *TRACE_ENDINGS)
    with reach.client() as client:
        text = client.trace(since_s=_moment("--since", since), until_s=_moment("--until", until))
    if out is None:
        print(text, end="")
        return
    _write(text, out)
    jobs = max(text.count("\n") - 1, 0)
    say(f"wrote {jobs:,} job{'s' if jobs != 1 else ''} to {out}")


def _moment(option: str, text: str | None) -> float | None:
    from datetime import datetime

    if text is None:
        return None
    try:
        # a time without a zone is this machine's
        return datetime.fromisoformat(text).astimezone().timestamp()
    except ValueError:
        raise InputError("this is no time", file=option, value=text, accepts="such as 2030-01-31T08:00Z") from None


def _write(text: str, out: Path) -> None:
    if out.name.endswith(".csv"):
        out.write_text(text, encoding="utf-8")
        return
    import tempfile

    from fairlead.cli.inputs import read_source
    from fairlead.workload.writer import write_trace

    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "trace.csv"
        plain.write_text(text, encoding="utf-8")
        write_trace(read_source([str(plain)]).trace, out)
