"""The store keeps up: what a busy scheduler asks of it, with bounds that a slow machine meets too. `speed.py` has the figures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlead.server.store import Store

from .speed import LISTINGS, fill, median_ms, submitted_at_once, submitted_by_clients


def slow_listings(store: Store) -> dict[str, float]:
    taken = {name: median_ms(lambda call=call: call(store), 5) for name, call in LISTINGS.items()}
    return {name: ms for name, ms in taken.items() if ms > 100}


def test_three_hundred_submissions_a_second_are_durable(store: Store) -> None:
    assert 1500 / submitted_at_once(store, 1500) > 300
    assert 600 / submitted_by_clients(store, 600, clients=20, first=10_000) > 300


def test_listings_are_quick(sqlite_store: Store) -> None:
    fill(sqlite_store, finished=3_000, waiting=1_000)
    assert slow_listings(sqlite_store) == {}


@pytest.mark.long
def test_listings_are_quick_with_ten_thousand_queued_and_fifty_thousand_finished(opened: Callable[..., Store]) -> None:
    store = opened()
    fill(store, finished=50_000, waiting=10_000)
    assert slow_listings(store) == {}
    assert len(store.recover().jobs) == 10_000
