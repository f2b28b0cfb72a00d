"""The report in a real browser, where there is one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fairlead.record.report import write_report

from .runs import reports
from .test_report import NASTY

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium here")

#: what a person would do, and what the page then says of itself
PROBE = """
<script>
addEventListener('load', () => {
  const list = document.querySelectorAll('[role=tablist]'), map = list[list.length - 1];
  const tabs = map.querySelectorAll('[role=tab]');
  tabs[0].focus();
  tabs[0].dispatchEvent(new KeyboardEvent('keydown', { key: 'End', bubbles: true }));
  const last = tabs[tabs.length - 1];
  const panel = document.getElementById(last.getAttribute('aria-controls'));
  const say = (name, value) => document.body.setAttribute('data-' + name, String(value));
  say('ready', document.documentElement.dataset.ready);
  say('hacked', window.hacked);
  say('tab', last.getAttribute('aria-selected') + ' ' + (document.activeElement === last) + ' ' + !panel.hidden);
  say('drawn', document.querySelectorAll('.plot .main-svg').length > 0 && panel.querySelector('.main-svg') !== null);
  say('lines', document.querySelector('.plot').data.length);
  say('legend', document.querySelector('.plot .legendtext').textContent);
  say('sideways', document.documentElement.scrollWidth > innerWidth);
  const line = document.querySelector('.plot').data[0].line.color;
  say('tone', line === getComputedStyle(document.documentElement).getPropertyValue('--t0').trim());
});
</script>
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 500])
def test_the_report_draws_itself_and_answers_to_the_keyboard(tmp_path: Path, scheme: str, width: int) -> None:
    path = tmp_path / "report.html"
    write_report(path, reports([NASTY, "b"], tenants=[NASTY, "t1", "t2"]), title=NASTY)
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>"), encoding="utf-8")
    done = subprocess.run(
        [
            str(BROWSER),
            "--headless",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
            f"--window-size={width},900",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=10000",
            "--dump-dom",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    said = dict(re.findall(r'data-(\w+)="([^"]*)"', done.stdout[done.stdout.index("<body") :].split(">", 1)[0]))
    assert said["ready"] == "true"
    assert said["hacked"] == "undefined"
    assert said["tab"] == "true true true"
    assert said["drawn"] == "true"
    assert said["lines"] == "2"
    assert said["legend"].startswith("&lt;/script")  # the name as it is written, seen as text
    assert said["sideways"] == "false"
    assert said["tone"] == "true"
