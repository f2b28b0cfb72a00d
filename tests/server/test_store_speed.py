"""The store keeps up: what a busy scheduler asks of it, with bounds that a slow machine meets too. `speed.py` has the figures."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import event

from fairlead.model.job import Dependency
from fairlead.server.store import Batch, JobFilter, Store

from .build import finish, start, submission, submit
from .speed import LISTINGS, fill, median_ms, submitted_at_once, submitted_by_clients


def slow_listings(store: Store) -> dict[str, float]:
    taken = {name: median_ms(lambda call=call: call(store), 5) for name, call in LISTINGS.items()}
    return {name: ms for name, ms in taken.items() if ms > 100}


def test_three_hundred_submissions_a_second_are_durable(store: Store) -> None:
    assert 1500 / submitted_at_once(store, 1500) > 300
    assert 600 / submitted_by_clients(store, 600, clients=50, first=10_000) > 300


def plans(store: Store, work: Callable[[], object]) -> list[str]:
    """How SQLite goes about everything that is asked of it meanwhile."""
    asked: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, parameters: Any, ___: object, many: bool) -> None:
        if statement.startswith(("SELECT", "UPDATE", "DELETE")):
            asked.append((statement, parameters[0] if many else parameters))

    engines = (store._database._reading, store._database._writing)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    work()
    for engine in engines:
        event.remove(engine, "before_cursor_execute", note)
    assert asked
    with closing(sqlite3.connect(store.where)) as connection:
        return [
            f"{row[3]} in {statement}"
            for statement, parameters in asked
            for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]


def test_no_write_and_no_usual_listing_looks_at_every_job(sqlite_store: Store) -> None:
    store = sqlite_store
    submit(store, submission("first"), submission("second", array=(0, 1)))

    def work() -> None:
        waits = (Dependency("1"), Dependency("2"))
        (job,) = submit(store, submission("a", key="k", depends_on=waits))
        submit(store, submission("a", key="k", depends_on=waits))
        batch = Batch()
        start(batch, job, 2.0)
        finish(batch, job, 3.0)
        batch.charge("vision", 1.0, 3.0)
        store.write(batch)
        for which in (JobFilter(), JobFilter(states=["done"]), JobFilter(tenants=["a"]), JobFilter(users=["a"])):
            store.jobs(which)
        store.jobs(sort="finished", cursor=store.jobs(sort="finished", limit=1).cursor)
        store.timeline(str(job))
        store.events(3)
        store.job("1")

    looks = [plan for plan in plans(store, work) if re.match(r"SCAN (jobs|events|specs)\b", plan)]
    # in order of submission from the newest on, until the page is full: that is no look at every job
    allowed = re.compile(r"SCAN jobs in SELECT .* ORDER BY jobs\.seq DESC\s+LIMIT", re.DOTALL)
    assert [plan for plan in looks if not allowed.match(plan)] == []


def test_listings_are_quick(sqlite_store: Store) -> None:
    fill(sqlite_store, finished=3_000, waiting=1_000)
    assert slow_listings(sqlite_store) == {}


@pytest.mark.long
def test_listings_are_quick_with_ten_thousand_queued_and_fifty_thousand_finished(opened: Callable[..., Store]) -> None:
    store = opened()
    fill(store, finished=50_000, waiting=10_000)
    assert slow_listings(store) == {}
    assert len(store.recover().jobs) == 10_000
    assert 600 / submitted_by_clients(store, 600, clients=50, first=1_000_000) > 300
