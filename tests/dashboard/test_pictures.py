"""Each page of the seeded scenario: no serious barrier for anybody, in light and in dark, and the pictures of docs/images.

    FAIRLEAD_IMAGES=docs/images python -m pytest tests/dashboard/test_pictures.py

writes the pictures anew."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.server.api.service import wait_for

from .browser import axe, watched
from .stage import Stage

PAGES = ("overview", "cluster", "tenants", "use", "node", "jobs", "job", "whatif", "studio", "comparison", "waits")


def addresses(day: Stage) -> dict[str, str]:
    def first(**which: str) -> dict[str, Any]:
        return dict(day.ask("ada", "GET", "/v1/jobs", params={"sort": "gpus", **which}).json()["jobs"][0])

    runs, waits = first(state="running", name="llm"), first(state="waiting,suspended", sort="submitted")
    comparison = compared(day)
    day.close_clients()
    return {
        "overview": "/",
        "cluster": "/cluster",
        "tenants": "/cluster?by=tenant",
        "use": "/cluster?by=utilization",
        "node": f"/nodes/{runs['places'][0]['node']}",
        "jobs": "/jobs",
        "job": f"/jobs/{runs['id']}",
        "waits": f"/jobs/{waits['id']}",
        "whatif": "/whatif",
        "studio": "/studio",
        "comparison": f"/studio/{comparison}",
    }


def compared(day: Stage) -> str:
    """A comparison of the studio that is done."""
    for run in day.ask("ada", "GET", "/v1/studio/runs").json()["runs"]:
        return str(run["id"])
    wanted = {
        "generator": {"name": "philly-like", "jobs": 20000, "gpus": 512, "load": 1.0, "seed": 1},
        "policies": ["fifo", "srtf", "tiresias"],
    }
    run = day.ask("ada", "POST", "/v1/studio/runs", json=wanted).json()["id"]
    wait_for(lambda: day.ask("ada", "GET", f"/v1/studio/runs/{run}").json()["state"] == "done")
    return str(run)


def choose(page: Page, name: str) -> None:
    """What somebody would do there, so that there is something to see."""
    if name == "whatif":
        for policy in ("srtf", "las"):
            page.get_by_label(policy, exact=True).check()
        page.get_by_label("Nodes to add").fill("8x8")
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("button", name="Switch to srtf")).to_be_visible()
        expect(page.get_by_role("button", name="Compare")).to_be_enabled()
        page.evaluate("scrollTo(0, 0)")


def shown(page: Page) -> None:
    """All of it: the figures are there, and the charts are drawn."""
    expect(page.locator("main[data-shown]")).to_be_visible()
    expect(page.locator(".plot:not([data-drawn])")).to_have_count(0)
    expect(page.locator(".livestate")).to_have_text("live")


def barriers(page: Page) -> list[str]:
    """What axe-core calls serious or critical. Playwright may run it where the page's policy lets nobody."""
    page.evaluate(axe())
    found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['impact']}: {one['help']} ({one['id']}): {[node['html'][:200] for node in one['nodes'][:5]]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def test_barriers_are_found_where_there_are_any(browser: Browser, day: Stage) -> None:
    with watched(browser, day.url) as at:
        at.page.goto(f"{day.url}/")
        expect(at.page.get_by_label("Your token")).to_be_focused()
        at.page.evaluate("() => document.querySelector('label').remove()")
        assert any("label" in one for one in barriers(at.page))


@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_no_page_has_a_serious_barrier(browser: Browser, day: Stage, dark: bool, phone: bool) -> None:
    with watched(browser, day.url, dark=dark, phone=phone) as at:
        at.page.goto(f"{day.url}/")
        expect(at.page.get_by_label("Your token")).to_be_focused()
        assert barriers(at.page) == []
        at.sign_in(day.token["ada"])
        where = addresses(day)
        for name in PAGES:
            at.go(where[name])
            choose(at.page, name)
            shown(at.page)
            assert barriers(at.page) == [], name
        at.page.get_by_role("button", name="Suspend").click()
        expect(at.page.get_by_role("dialog")).to_be_visible()
        assert barriers(at.page) == [], "the question"


def test_pictures_of_every_page(browser: Browser, day: Stage, tmp_path: Path) -> None:
    folder = Path(os.environ.get("FAIRLEAD_IMAGES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    where = addresses(day)
    for dark, phone, names in (
        (False, False, PAGES),
        (True, False, ("overview", "cluster", "whatif", "waits")),
        (False, True, ("overview", "job", "studio")),
    ):
        with watched(browser, day.url, dark=dark, phone=phone) as at:
            at.page.goto(f"{day.url}/")
            if not dark and not phone:
                expect(at.page.get_by_label("Your token")).to_be_focused()
                _picture(at.page, folder / "dashboard-signin.png")
            at.sign_in(day.token["ada"])
            for name in names:
                at.go(where[name])
                choose(at.page, name)
                shown(at.page)
                if name in ("job", "waits"):
                    expect(at.page.locator(".expect dd").first).not_to_have_text("not known")
                at.page.mouse.move(0, 0)
                path = folder / f"dashboard-{name}{'-dark' if dark else ''}{'-phone' if phone else ''}.png"
                _picture(at.page, path)


def test_a_picture_of_the_report_on_that_day(browser: Browser, day: Stage, tmp_path: Path) -> None:
    """`fairlead report` on the same scheduler, as it opens from a disk."""
    from fairlead.cli.live.lived import FromScheduler, collect
    from fairlead.client import Client
    from fairlead.record.lived_numbers import fold_lived
    from fairlead.record.report.lived import lived_report

    folder = Path(os.environ.get("FAIRLEAD_IMAGES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    with Client(day.url, day.token["vic"]) as client:
        source = FromScheduler(client)
        numbers = fold_lived(collect(source, source.now_s - 6 * 3600.0, source.now_s))
        jobs = list(client.all_jobs(limit=1000))
    # the other way round: what each job says of itself. It has its GPUs from when that was decided, and runs a little later
    ran = sum(job.ran_s * job.gpus for job in jobs)
    assert ran <= numbers.held_gpu_s <= 1.1 * ran
    assert len(numbers.lived.suspensions) == sum(job.preemptions for job in jobs)
    assert numbers.failed == sum(job.state in ("failed", "lost") for job in jobs)
    path = tmp_path / "report.html"
    lived_report(numbers, lambda _: 0.0).write(path)
    page = browser.new_page(viewport={"width": 1280, "height": 1500}, color_scheme="light")
    page.goto(path.as_uri())
    page.locator("html[data-ready=true]").wait_for()
    assert barriers(page) == []
    _picture(page, folder / "report.png")
    page.close()


def _picture(page: Page, path: Path) -> None:
    page.screenshot(path=path)
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == tuple(page.viewport_size[side] for side in ("width", "height"))  # type: ignore[index,literal-required]
    assert 10_000 < len(data) < 600_000, path.name
