"""The list of jobs and a job's own page, over a live scheduler with real processes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Route, expect
from tests.server.api.service import Service, wait_for

from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.runtime.live import Decision

from .conftest import SignedIn


@pytest.fixture
def full(live: Service) -> Iterator[str]:
    """A job of ann's on all GPUs, and afterwards nothing at all."""
    job = live.submit(resources={"gpus": 8}, name="has-everything", time_limit="2h")
    live.until("ann", job, "running")
    yield job
    live.ask("ada", "PUT", "/v1/tenants/vision", json={"quota_gpus": None})
    left = live.ask("ada", "GET", "/v1/jobs?live=true&limit=1000").json()["jobs"]
    for one in left:
        live.ask("ada", "POST", f"/v1/jobs/{one['id']}/cancel")
    live.until("ann", job, "cancelled", "failed", "done")


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


def test_jobs_are_filtered_sorted_and_paged_by_the_server(signed_in: SignedIn, live: Service, full: str) -> None:
    sweep = live.submit(name="sweep", array="0-59", resources={"gpus": 1})
    at = signed_in("ann", "/jobs")
    rows = at.page.locator("tbody tr")
    with at.page.expect_response(lambda answer: "name=sweep" in answer.url):
        at.page.get_by_label("Search").fill("sweep")
    expect(rows).to_have_count(50)
    before = rows.first.inner_text()
    at.page.get_by_role("button", name="Next page").click()
    expect(rows).to_have_count(10)
    expect(at.page.get_by_text("51 to 60")).to_be_visible()
    at.page.get_by_role("button", name="Previous page").click()
    expect(rows).to_have_count(50)
    assert rows.first.inner_text().split()[0] == before.split()[0]
    at.page.get_by_label("Search").fill("")
    at.page.get_by_label("State").select_option("running")
    expect(rows).to_have_count(1)
    at.page.get_by_label("State").select_option("")
    at.page.get_by_role("button", name="GPUs").click()
    expect(rows.first).to_contain_text("has-everything")
    expect(at.page.get_by_role("columnheader", name="GPUs")).to_have_attribute("aria-sort", "descending")
    asked = [url for url in at.asked if "/v1/jobs?" in url]
    assert any("sort=gpus" in url for url in asked)
    assert all("limit=50" in url for url in asked)
    # what was chosen is in the address
    at.page.reload()
    expect(at.page.get_by_role("columnheader", name="GPUs")).to_have_attribute("aria-sort", "descending")
    live.ask("ann", "POST", f"/v1/jobs/{sweep}/cancel")


def test_rows_keep_their_order_while_jobs_change(signed_in: SignedIn, live: Service, full: str) -> None:
    jobs = [live.submit(name=f"still-{i}", resources={"gpus": 1}) for i in range(6)]
    at = signed_in("ann", "/jobs?search=still&sort=name&descending=false")
    rows = at.page.locator("tbody tr")
    expect(rows).to_have_count(6)
    names = [f"still-{i}" for i in range(6)]
    at.page.evaluate("() => document.querySelectorAll('tbody tr').forEach((row) => { row.mine = true; })")
    live.ask("ann", "POST", f"/v1/jobs/{jobs[2]}/cancel")
    expect(rows.nth(2).locator(".state")).to_have_text("cancelled")
    assert [row.locator("td").nth(1).inner_text() for row in rows.all()] == names
    assert at.page.evaluate("() => [...document.querySelectorAll('tbody tr')].every((row) => row.mine)")
    for job in jobs:
        live.ask("ann", "POST", f"/v1/jobs/{job}/cancel")


def test_a_row_keeps_the_focus_when_one_above_it_goes(signed_in: SignedIn, live: Service, full: str) -> None:
    jobs = [live.submit(name=f"queued-{i}", resources={"gpus": 1}) for i in range(4)]
    at = signed_in("ann", "/jobs?search=queued&state=waiting&sort=name&descending=false")
    rows = at.page.locator("tbody tr")
    expect(rows).to_have_count(4)
    link = at.page.get_by_role("link", name=jobs[3], exact=True)
    link.focus()
    live.ask("ann", "POST", f"/v1/jobs/{jobs[1]}/cancel")
    expect(rows).to_have_count(3)
    expect(link).to_be_focused()


def test_next_page_twice_before_the_answer_is_one_page(signed_in: SignedIn, live: Service, full: str) -> None:
    sweep = live.submit(name="twice", array="0-59", resources={"gpus": 1})
    at = signed_in("ann", "/jobs?search=twice")
    rows = at.page.locator("tbody tr")
    expect(rows).to_have_count(50)
    at.page.get_by_role("button", name="Next page").evaluate("(button) => { button.click(); button.click(); }")
    expect(rows).to_have_count(10)
    expect(at.page.get_by_text("51 to 60")).to_be_visible()
    at.page.get_by_role("button", name="Previous page").click()
    expect(at.page.get_by_text("1 to 50")).to_be_visible()
    live.ask("ann", "POST", f"/v1/jobs/{sweep}/cancel")


def test_a_list_that_can_not_be_had_at_once_comes_later(signed_in: SignedIn, live: Service, full: str) -> None:
    at = signed_in("ann", "/jobs")
    at.expected = ["status of 503"]
    expect(at.page.locator("main[data-shown]")).to_be_visible()
    at.page.route("**/v1/jobs?*sort=gpus*", lambda route: route.fulfill(status=503, json={"detail": "busy"}), times=1)
    at.page.get_by_role("button", name="GPUs").click()
    expect(at.page.get_by_role("alert").filter(has_text="busy")).to_be_visible()
    expect(at.page.get_by_role("columnheader", name="GPUs")).to_have_attribute("aria-sort", "descending")


def test_a_search_ends_with_its_page(signed_in: SignedIn) -> None:
    at = signed_in("ann", "/jobs")
    expect(at.page.get_by_role("heading", name="Jobs")).to_be_visible()
    at.page.clock.install()
    at.page.evaluate(
        """() => { const search = document.getElementById('search');
        search.value = 'late';
        search.dispatchEvent(new Event('input'));
        location.hash = '/cluster'; }"""
    )
    expect(at.page.get_by_role("heading", name="Cluster")).to_be_visible()
    at.page.clock.fast_forward(1000)
    assert at.page.evaluate("location.hash") == "#/cluster"


def test_a_job_says_why_it_waits_and_when_to_expect_it(signed_in: SignedIn, live: Service, full: str) -> None:
    job = live.submit(name="waits", resources={"gpus": 4}, time_limit="1h")
    at = signed_in("ann", f"/jobs/{job}")
    why = at.page.get_by_role("region", name="Where it stands")
    told = live.ask("ann", "GET", f"/v1/jobs/{job}/explain").json()["message"]
    assert told.startswith("needs 4 GPUs")
    expect(why).to_contain_text("It needs 4 GPUs")
    expect(why).to_contain_text("0 of 8 are free")
    expect(why.locator("dt", has_text="Expected start")).to_be_visible()
    expect(why.locator("dd").first).to_contain_text(re.compile(r"in (1 h|2 h)"))
    why.get_by_role("link", name=full, exact=True).first.click()
    expect(at.page.get_by_role("heading", name="has-everything")).to_be_visible()
    live.ask("ann", "POST", f"/v1/jobs/{job}/cancel")


def test_a_job_that_can_not_run_any_more_says_why_with_numbers(signed_in: SignedIn, live: Service, full: str) -> None:
    job = live.submit(name="too-much", resources={"gpus": 6})
    at = signed_in("ann", f"/jobs/{job}")
    live.ask("ada", "PUT", "/v1/tenants/vision", json={"quota_gpus": 2})

    def told() -> str:
        found = live.ask("ann", "GET", f"/v1/jobs/{job}/explain").json()
        return str(found["message"]) if found["reason"] == "over-quota" else ""

    words = wait_for(told)
    assert "6" in words
    assert "2" in words
    at.page.reload()
    expect(at.page.get_by_role("region", name="Where it stands")).to_contain_text(words)


def test_a_refused_job_is_explained(signed_in: SignedIn, live: Service, full: str) -> None:
    """Most are refused at the door; one whose cluster has shrunk meanwhile is when it is decided on."""
    job = live.submit(name="refused-later", resources={"gpus": 6})
    live.until("ann", job, "waiting")

    async def refuse() -> None:
        decision = Decision(live.scheduler.now(), EventKind.REFUSE, job, reason=Reason.TOO_MANY_GPUS)
        await live.scheduler._ask(lambda turn: live.scheduler._floor.decided(turn, decision))

    live.call(refuse())
    row = live.until("ann", job, "refused")
    assert row["message"]
    at = signed_in("ann", f"/jobs/{job}")
    expect(at.page.locator(".pagehead .state")).to_have_text("refused")
    why = at.page.get_by_role("region", name="Where it stands")
    expect(why).to_contain_text("It can never run here")
    expect(why).to_contain_text(row["message"])
    at.go("/jobs?state=refused")
    expect(at.page.locator("tbody tr").filter(has_text="refused-later")).to_have_count(1)


def test_output_comes_as_it_is_printed_and_the_timeline_grows(signed_in: SignedIn, live: Service) -> None:
    go_on = live.path / "print-on"
    job = live.submit(
        name="prints", run=f"echo first line; until [ -e {go_on} ]; do sleep 0.1; done; echo '<b>last</b> line'"
    )
    at = signed_in("ann", f"/jobs/{job}")
    log = at.page.get_by_role("log")
    expect(log).to_contain_text("first line")
    expect(log).not_to_contain_text("last")
    expect(at.page.locator(".phase.running")).to_be_visible()
    go_on.write_text("")
    expect(log).to_contain_text("<b>last</b> line")  # as it was printed, not as HTML
    expect(at.page.locator(".pagehead .state")).to_have_text("done")
    expect(at.page.locator(".events")).to_contain_text("Ended: done")
    expect(at.page.get_by_role("region", name="Where it stands")).to_contain_text("It ended well.")


def test_output_is_read_on_after_a_break_until_the_job_has_ended(signed_in: SignedIn, live: Service) -> None:
    go_on = live.path / "go-on-printing"
    job = live.submit(
        name="broken-off", run=f"echo first line; until [ -e {go_on} ]; do sleep 0.1; done; echo last line"
    )
    at = signed_in("ann", "/jobs")
    at.expected = ["503"]
    tries = 0

    def broken(route: Route) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            route.fulfill(body="first li")  # and it ends there, as when the scheduler stops
        elif tries == 2:
            route.fulfill(status=503, json={"detail": "not just now"})
        else:
            route.continue_()

    at.page.route("**/logs?*", broken)
    at.go(f"/jobs/{job}")
    log, output = at.page.get_by_role("log"), at.page.get_by_role("region", name="Output")
    expect(log).to_have_text("first li")
    expect(output).to_contain_text("The output can’t be read: not just now")
    expect(log).to_have_text("first line\n")
    expect(output.get_by_role("status")).to_have_text("")
    go_on.write_text("")
    expect(log).to_have_text("first line\nlast line\n")
    expect(at.page.locator(".pagehead .state")).to_have_text("done")
    at.page.wait_for_timeout(3500)
    assert tries == 3, "a job that has ended prints no more"


def test_output_without_end_of_line_is_bounded_also_while_nothing_is_drawn(signed_in: SignedIn, live: Service) -> None:
    job = live.submit(run="yes '50 % done' | tr '\\n' '\\r' | head -c 5000000; echo the end")
    live.until("ann", job, "done")
    at = signed_in("ann", "/jobs")
    at.page.evaluate(
        """() => { window.largest = 0;
        const make = document.createTextNode.bind(document);
        document.createTextNode = (text) => { window.largest = Math.max(window.largest, text.length); return make(text); };
        window.requestAnimationFrame = (draw) => { window.draw = draw; return 1; };
        const ask = window.fetch;
        window.fetch = async (what, options) => {
          const answer = await ask(what, options);
          if (!String(what).includes('/logs?')) return answer;
          const [body, twin] = answer.body.tee();
          twin.pipeTo(new WritableStream()).then(() => { window.isRead = true; });
          return new Response(body, answer);
        }; }"""
    )
    at.go(f"/jobs/{job}")
    at.page.wait_for_function("() => window.isRead", polling=50)
    at.page.wait_for_function(  # what is read by now is there within moments, and drawn at once
        "() => { window.draw?.(); return document.querySelector('[role=log]').textContent.includes('the end'); }",
        polling=50,
    )
    log = at.page.get_by_role("log")
    expect(at.page.get_by_text("Only the end is here.")).to_be_visible()
    assert 1000 < len(log.evaluate("(log) => log.textContent")) <= 2**20
    assert at.page.evaluate("window.largest") <= 2**20


def test_a_job_is_suspended_resumed_and_cancelled_from_its_page(signed_in: SignedIn, live: Service) -> None:
    job = live.submit(name="handled", run="sleep 300")
    live.until("ann", job, "running")
    at = signed_in("ann", f"/jobs/{job}")
    state = at.page.locator(".pagehead .state")
    at.page.get_by_role("button", name="Suspend").click()
    at.page.get_by_role("button", name="Leave it").click()
    assert live.until("ann", job, "running")
    at.page.get_by_role("button", name="Suspend").click()
    at.page.get_by_role("button", name="Suspend the job").click()
    expect(state).to_have_text("held")
    at.page.get_by_role("button", name="Resume").click()
    expect(state).to_have_text("running")
    expect(at.page.locator(".events")).to_contain_text("Held by ann")
    at.page.get_by_role("button", name="Cancel").click()
    at.page.get_by_role("button", name="Cancel the job").click()
    expect(state).to_have_text("cancelled")
    expect(at.page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_a_viewer_sees_everything_and_can_do_nothing(signed_in: SignedIn, live: Service, full: str) -> None:
    at = signed_in("vic", f"/jobs/{full}")
    expect(at.page.locator(".pagehead .state")).to_have_text("running")
    for name in ("Cancel", "Suspend", "Resume"):
        expect(at.page.get_by_role("button", name=name)).to_have_count(0)
    expect(at.page.get_by_role("region", name="Output")).to_contain_text("shown to who submitted them and to admins")
    at.expected = ["403"]
    refused = at.page.evaluate(
        """async (job) => (await fetch(`/v1/jobs/${job}/cancel`, { method: 'POST',
        headers: { Authorization: `Bearer ${sessionStorage.getItem('fairlead-token')}` } })).status""",
        full,
    )
    assert refused == 403
    at.go("/nodes/node-0")
    expect(at.page.get_by_role("heading", name="node-0")).to_be_visible()
    expect(at.page.get_by_role("button", name="Drain")).to_be_hidden()
    assert live.ask("ada", "GET", f"/v1/jobs/{full}").json()["state"] == "running"


def test_somebody_elses_job_is_not_there(signed_in: SignedIn, full: str) -> None:
    at = signed_in("bob", f"/jobs/{full}")
    at.expected = ["404"]
    expect(at.page.get_by_text("There is no such job, or it is not yours to see.")).to_be_visible()


def test_names_are_text_wherever_they_are_shown(signed_in: SignedIn, live: Service) -> None:
    name = '<img src=x onerror="window.hacked=1"></script><b>&amp;'
    job = live.submit(name=name, run="sleep 300")
    live.until("ann", job, "running")
    at = signed_in("ann", "/jobs")
    expect(at.page.locator("tbody tr").first).to_contain_text(name)
    at.go(f"/jobs/{job}")
    expect(at.page.get_by_role("heading", level=1)).to_have_text(name)
    at.go("/cluster")
    expect(at.page.locator("canvas[data-drawn]")).to_be_visible()
    expect(at.page.locator(".legend")).to_contain_text(name)
    assert at.page.evaluate("window.hacked") is None
    live.ask("ann", "POST", f"/v1/jobs/{job}/cancel")
    live.until("ann", job, "cancelled")


def test_what_happens_while_the_scheduler_is_away_is_caught_up_with(signed_in: SignedIn, live: Service) -> None:
    at = signed_in("ann", "/jobs")
    live_state = at.page.locator(".livestate")
    expect(live_state).to_have_text("live")
    at.expected = ["ERR_INTERNET_DISCONNECTED", "network", "Failed to fetch", "ERR_"]
    at.page.context.set_offline(True)
    job = live.submit(name="while-away", run="true")
    live.until("ann", job, "done")
    at.page.context.set_offline(False)
    expect(at.page.locator("tbody tr", has_text="while-away").locator(".state")).to_have_text("done")
    assert wait_for(lambda: live_state.inner_text() == "live")
