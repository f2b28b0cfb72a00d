"""What if and the studio, in a browser over a live scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Route, expect
from tests.server.api.service import Service

from .browser import axe
from .conftest import SignedIn

GOOD = "job_id,submit_s,gpus,duration_s,tenant\n" + "".join(
    f"{i},{i * 5},{1 + i % 4},{60 + i},t{i % 3}\n" for i in range(60)
)


@pytest.fixture(scope="module")
def busy(live: Service) -> Service:
    """A queue that another policy would work off in another order."""
    first = live.submit("ada", name="holds-all", run="sleep 600", resources={"gpus": 8}, estimate="10m")
    live.until("ada", first, "running")
    for i, minutes in enumerate((60, 30, 5)):
        live.submit("ann", name=f"waits-{i}", run="sleep 60", resources={"gpus": 8}, estimate=f"{minutes}m")
    return live


def test_another_policy_and_other_nodes_beside_what_is_in_force(signed_in: SignedIn, busy: Service) -> None:
    at = signed_in("ann", "/whatif")
    rows = at.page.get_by_role("region", name="Comparison, a choice a row").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("as it is")
    at.page.get_by_label("srtf", exact=True).check()
    at.page.get_by_label("Nodes to add").fill("2x4")
    at.page.get_by_label("Nodes to remove").fill("node-1")
    at.page.get_by_role("button", name="Compare").click()
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("with 2x4 more, without node-1")
    expect(rows.nth(1).locator(".delta").first).to_contain_text("%")
    expect(at.page.locator(".plot[data-drawn=true]")).to_have_count(4)
    expect(at.page.get_by_role("heading", name="Jobs waiting, the next")).to_be_visible()
    assert at.page.locator(".plot").first.evaluate("(plot) => plot.data.map((one) => one.name)") == [
        "fifo-backfill (as it is)",
        "srtf, with 2x4 more, without node-1",
    ]
    expect(at.page.get_by_role("button", name="Switch to")).to_have_count(0)  # she is no admin
    at.page.evaluate("() => { window.first = document.querySelector('.plot'); }")
    at.page.get_by_label("Nodes to remove").fill("node-77")
    at.page.get_by_role("button", name="Compare").click()
    expect(rows.nth(1)).to_contain_text("no node is called 'node-77'")
    assert at.page.evaluate("window.first.data === undefined"), "the chart of the comparison before is still kept"


def test_a_comparison_is_asked_again_while_another_of_the_same_user_is_worked_out(
    signed_in: SignedIn, busy: Service
) -> None:
    at = signed_in("bob")
    at.expected.append("429")
    refused: list[Route] = []

    def once(route: Route) -> None:
        if refused:
            route.continue_()
        else:
            refused.append(route)
            route.fulfill(status=429, content_type="application/problem+json", body='{"detail": "not yet"}')

    at.page.route("**/v1/whatif", once)
    at.go("/whatif")
    rows = at.page.get_by_role("region", name="Comparison, a choice a row").locator("tbody tr")
    expect(rows).to_have_count(1)
    assert len(refused) == 1


def test_an_admin_switches_to_it_after_a_question(signed_in: SignedIn, busy: Service) -> None:
    at = signed_in("ada", "/whatif")
    at.page.get_by_label("srtf", exact=True).check()
    at.page.get_by_role("button", name="Compare").click()
    at.page.get_by_role("button", name="Switch to srtf / consolidate").click()
    dialog = at.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Switch from fifo-backfill / consolidate to srtf / consolidate?")
    dialog.get_by_role("button", name="Leave it").click()
    assert busy.ask("ada", "GET", "/v1/policy").json()["policy"] == "fifo-backfill"
    at.page.get_by_role("button", name="Switch to srtf / consolidate").click()
    at.page.get_by_role("dialog").get_by_role("button", name="Switch").click()
    expect(at.page.get_by_text("srtf / consolidate decides from now on.")).to_be_visible()
    assert busy.ask("ada", "GET", "/v1/policy").json()["policy"] == "srtf"
    busy.ask("ada", "PUT", "/v1/policy", json={"policy": "fifo-backfill"})


def test_a_comparison_is_seen_to_its_end_and_its_report_opens(signed_in: SignedIn, live: Service) -> None:
    at = signed_in("ann", "/studio")
    at.page.get_by_label("Jobs", exact=True).fill("300")
    at.page.get_by_label("For so many GPUs").fill("32")
    at.page.get_by_label("Nodes × GPUs").fill("4x8")
    at.page.get_by_role("button", name="Run").click()
    expect(at.page.get_by_role("heading", level=1)).to_have_text("fifo, las, tiresias")
    expect(at.page.get_by_role("progressbar").or_(at.page.locator("iframe.report"))).to_be_visible()
    report = at.page.frame_locator("iframe.report")
    expect(report.get_by_role("heading", name="3 policies compared")).to_be_visible(
        timeout=240_000
    )  # the first compiles
    expect(report.get_by_role("region", name="Comparison").locator("tbody tr").nth(1)).to_contain_text("300")
    expect(report.locator(".plot .main-svg").first).to_be_visible()
    assert (
        report.locator("html").evaluate(
            "() => { try { return parent.sessionStorage.length; } catch { return 'kept apart'; } }"
        )
        == "kept apart"
    )
    with at.page.expect_download() as saving:
        report.get_by_role("button", name="CSV").first.click()
    assert saving.value.suggested_filename == "jct-of-finished-jobs.csv"
    with at.page.expect_download() as saving:
        at.page.get_by_role("button", name="Download the report").click()
    text = Path(saving.value.path()).read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "philly-like" in text
    at.page.get_by_role("link", name="Studio").first.click()
    expect(at.page.locator(".run").first).to_contain_text("done")


def test_a_bad_trace_is_answered_with_its_line_and_a_good_one_is_compared(
    signed_in: SignedIn, live: Service, tmp_path: Path
) -> None:
    at = signed_in("ann", "/studio")
    at.expected = ["422"]  # the browser itself notes every refusal
    at.page.get_by_role("button", name="A trace").click()
    bad, good = tmp_path / "spoilt.csv", tmp_path / "good.csv"
    bad.write_text("job_id,submit_s,gpus,duration_s\n1,0,4,600\n2,30,four,600\n")
    good.write_text(GOOD)
    at.page.get_by_label("Upload a trace").set_input_files(bad)
    at.page.get_by_role("button", name="Upload", exact=True).click()
    told = at.page.get_by_role("alert")
    expect(told).to_contain_text("spoilt.csv")
    for part in ("Line", "3", "gpus", "four", "Would do"):
        expect(told).to_contain_text(part)
    at.page.get_by_label("Upload a trace").set_input_files(good)
    at.page.get_by_role("button", name="Upload", exact=True).click()
    expect(at.page.get_by_role("radio", name="good.csv")).to_be_checked()
    expect(told).to_have_count(0)
    at.page.get_by_label("Nodes × GPUs").fill("")
    at.page.get_by_role("button", name="Run").click()
    rows = at.page.frame_locator("iframe.report").get_by_role("region", name="Comparison").locator("tbody tr")
    expect(rows).to_have_count(3, timeout=240_000)
    expect(at.page.get_by_text("good.csv on 2 nodes, 8 GPUs")).to_be_visible()


def test_what_the_form_gets_wrong_is_said_beside_it(signed_in: SignedIn, live: Service) -> None:
    at = signed_in("ann", "/studio")
    at.expected = ["422"]
    at.page.get_by_label("Nodes × GPUs").fill("many")
    at.page.get_by_role("button", name="Run").click()
    expect(at.page.get_by_role("alert")).to_contain_text("cluster shape")


def test_a_viewer_looks_and_is_offered_nothing(signed_in: SignedIn, live: Service) -> None:
    at = signed_in("vic", "/studio")
    at.page.locator("main[data-shown=true]").wait_for()
    expect(at.page.get_by_role("button", name="Run")).to_have_count(0)
    expect(at.page.get_by_role("button", name="Delete")).to_have_count(0)


@pytest.mark.parametrize("address", ["/whatif", "/studio"])
def test_they_fit_a_phone(signed_in: SignedIn, live: Service, address: str) -> None:
    at = signed_in("ann", address, phone=True)
    expect(at.page.get_by_role("heading", level=1)).to_be_visible()
    expect(at.page.get_by_role("button", name="Compare" if address == "/whatif" else "Run", exact=True)).to_be_enabled()
    assert at.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("address", ["/whatif", "/studio"])
def test_no_serious_barrier_is_found(signed_in: SignedIn, busy: Service, address: str, dark: bool) -> None:
    at = signed_in("ada", address, dark=dark)
    if address == "/whatif":
        at.page.get_by_label("las", exact=True).check()
        at.page.get_by_role("button", name="Compare").click()
        at.page.locator(".plot[data-drawn=true]").nth(3).wait_for()
        expect(at.page.get_by_role("button", name="Switch to las")).to_be_visible()
    else:
        at.page.locator("main[data-shown=true]").wait_for()
        at.page.get_by_role("button", name="A trace").click()
    at.page.evaluate(axe())  # above the policy, as whatever playwright runs
    found = at.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    serious = [
        f"{one['id']}: {[node['target'] for node in one['nodes']]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
