"""A real browser, signed in as somebody, that notes whatever a page should not do."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

PATIENCE_MS = 60_000  # a loaded machine takes its time; nothing here is about speed
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
_AXE = "axe-core@4.10.3"
#: what a chromium in a container needs, and what keeps it from asking anybody anything by itself
FLAGS = [
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
]
expect.set_options(timeout=PATIENCE_MS)


@cache
def chromium() -> str:
    """Debian's, installed if need be and if we may; the test is skipped where there is none to be had."""
    names = ("chromium", "chromium-browser")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        command = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
        subprocess.run(["apt-get", "update"], capture_output=True, timeout=300, check=False)
        subprocess.run(command, capture_output=True, timeout=900, check=False)
        found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("there is no chromium here, and apt-get can't install it")
    return found


@cache
def axe() -> str:
    """The source of axe-core, from npm into a cache folder; skipped where npm can't have it."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fairlead-tests" / _AXE
    source = folder / "package" / "axe.min.js"
    if not source.exists():
        if shutil.which("npm") is None:
            pytest.skip("axe-core comes from npm, and there is no npm here")
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["npm", "pack", _AXE, "--silent"], cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode:
            pytest.skip(f"npm can't have axe-core: {done.stderr.strip()[:200]}")
        with tarfile.open(folder / done.stdout.split()[-1]) as packed:
            packed.extractall(folder, filter="data")
    return source.read_text(encoding="utf-8")


class Watched:
    """A page, and what it did that it should not."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.said: list[str] = []
        self.asked: list[str] = []
        self.expected: list[str] = []  #: parts of messages that a test brings about on purpose
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.said.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def _request(self, request: Request) -> None:
        self.asked.append(request.url)

    def elsewhere(self) -> list[str]:
        """Requests to anybody but the scheduler."""
        ours = urlsplit(self.url).netloc
        return [
            one for one in self.asked if urlsplit(one).scheme not in ("data", "blob") and urlsplit(one).netloc != ours
        ]

    def check(self) -> None:
        wrong = [one for one in self.said if not any(part in one for part in self.expected)]
        assert wrong == [], "\n".join(wrong)
        assert self.asked
        assert self.elsewhere() == []

    # -- what people do -------------------------------------------------------------------------------------------------------

    def sign_in(self, token: str) -> None:
        self.page.goto(f"{self.url}/")
        self.page.get_by_label("Your token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()

    def go(self, address: str) -> None:
        """To a page of the dashboard, as a link would."""
        self.page.evaluate("(to) => { location.hash = to; }", address)


@contextmanager
def watched(
    browser: Browser, url: str, *, dark: bool = False, phone: bool = False, **options: Any
) -> Iterator[Watched]:
    context = browser.new_context(
        viewport=PHONE if phone else WIDE,
        color_scheme="dark" if dark else "light",
        has_touch=phone,
        locale="en-GB",
        timezone_id="UTC",
        reduced_motion="reduce",
        **options,
    )
    context.set_default_timeout(PATIENCE_MS)
    try:
        found = Watched(context.new_page(), url)
        yield found
        found.check()
    finally:
        context.close()
