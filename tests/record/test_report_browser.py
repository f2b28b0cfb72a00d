"""Reports in a real browser: drawn, painted, reachable by keyboard, saved as pictures and tables."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tests.dashboard.browser import FLAGS, PATIENCE_MS, chromium

from fairlead.record.report import report_of

from .runs import reports
from .test_report import NASTY


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield made
        made.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A report with names that would like to be scripts; it may say nothing and ask for nothing."""
    options = getattr(request, "param", {})
    said: list[str] = []
    asked: list[str] = []
    path = tmp_path / "report.html"
    path.write_text(_report().html(), encoding="utf-8")
    context = browser.new_context(
        viewport={"width": options.get("width", 1300), "height": 900}, color_scheme=options.get("scheme", "light")
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda one: asked.append(one.url))
    page.goto(path.as_uri())
    page.locator("html[data-ready=true]").wait_for()
    yield page
    context.close()
    assert said == []
    assert [one for one in asked if not one.startswith(("data:", "blob:"))] == [path.as_uri()]


def _report():  # type: ignore[no-untyped-def]
    return report_of(reports([NASTY, "b"], tenants=[NASTY, "t1", "=t2"]), title=NASTY)


VIEWS = [{"width": width, "scheme": scheme} for width in (1300, 390) for scheme in ("light", "dark")]


@pytest.mark.parametrize("opened", VIEWS, indirect=True, ids=[f"{v['width']}-{v['scheme']}" for v in VIEWS])
def test_the_report_draws_itself_and_answers_to_the_keyboard(opened: Page) -> None:
    assert opened.evaluate("window.hacked") is None
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    first = opened.locator(".plot").first
    assert first.evaluate("(plot) => plot.data.length") == 2
    assert first.locator(".legendtext").first.text_content().startswith("</script")  # type: ignore[union-attr]
    tone = "getComputedStyle(document.documentElement).getPropertyValue('--t0').trim()"
    assert first.evaluate("(plot) => plot.data[0].line.color") == opened.evaluate(tone)
    tabs = opened.get_by_role("tablist").last.get_by_role("tab")
    tabs.first.focus()
    opened.keyboard.press("End")
    assert tabs.last.get_attribute("aria-selected") == "true"
    assert tabs.last.evaluate("(tab) => document.activeElement === tab")
    panel = opened.locator(f"#{tabs.last.get_attribute('aria-controls')}")
    panel.locator(".plot .main-svg").first.wait_for()


def test_no_script_runs_but_the_reports_own(opened: Page, browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "spoilt.html"
    path.write_text(_report().html().replace("</body>", "<script>window.hacked = 1</script></body>"), encoding="utf-8")
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(path.as_uri())
    page.locator("html[data-ready=true]").wait_for()
    assert page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in one for one in said)
    page.close()


def test_every_table_saved_from_the_page_is_the_one_of_the_command_line(opened: Page) -> None:
    wanted = list(_report().tables().values())
    with opened.expect_download() as saving:
        opened.get_by_role("button", name="CSV").first.click()
    assert saving.value.suggested_filename == "jct-of-finished-jobs.csv"
    assert Path(saving.value.path()).read_text(encoding="utf-8") == wanted[0]
    # a browser asks before it saves many files; what would be in them is enough
    opened.evaluate(
        """() => { URL.createObjectURL = (blob) => { window.saved = blob; return 'about:blank'; };
        HTMLAnchorElement.prototype.click = () => {}; }"""
    )
    figures = opened.locator("figure")
    assert figures.count() == len(wanted)
    for i, text in enumerate(wanted):
        figures.nth(i).locator("[data-save=csv]").evaluate("(button) => button.click()")  # in a tab that need not show
        assert opened.evaluate("window.saved.text()") == text


def test_a_picture_saved_from_the_page_has_its_chart_for_a_slide(opened: Page) -> None:
    with opened.expect_download() as saving:
        opened.get_by_role("button", name="PNG").first.click()
    assert saving.value.suggested_filename == "jct-of-finished-jobs.png"
    data = Path(saving.value.path()).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (2240, 1260)


def test_printed_it_is_light_and_fits_the_paper(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(_report().html(), encoding="utf-8")
    page = browser.new_page(color_scheme="dark", viewport={"width": 1300, "height": 900})
    page.goto(path.as_uri())
    page.locator("html[data-ready=true]").wait_for()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--card').trim()") == "#ffffff"
    widths = page.evaluate("[...document.querySelectorAll('.plot .main-svg')].map((one) => one.clientWidth)")
    assert widths
    paper = 186 / 25.4 * 96
    assert max(widths) <= paper
    assert page.evaluate("document.querySelector('table').getBoundingClientRect().right") <= paper
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--card').trim()") != "#ffffff"
    page.close()
