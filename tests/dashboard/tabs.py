"""Open tabs of a real browser, and how soon it draws the map: for tests/dashboard/load.py."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.dashboard.browser import FLAGS, chromium, watched
from tests.dashboard.stage import Stage


@contextmanager
def browser(folder: Path, run_by: Sequence[str] = ()) -> Iterator[Browser]:
    expect.set_options(timeout=120_000)
    program = folder / "browser"
    program.write_text(f'#!/bin/sh\nexec {" ".join(run_by)} {chromium()} "$@"\n')
    program.chmod(0o700)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(program), args=FLAGS)
        yield found
        found.close()


class Tabs:
    """Tabs of a browser, one for each address, open as long as `held` is."""

    def __init__(self, held: ExitStack, browser: Browser, stage: Stage, addresses: Callable[[], list[str]]) -> None:
        self._stage, self._addresses = stage, addresses
        self._pages = [held.enter_context(_signed_in(browser, stage)) for _ in addresses()]

    def look(self) -> None:
        for page, address in zip(self._pages, self._addresses(), strict=True):
            page.goto(f"{self._stage.url}/#{address}")
            page.locator("main[data-shown]").wait_for()

    def look_away(self) -> None:
        for page in self._pages:
            page.goto("about:blank")


@contextmanager
def _signed_in(browser: Browser, stage: Stage) -> Iterator[Page]:
    with watched(browser, stage.url) as at:
        at.page.set_default_timeout(120_000)
        at.sign_in(stage.token["ada"])
        at.page.locator("html[data-ready=true]").wait_for()
        yield at.page


def measure_map(stage: Stage, browser: Browser) -> None:
    with watched(browser, stage.url) as at:
        at.sign_in(stage.token["ada"])
        at.page.locator("html[data-ready=true]").wait_for()
        for how in ("link", "address"):
            took = [drawn_ms(at.page, how, stage.url) for _ in range(5)]
            print(
                f"map of {stage.spec.gpus:,} GPUs drawn after opening by {how}: median {statistics.median(took):.0f} ms, most {max(took):.0f} ms"
            )
        frames = at.page.evaluate(
            """() => new Promise((done) => { const canvas = document.querySelector('canvas'), box = canvas.getBoundingClientRect(), took = [];
            let last = performance.now(), n = 0;
            const step = (now) => { took.push(now - last); last = now; n += 1;
              canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + (7 * n) % box.width, clientY: box.top + (3 * n) % box.height, bubbles: true }));
              if (n < 120) requestAnimationFrame(step); else done(took.slice(5)); };
            requestAnimationFrame(step); })"""
        )
        print(f"moving over it: {1000 / statistics.fmean(frames):.0f} frames/s, slowest frame {max(frames):.0f} ms")


def drawn_ms(page: Page, how: str, url: str) -> float:
    """From opening the page to the map on the screen."""
    if how == "link":
        page.evaluate("() => { location.hash = '/jobs'; }")
        page.wait_for_timeout(1500)
        page.evaluate(
            "() => { performance.clearMarks(); window.began = performance.now(); location.hash = '/cluster'; }"
        )
    else:
        page.goto("about:blank")
        page.goto(f"{url}/#/cluster")
        page.evaluate("() => { window.began = 0; }")
    page.wait_for_function("() => performance.getEntriesByName('cluster-drawn').length > 0")
    return float(page.evaluate("() => performance.getEntriesByName('cluster-drawn').at(-1).startTime - window.began"))
