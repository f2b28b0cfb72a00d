"""Where a command's charts go: one page, a table for each (CSV), a picture for each (PNG)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.render import say
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from fairlead.record.report import Report

HtmlOption = Annotated[Path | None, typer.Option("--html", metavar="F.html", help="A page with charts, in one file.")]
CsvOption = Annotated[
    Path | None, typer.Option("--csv", metavar="DIR", help="The numbers of each chart, a CSV file for each.")
]
PngOption = Annotated[
    Path | None, typer.Option("--png", metavar="DIR", help="Each chart as a picture; needs chromium or Chrome.")
]

BROWSER = "FAIRLEAD_BROWSER"  #: names one that is not on the PATH
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
_LONGEST_S = 300.0
_PNG = "data:image/png;base64,"


@dataclass(frozen=True)
class Saving:
    html: Path | None = None
    csv: Path | None = None
    png: Path | None = None

    @property
    def wanted(self) -> bool:
        return any((self.html, self.csv, self.png))

    def check(self) -> None:
        """Complain now rather than after the run where something can't be written."""
        from fairlead.cli.inputs import output_file

        output_file(self.html)
        for folder in (self.csv, self.png):
            if folder is not None and folder.exists() and not folder.is_dir():
                raise InputError("this is a file", file=str(folder), accepts="a folder, which is made if need be")
        if self.png is not None:
            find_browser()

    def write(self, report: Report) -> None:
        if self.html is not None:
            report.write(self.html)
            say(f"wrote {self.html}")
        if self.csv is not None:
            tables = {f"{name}.csv": text.encode() for name, text in report.tables().items()}
            _write_all(self.csv, tables)
        if self.png is not None:
            pictures = {f"{name}.png": data for name, data in pictures_of(report).items()}
            _write_all(self.png, pictures)


def _write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    from fairlead.record.units import count

    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    say(f"wrote {count(len(files), 'file')} to {folder}")


def find_browser() -> str:
    import shutil

    named = os.environ.get(BROWSER)
    for name in (named,) if named else _BROWSERS:
        found = shutil.which(name)
        if found is not None:
            return found
    raise InputError(
        "pictures are drawn by a browser, and none was found",
        file=BROWSER if named else "--png",
        value=named,
        accepts=f"chromium or Chrome on the PATH (Debian: apt-get install chromium), or its path in {BROWSER}; "
        "without one, --csv DIR, or the PNG button of each chart on the page that --html writes",
    )


def pictures_of(report: Report) -> dict[str, bytes]:
    """Each chart as the page draws it, by its name. A browser without a window opens a page that draws them all."""
    import base64
    import html
    import re
    import tempfile

    browser = find_browser()
    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        source = Path(folder) / "charts.html"
        source.write_text(report.pictures_page(), encoding="utf-8")
        drawn = _dumped(browser, source, Path(folder) / "profile")
    found = [html.unescape(text) for text in re.findall(r"<pre>(.*?)</pre>", drawn, re.DOTALL)]
    names = report.names()
    if len(found) != len(names) or not all(one.startswith(_PNG) for one in found):
        said = next(
            (one[:200] for one in found if not one.startswith(_PNG)), f"{len(found)} of {len(names)} were drawn"
        )
        raise RuntimeError(f"{browser} did not draw the charts: {said}")
    return {name: base64.b64decode(text.removeprefix(_PNG)) for name, text in zip(names, found, strict=True)}


def _dumped(browser: str, page: Path, profile: Path) -> str:
    import subprocess

    command: Sequence[str] = (
        browser,
        "--headless",
        "--disable-gpu",
        "--no-first-run",
        "--hide-scrollbars",
        f"--user-data-dir={profile}",
        "--virtual-time-budget=600000",  # of the page's clock, which runs ahead while nothing is computed
        # root has no sandbox to give; the page is our own and may load nothing
        *(("--no-sandbox",) if os.geteuid() == 0 else ()),
        "--dump-dom",
        page.as_uri(),
    )
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{browser} took more than {_LONGEST_S:g} s to draw the charts") from None
    if done.returncode:
        raise RuntimeError(f"{browser} could not draw the charts: {done.stderr.strip()[-300:]}")
    return done.stdout
