"""The list of jobs, over a live scheduler."""

from __future__ import annotations

from playwright.sync_api import expect
from tests.server.api.service import Service

from .conftest import SignedIn


def test_a_job_is_seen_from_submission_to_its_end(signed_in: SignedIn, live: Service) -> None:
    at = signed_in("ann", "/jobs")
    expect(at.page.get_by_role("heading", name="Jobs")).to_be_visible()
    go_on = live.path / "go-on"
    job = live.submit(name="seen-to-its-end", run=f"until [ -e {go_on} ]; do sleep 0.1; done", resources={"gpus": 1})
    row = at.page.locator("tbody tr", has_text="seen-to-its-end")
    expect(row.locator(".state")).to_have_text("running")
    assert row.locator("td").nth(0).inner_text() == job
    row.evaluate("(element) => { element.mine = true; }")
    go_on.write_text("")
    expect(row.locator(".state")).to_have_text("done")
    assert row.evaluate("(element) => element.mine") is True, "the row was made anew, which flickers"
