"""Signing in, and what a page may load."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect
from tests.server.api.service import Service

from fairlead.server.api.pages import assets

from .browser import watched
from .conftest import SignedIn


def test_a_wrong_token_is_refused_in_words(browser: Browser, live: Service) -> None:
    with watched(browser, live.url) as at:
        at.expected = ["401"]  # the browser itself notes every refusal
        at.sign_in("fl_wrong")
        expect(at.page.get_by_role("alert")).to_have_text("This token is not known here, has expired or was revoked.")
        at.page.get_by_label("Your token").fill("wröng")
        at.page.keyboard.press("Enter")
        expect(at.page.get_by_role("alert")).to_contain_text("characters that no token has")
        at.page.get_by_label("Your token").fill(live.token["ann"])
        at.page.keyboard.press("Enter")
        expect(at.page.get_by_role("heading", level=1)).to_be_visible()
        assert at.page.evaluate("Object.keys(localStorage).length + document.cookie.length") == 0


def test_a_token_lasts_as_long_as_the_tab_and_signing_out_forgets_it(signed_in: SignedIn) -> None:
    at = signed_in("ann", "/jobs")
    at.page.reload()
    expect(at.page.get_by_role("heading", name="Jobs")).to_be_visible()
    expect(at.page.get_by_text("user · vision")).to_be_visible()
    at.page.get_by_role("button", name="Sign out").click()
    expect(at.page.get_by_label("Your token")).to_be_focused()
    assert at.page.evaluate("sessionStorage.length") == 0
    at.page.reload()
    expect(at.page.get_by_label("Your token")).to_be_visible()


def test_a_token_that_is_revoked_ends_the_session(signed_in: SignedIn, live: Service, browser: Browser) -> None:
    made = live.ask("ann", "POST", "/v1/tokens", json={"label": "laptop"}).json()
    with watched(browser, live.url) as at:
        at.expected = ["401"]
        at.sign_in(made["token"])
        at.page.locator("html[data-ready=true]").wait_for()
        live.ask("ann", "DELETE", f"/v1/tokens/{made['id']}")
        expect(at.page.get_by_role("alert")).to_have_text("Your token counts no more. Sign in again.")


#: what somebody would try who got a word into a page
TRIED = """async () => {
  const broken = [];
  document.addEventListener('securitypolicyviolation', (event) => broken.push(event.effectiveDirective));
  const inline = document.createElement('script');
  inline.textContent = 'window.hacked = "inline"';
  document.head.append(inline);
  const foreign = document.createElement('script');
  foreign.src = 'https://elsewhere.example/x.js';
  document.head.append(foreign);
  // later, as the page itself would: what runs at once here is above the policy
  await new Promise((done) => setTimeout(() => { try { (0, eval)('window.hacked = "eval"'); } catch { /* as it should be */ } done(); }, 50));
  await fetch('https://elsewhere.example/').catch(() => {});
  const frame = document.createElement('iframe');
  frame.src = 'https://elsewhere.example/';
  document.body.append(frame);
  document.body.insertAdjacentHTML('beforeend', '<p id="styled" style="position: fixed">x</p>');
  await new Promise((done) => setTimeout(done, 300));
  return { broken: [...new Set(broken)].sort(), hacked: window.hacked ?? null, style: getComputedStyle(document.getElementById('styled')).position };
}"""


def test_the_browser_holds_a_page_to_the_policy(signed_in: SignedIn, live: Service) -> None:
    policy = live.ask(None, "GET", "/").headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    at = signed_in("ada")
    expect(at.page.locator(".plot[data-drawn]")).to_have_count(7)
    assert at.said == [], "the pages themselves keep to it, charts and all"
    at.expected = ["Content Security Policy", "content security policy", "ERR_", "Refused"]
    found = at.page.evaluate(TRIED)
    assert found["hacked"] is None
    assert found["style"] == "static"
    assert set(found["broken"]) >= {"script-src-elem", "script-src", "connect-src", "frame-src", "style-src-attr"}
    at.asked.clear()  # what was tried here on purpose, and did not get out
    at.page.reload()
    expect(at.page.locator("html[data-ready=true]")).to_be_visible()


def test_files_are_served_without_a_token_and_kept_by_the_browser(live: Service) -> None:
    for name in ["", *(f"ui/{one}" for one in assets()), "ui/plotly.min.js"]:
        answer = live.ask(None, "GET", f"/{name}")
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache"), name
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = live.ask(None, "GET", f"/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b""), name
        plain = live.ask(None, "GET", f"/{name}", headers={"Accept-Encoding": "identity"})
        assert plain.content == answer.content
    assert live.ask(None, "HEAD", "/").status_code == 200


@pytest.mark.parametrize(
    "path", ["ui/", "ui/nothing.js", "ui/../api/app.py", "ui/%2e%2e/api/app.py", "ui/js", "ui/js/main.js/"]
)
def test_nothing_else_is_served(live: Service, path: str) -> None:
    answer = live.ask(None, "GET", f"/{path}")
    assert answer.status_code in (401, 404), answer.text
    assert b"import" not in answer.content


def test_every_module_that_is_imported_is_there() -> None:
    found = assets()
    for name, asset in found.items():
        if name.endswith(".js"):
            folder = name.rpartition("/")[0]
            for target in re.findall(r"^import .*?'(\.[^']+)'", asset.body.decode(), re.MULTILINE):
                parts: list[str] = folder.split("/")
                for part in target.split("/"):
                    if part == "..":
                        parts.pop()
                    elif part != ".":
                        parts.append(part)
                assert "/".join(parts) in found, f"{name} imports {target}"
    assert all(len(asset.body.splitlines()) <= 500 for asset in found.values()), "a file needs a table of contents"
