"""The map, a node's page and the overview, over a live scheduler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Route, expect
from tests.server.api.service import Service, wait_for

from fairlead.runtime.protocols import Report, ReportKind
from fairlead.server.metrics import GpuReading

from .browser import Watched
from .conftest import SignedIn


@pytest.fixture
def running(live: Service) -> Iterator[str]:
    """A job of ann's on three GPUs of a node."""
    job = live.submit(resources={"gpus": 3}, name="runs")
    live.until("ann", job, "running")
    yield job
    live.ask("ann", "POST", f"/v1/jobs/{job}/cancel")
    live.until("ann", job, "cancelled")


def colours(at: Watched) -> list[str]:
    """Of the first node's four GPUs, as they are on the screen."""
    return at.page.evaluate(
        """() => { const canvas = document.querySelector('canvas'), on = canvas.getContext('2d'), seen = new Set(), found = [];
        const { data, width, height } = on.getImageData(0, 0, canvas.width, canvas.height);
        for (let i = 0; i < width * height; i += 1) { const one = data.slice(4 * i, 4 * i + 4).join(' ');
          if (!seen.has(one)) { seen.add(one); found.push(one); } } return found; }"""
    )


def test_the_map_shows_who_has_each_gpu_and_follows(signed_in: SignedIn, live: Service) -> None:
    at = signed_in("ada", "/cluster")
    canvas = at.page.locator("canvas[data-drawn]")
    expect(canvas).to_be_visible()
    expect(at.page.get_by_role("status").filter(has_text="8 free")).to_be_visible()
    at.expected = ["willReadFrequently"]  # the browser's advice to who reads a canvas, which only this test does
    before = colours(at)
    job = live.submit(resources={"gpus": 3}, name="comes")
    expect(at.page.get_by_role("status").filter(has_text="5 free")).to_be_visible()
    expect(at.page.get_by_role("region", name="Map").get_by_role("link", name="comes, 3")).to_be_visible()
    assert set(colours(at)) - set(before), "nothing new is painted"
    # by keyboard: the first GPU, and what is there
    canvas.focus()
    at.page.keyboard.press("Home")
    expect(at.page.locator(".tip")).to_contain_text("node-0 · GPU 0")
    at.page.keyboard.press("End")
    expect(at.page.locator(".tip")).to_contain_text("node-1 · GPU 3")
    at.page.keyboard.press("Escape")
    expect(at.page.locator(".tip")).to_be_hidden()
    live.ask("ada", "POST", f"/v1/jobs/{job}/cancel")
    expect(at.page.get_by_role("status").filter(has_text="8 free")).to_be_visible()


def test_enter_on_a_gpu_opens_the_job_that_has_it(signed_in: SignedIn, live: Service, running: str) -> None:
    node = live.ask("ada", "GET", f"/v1/jobs/{running}").json()["places"][0]["node"]
    at = signed_in("ada", "/cluster")
    expect(at.page.get_by_role("status").filter(has_text="5 free")).to_be_visible()
    at.page.locator("canvas").focus()
    for _ in range(1 if node == "node-0" else 5):
        at.page.keyboard.press("ArrowRight")
    expect(at.page.locator(".tip")).to_contain_text("runs")
    at.page.keyboard.press("Enter")
    expect(at.page.get_by_role("heading", name="runs", exact=True)).to_be_visible()


def test_a_link_on_the_map_keeps_the_focus_while_the_map_changes(
    signed_in: SignedIn, live: Service, running: str
) -> None:
    node = live.ask("ada", "GET", f"/v1/jobs/{running}").json()["places"][0]["node"]
    at = signed_in("ada", "/cluster")
    expect(at.page.locator(f".legend a[href='#/jobs/{running}']")).to_be_visible()
    at.page.locator("canvas").focus()
    for _ in range(1 if node == "node-0" else 5):
        at.page.keyboard.press("ArrowRight")
    for _ in range(2):  # the node, and the job
        at.page.keyboard.press("Tab")
    link = at.page.locator(".tip").get_by_role("link", name="runs")
    expect(link).to_be_focused()
    live.scheduler.metrics.gpus(GpuReading(node, g, f"GPU-{g}", "T", 40.0, 1000.0, 7000.0) for g in range(4))
    other = live.submit(resources={"gpus": 1}, name="another")
    expect(at.page.get_by_role("status").filter(has_text="4 free")).to_be_visible()
    expect(at.page.locator(".tip")).to_contain_text("40 % busy")
    expect(link).to_be_focused()
    live.scheduler.metrics.gpus([])
    live.ask("ann", "POST", f"/v1/jobs/{other}/cancel")
    live.until("ann", other, "cancelled")


def test_colours_by_tenant_use_and_memory(signed_in: SignedIn, live: Service, running: str) -> None:
    at = signed_in("ann", "/cluster?by=tenant")
    legend = at.page.locator(".legend")
    expect(legend).to_contain_text("vision")
    at.page.get_by_role("button", name="Utilisation").click()
    expect(at.page.get_by_text("Nobody measures these GPUs")).to_be_visible()
    live.scheduler.metrics.gpus(
        GpuReading(f"node-{n}", g, f"GPU-{n}{g}", "T", 10.0 * g, 1000.0 * g, 8000.0 - 1000 * g)
        for n in range(2)
        for g in range(4)
    )
    other = live.submit(name="so-that-something-happens", run="true")
    live.until("ann", other, "done")
    expect(at.page.get_by_text("Nobody measures these GPUs")).to_be_hidden()
    at.page.get_by_role("button", name="Memory").click()
    expect(legend).to_contain_text("75 %")
    at.go("/nodes/node-1")
    expect(at.page.get_by_role("row", name="3").last).to_contain_text("30 %")
    live.scheduler.metrics.gpus([])


def test_of_somebody_elses_jobs_only_the_tenant_is_told(signed_in: SignedIn, live: Service, running: str) -> None:
    at = signed_in("bob", "/cluster")
    expect(at.page.locator(".legend")).to_contain_text("jobs of vision, 3")
    told = live.ask("bob", "GET", "/v1/gpus")
    assert [job for job in told.json()["jobs"] if job["id"] is not None] == []
    assert "runs" not in told.text
    wait_for(lambda: [job["id"] for job in live.ask("ann", "GET", "/v1/gpus").json()["jobs"]] == [running])
    node = live.ask(
        "bob", "GET", f"/v1/nodes/{live.ask('ann', 'GET', f'/v1/jobs/{running}').json()['places'][0]['node']}"
    ).json()
    assert [gpu["holders"] for gpu in node["each"]].count([{"job": None, "tenant": "vision", "milli": 1000}]) == 3


def test_an_admin_drains_a_node_and_uses_it_again(signed_in: SignedIn, live: Service) -> None:
    at = signed_in("ada", "/nodes/node-1")
    at.page.get_by_role("button", name="Drain").click()
    at.page.get_by_label("Why, for people who wonder").fill("a fan is broken")
    at.page.get_by_role("button", name="Drain it").click()
    expect(at.page.get_by_text("Drained by ada")).to_contain_text("a fan is broken")
    expect(at.page.locator(".pagehead .state")).to_have_text("drained")
    expect(at.page.get_by_text("1 node takes no jobs at present.")).to_be_visible()
    assert live.ask("ann", "GET", "/v1/nodes").json()["nodes"][1]["state"] == "drained"
    at.page.get_by_role("button", name="Use it again").click()
    at.page.get_by_role("dialog").get_by_role("button", name="Use it again").click()
    expect(at.page.locator(".pagehead .state")).to_have_text("up")


def test_a_node_that_the_engine_has_lost_says_why(signed_in: SignedIn, live: Service) -> None:
    async def told(kind: ReportKind) -> None:
        report = Report(kind, live.scheduler.now(), node="node-1", message="no power")
        await live.scheduler._ask(lambda turn: live.scheduler._floor.reported(turn, report))

    at = signed_in("ann", "/nodes/node-1")
    expect(at.page.locator(".pagehead .state")).to_have_text("up")
    live.call(told(ReportKind.NODE_DOWN))
    expect(at.page.get_by_text("It takes no jobs: no power.")).to_be_visible()
    expect(at.page.locator(".pagehead .state")).to_have_text("down")
    live.call(told(ReportKind.NODE_UP))
    expect(at.page.locator(".pagehead .state")).to_have_text("up")
    expect(at.page.get_by_text("It takes no jobs")).to_be_hidden()


def test_a_node_that_is_not_there(signed_in: SignedIn) -> None:
    at = signed_in("ann", "/nodes/nod-1")
    at.expected = ["404"]
    expect(at.page.get_by_role("alert").filter(has_text="did you mean 'node-1'?")).to_be_visible()


def test_the_overview_draws_itself_and_follows(signed_in: SignedIn, live: Service, running: str) -> None:
    at = signed_in("ada", "/")
    plots = at.page.locator(".plot[data-drawn]")
    expect(plots).to_have_count(7)
    at.page.evaluate("() => document.querySelectorAll('.plot').forEach((one) => { one.mine = true; })")
    tile = at.page.locator(".tile", has_text="Jobs waiting")
    expect(tile).to_contain_text("0")
    blocker = live.submit(resources={"gpus": 8}, name="waits-for-all")
    expect(tile).to_contain_text("1")
    expect(at.page.get_by_role("region", name="Why jobs wait")).to_contain_text("needs more GPUs than are free")
    assert at.page.evaluate("() => [...document.querySelectorAll('.plot')].every((one) => one.mine && one.data)")
    at.page.get_by_role("button", name="1 hour").click()
    expect(at.page.get_by_role("button", name="1 hour")).to_have_attribute("aria-pressed", "true")
    live.ask("ann", "POST", f"/v1/jobs/{blocker}/cancel")
    expect(tile).to_contain_text("0")


def test_figures_of_this_moment_are_no_means(signed_in: SignedIn, live: Service, running: str) -> None:
    def told(route: Route) -> None:
        answer = route.fetch()
        means = {"allocated": [0.5] * 120, "waiting": [0.5] * 120}
        route.fulfill(response=answer, json=answer.json() | means | {"waiting_most": 9, "started": 7})

    at = signed_in("ada", "/jobs")
    at.page.route("**/v1/overview?*", told)
    at.go("/")
    tile = at.page.locator(".tile", has_text="Allocated now")
    expect(tile).to_contain_text("38 %")
    expect(tile).to_contain_text("3 GPUs")
    expect(at.page.get_by_role("region", name="Jobs waiting")).to_contain_text("On average 0.5 waited, at most 9.")
    expect(at.page.get_by_text("7 jobs started")).to_be_visible()


def test_a_span_that_is_chosen_while_the_scheduler_is_busy_comes_later(signed_in: SignedIn, live: Service) -> None:
    at = signed_in("ada", "/")
    at.expected = ["status of 503"]
    expect(at.page.locator("main[data-shown]")).to_be_visible()
    at.page.route(
        "**/v1/overview?span=1h", lambda route: route.fulfill(status=503, json={"detail": "too busy"}), times=1
    )
    with at.page.expect_response(lambda answer: "span=1h" in answer.url and answer.ok):
        at.page.get_by_role("button", name="1 hour").click()
        expect(at.page.get_by_role("alert").filter(has_text="too busy")).to_be_visible()


@pytest.mark.parametrize("phone", [False, True])
def test_no_page_is_wider_than_the_screen(signed_in: SignedIn, running: str, phone: bool) -> None:
    at = signed_in("ada", "/", phone=phone)
    for address in ("/", "/cluster", "/jobs", f"/jobs/{running}", "/nodes/node-0"):
        at.go(address)
        expect(at.page.locator("main[data-shown]")).to_be_visible()
        assert at.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address


def test_themes_follow_the_machine_and_can_be_chosen(signed_in: SignedIn) -> None:
    at = signed_in("ada", "/", dark=True)
    root = at.page.locator("html")
    expect(root).to_have_attribute("data-theme", "dark")
    button = at.page.get_by_role("button", name="Theme")
    button.click()
    expect(root).to_have_attribute("data-theme", "light")
    at.page.reload()
    expect(root).to_have_attribute("data-theme", "light")
    button.click()
    expect(root).to_have_attribute("data-theme", "dark")


def test_everything_can_be_reached_by_keyboard_with_the_focus_in_sight(signed_in: SignedIn, running: str) -> None:
    at = signed_in("ada", f"/jobs/{running}")
    expect(at.page.locator("main[data-shown]")).to_be_visible()
    at.page.reload()  # so that the focus is nowhere yet
    expect(at.page.locator("main[data-shown]")).to_be_visible()
    seen: list[str] = []
    for _ in range(40):
        at.page.keyboard.press("Tab")
        found = at.page.evaluate(
            """() => { const one = document.activeElement, style = getComputedStyle(one);
            return [one.tagName, (one.getAttribute('aria-label') || one.textContent).trim().slice(0, 40), style.outlineStyle]; }"""
        )
        if found[0] == "BODY":
            break
        assert found[2] != "none", f"no focus is seen on {found}"
        seen.append(found[1])
    for name in ("Skip to the page", "Overview", "Cluster", "Jobs", "Sign out", "Suspend", "Cancel"):
        assert name in seen, seen
