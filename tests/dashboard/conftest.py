"""A browser and a scheduler for the tests of a file. Not for longer: while playwright is there, so is an event loop of its own, and tests
of other files want to run theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright
from tests.server.api.service import Service, service

from . import scenario
from .browser import FLAGS, Watched, chromium, watched
from .stage import Stage, staged

#: somebody's page: `signed_in("ann")`
SignedIn = Callable[..., Watched]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For a file of tests: as long as playwright has one, nothing else in this process can run an event loop of its own."""
    path = chromium()
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield made
        made.close()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("dashboard") / "state") as made:
        yield made


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The seeded scenario, after six hours."""
    with staged(scenario.day(tmp_path_factory.mktemp("day") / "state")) as made:
        yield made


@pytest.fixture
def signed_in(browser: Browser, live: Service) -> Iterator[SignedIn]:
    """Opens pages; when the test is over, none may have complained or asked anybody else."""
    with ExitStack() as stack:

        def opened(who: str, at: str = "/", **options: Any) -> Watched:
            found = stack.enter_context(watched(browser, live.url, **options))
            found.sign_in(live.token[who])
            found.page.locator("html[data-ready=true]").wait_for()
            found.go(at)
            return found

        yield opened
    live.close_clients()
