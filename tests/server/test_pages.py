"""Listings: filters, orders, and pages that lose and double nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.model.errors import InputError
from fairlead.server.store import SORTS, Batch, JobFilter, Store

from .build import finish, names, start, submission, submit

BOTH = [pytest.param(False, id="up"), pytest.param(True, id="down")]


def some_jobs(store: Store) -> None:
    """Twelve that wait, run or have ended, with equal values in every column that may be sorted by."""
    wanted = [
        submission(f"job-{i % 3}", i, tenant=f"t{i % 2}", user=f"u{i % 4}", gpus=i % 3, priority=i % 2)
        for i in range(12)
    ]
    jobs = submit(store, *wanted)
    batch = Batch()
    for job in jobs[:8]:
        start(batch, job, 20.0 + job % 3)
    for job in jobs[:5]:
        finish(batch, job, 30.0 + job % 2)
    store.write(batch)


def all_pages(store: Store, limit: int, which: JobFilter | None = None, **options: Any) -> list[int]:
    found: list[int] = []
    cursor = None
    while True:
        page = store.jobs(which or JobFilter(), limit=limit, cursor=cursor, **options)
        found += [job.seq for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            return found
        assert len(page.jobs) == limit


@pytest.mark.parametrize("descending", BOTH)
def test_pages_put_together_are_the_whole_in_every_order(store: Store, descending: bool) -> None:
    some_jobs(store)
    rows = store.jobs(limit=100).jobs
    for sort, column in SORTS.items():
        have = [row for row in rows if getattr(row, column.key or "") is not None]
        without = sorted((row.seq for row in rows if row not in have), reverse=descending)
        have = sorted(have, key=lambda row: (getattr(row, column.key or ""), row.seq), reverse=descending)
        want = [row.seq for row in have] + without
        for limit in (1, 2, 5, 12, 100):
            assert all_pages(store, limit, sort=sort, descending=descending) == want, (sort, limit)


def test_filters(store: Store) -> None:
    some_jobs(store)
    assert store.count(JobFilter(states=["done"])) == 5
    assert store.count(JobFilter(states=["done", "running"])) == 8
    assert store.count(JobFilter(tenants=["t1"], users=["u1", "u3"])) == 6
    assert store.count(JobFilter(live=False)) == 5
    assert store.count(JobFilter(search="JOB-1")) == 4
    assert names(store, JobFilter(search="12")) == ["job-2"]
    assert all_pages(store, 2, JobFilter(states=["done"], tenants=["t0"]), sort="finished") == [5, 3, 1]


def test_a_search_is_for_the_letters_that_are_in_it(store: Store) -> None:
    submit(store, submission("50%"), submission("500"), submission("a_b"), submission("aXb"), submission("c\\d"))
    assert names(store, JobFilter(search="0%")) == ["50%"]
    assert names(store, JobFilter(search="a_b")) == ["a_b"]
    assert names(store, JobFilter(search="\\")) == ["c\\d"]


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "é",
        "W10",
        "eyJhIjoxfQ",
        "WyJuYW1lIixmYWxzZSwxLDFd",
        "WyJzdWJtaXR0ZWQiLCB0cnVlLCAxMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMCwgMV0",
    ],
)
def test_a_cursor_that_nobody_gave_out(store: Store, cursor: str) -> None:
    submit(store, submission("a"))
    with pytest.raises(InputError, match="cursor"):
        store.jobs(cursor=cursor)


@given(text=st.text(max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_cursor_is_more_than_an_error(sqlite_store: Store, text: str) -> None:
    with pytest.raises(InputError):
        sqlite_store.jobs(cursor=text)


def test_a_page_of_another_order_and_orders_that_are_not(store: Store) -> None:
    some_jobs(store)
    cursor = store.jobs(limit=2, sort="name").cursor
    with pytest.raises(InputError, match="another order"):
        store.jobs(limit=2, sort="state", cursor=cursor)
    with pytest.raises(InputError, match="another order"):
        store.jobs(limit=2, sort="name", descending=False, cursor=cursor)
    with pytest.raises(InputError, match="did you mean 'name'"):
        store.jobs(sort="nme")
    for limit in (0, 1001):
        with pytest.raises(InputError, match="1 to 1000"):
            store.jobs(limit=limit)


_orders = st.tuples(st.sampled_from(sorted(SORTS)), st.booleans(), st.integers(1, 7))


@given(_orders, st.lists(st.integers(0, 3), max_size=8))
@settings(max_examples=15, deadline=None)
def test_jobs_that_come_between_two_pages_hide_and_double_no_other(
    tmp_path_factory: pytest.TempPathFactory, order: tuple[str, bool, int], arrivals: list[int]
) -> None:
    sort, descending, limit = order
    with Store(tmp_path_factory.mktemp("pages") / "s.db") as store:
        some_jobs(store)
        there = {job.seq for job in store.jobs(limit=100).jobs}
        seen: list[int] = []
        cursor, coming = None, iter(arrivals)
        while True:
            page = store.jobs(sort=sort, descending=descending, limit=limit, cursor=cursor)
            seen += [job.seq for job in page.jobs]
            cursor = page.cursor
            if cursor is None:
                break
            for i in range(next(coming, 0)):
                submit(store, submission(f"job-{i}", 50.0, tenant=f"t{i}", user="u1", gpus=i, priority=i))
        assert len(seen) == len(set(seen))
        assert there <= set(seen)


def test_readers_page_while_others_submit(opened: Callable[..., Store]) -> None:
    store = opened()
    there = set(submit(store, *(submission(f"j{i}", i) for i in range(200))))
    stop = threading.Event()

    def submitting() -> None:
        while not stop.is_set():
            submit(store, submission("late", 999.0))

    thread = threading.Thread(target=submitting)
    thread.start()
    try:
        for sort in ("submitted", "name", "started"):
            seen = all_pages(store, 17, JobFilter(search="j"), sort=sort)
            assert len(seen) == len(set(seen)) == 200
            assert set(seen) == there
    finally:
        stop.set()
        thread.join()


def test_the_folder_of_a_store_is_its_owners_alone(tmp_path: Path) -> None:
    with Store(tmp_path / "deep" / "er" / "s.db") as store:
        submit(store, submission("a"))
        for path in (tmp_path / "deep" / "er").iterdir():
            assert path.stat().st_mode & 0o077 == 0, path.name
        assert (tmp_path / "deep" / "er").stat().st_mode & 0o077 == 0


def test_the_journal_is_read_up_to_a_number_and_for_one_user(store: Store) -> None:
    submit(store, submission("a", user="ann"), submission("b", user="bob"), submission("c", user="ann"))
    batch = Batch()
    batch.record("drain", 2.0, node="node-0")
    store.write(batch)
    assert [(event.seq, event.job_id) for event in store.events()] == [(1, "1"), (2, "2"), (3, "3"), (4, None)]
    assert [event.seq for event in store.events(1, until=3)] == [2, 3]
    assert [event.seq for event in store.events(user="ann")] == [1, 3, 4]
    assert [event.seq for event in store.events(user="bob", until=3)] == [2]
    assert [event.job_id for event in store.timeline("2")] == ["2"]


def test_jobs_come_with_their_specifications_page_by_page(store: Store) -> None:
    submit(store, submission("a", 1.0, gpus=2), submission("b", 2.0, array=(0, 1, 2)), submission("c", 3.0))
    seen: list[tuple[str, int]] = []
    after = 0
    while page := store.with_specs(after, limit=2):
        seen += [(row.id, spec.gpus) for row, spec in page]
        after = page[-1][0].seq
    assert seen == [("1", 2), ("2_0", 1), ("2_1", 1), ("2_2", 1), ("5", 1)]
    assert [row.id for row, _ in store.with_specs(since_s=2.0, until_s=3.0)] == ["2_0", "2_1", "2_2"]
    assert store.with_specs(since_s=9.0) == []
