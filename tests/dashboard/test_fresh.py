"""Pages while nothing happens, after a request that failed, and while nobody looks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect
from tests.server.api.service import Service

from .browser import Watched
from .conftest import SignedIn

MINUTE_MS = 60_000


@pytest.fixture
def running(live: Service) -> Iterator[str]:
    """A job of ann's that runs, and nothing else."""
    job = live.submit(name="alone", run="sleep 300")
    live.until("ann", job, "running")
    yield job
    live.ask("ann", "POST", f"/v1/jobs/{job}/cancel")
    live.until("ann", job, "cancelled")


def asked(at: Watched, part: str) -> int:
    return sum(part in url for url in at.asked)


def quiet(at: Watched, part: str) -> None:
    """Until the page has caught up with all that has happened."""
    expect(at.page.locator("main[data-shown]")).to_be_visible()
    before = -1
    while before != asked(at, part):
        before = asked(at, part)
        at.page.wait_for_timeout(3000)


def look(at: Watched, *, away: bool) -> None:
    at.page.evaluate(
        """(away) => { Object.defineProperty(document, 'hidden', { configurable: true, get: () => away });
        document.dispatchEvent(new Event('visibilitychange')); }""",
        away,
    )


def test_a_page_asks_again_though_nothing_happens_unless_nobody_looks(
    signed_in: SignedIn, live: Service, running: str
) -> None:
    at = signed_in("ann", "/jobs")
    quiet(at, "/v1/jobs?")
    at.page.clock.install()
    with at.page.expect_request("**/v1/jobs?*"):
        at.page.clock.fast_forward(MINUTE_MS)
    quiet(at, "/v1/jobs?")
    look(at, away=True)
    before = asked(at, "/v1/jobs?")
    live.until("ann", live.submit(name="unseen", run="true"), "done")
    at.page.clock.fast_forward(MINUTE_MS)
    at.page.wait_for_timeout(3000)
    assert asked(at, "/v1/jobs?") == before, "a hidden tab asks for nothing"
    look(at, away=False)
    expect(at.page.locator("tbody tr", has_text="unseen").locator(".state")).to_have_text("done")


def test_a_job_is_explained_again_and_its_clock_goes_on_while_hidden(signed_in: SignedIn, running: str) -> None:
    at = signed_in("ann", f"/jobs/{running}")
    quiet(at, f"/v1/jobs/{running}")
    at.page.clock.install()
    with at.page.expect_request(f"**/v1/jobs/{running}/explain"):
        at.page.clock.fast_forward(MINUTE_MS)
    at.page.route(f"**/v1/jobs/{running}", lambda _: None)  # no answer: only the page's own clock can say it
    look(at, away=True)
    at.page.clock.fast_forward(10 * MINUTE_MS)
    look(at, away=False)
    expect(at.page.locator(".facts-list div", has=at.page.get_by_text("Ran", exact=True))).to_contain_text("10 min")


def test_what_a_failed_request_would_have_told_is_asked_for_again(signed_in: SignedIn, live: Service) -> None:
    at = signed_in("ada", "/nodes/node-1")
    at.expected = ["503"]
    state = at.page.locator(".pagehead .state")
    expect(state).to_have_text("up")
    quiet(at, "/v1/nodes/")
    at.page.route("**/v1/nodes/node-1", lambda route: route.fulfill(status=503, json={"detail": "too busy"}), times=1)
    live.ask("ada", "POST", "/v1/nodes/node-1/drain", json={"reason": ""})
    expect(at.page.get_by_role("alert").filter(has_text="too busy")).to_be_visible()
    expect(state).to_have_text("drained")
    live.ask("ada", "POST", "/v1/nodes/node-1/undrain")
    expect(state).to_have_text("up")


def test_a_pause_leaves_nothing_behind(signed_in: SignedIn) -> None:
    at = signed_in("ann", "/jobs")
    found = at.page.evaluate(
        """async () => { const { pause } = await import('/ui/js/api.js'), heard = new Set();
        const signal = { aborted: false, addEventListener: (_, one) => heard.add(one), removeEventListener: (_, one) => heard.delete(one) };
        await pause(1, signal);
        const late = new Promise((resolve) => setTimeout(resolve, 1000, 'late'));
        return [heard.size, await Promise.race([pause(5000, AbortSignal.abort()).then(() => 'at once'), late])]; }"""
    )
    assert found == [0, "at once"]
