"""Who makes an answer stops while somebody decides."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fairlead.server.store import JobFilter, Store
from fairlead.server.way import give_way, giving_way, right_of_way


class Reader:
    """A thread that counts how often it was let go on."""

    def __init__(self, step: Callable[[], object]) -> None:
        self.steps, self._step = 0, step
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go)

    def _go(self) -> None:
        while not self._stop.is_set():
            self._step()
            self.steps += 1

    def goes_on(self) -> bool:
        """Within a second; it takes no time at all where nobody holds it up."""
        before, tick = self.steps, threading.Event()
        for _ in range(200):
            if self.steps > before + 1:  # the first may have been under way
                return True
            tick.wait(0.005)
        return False

    @contextmanager
    def running(self) -> Iterator[Reader]:
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join(60.0)
        assert not self._thread.is_alive()


def step_of_a_loop() -> None:
    list(giving_way(range(3)))


@pytest.mark.parametrize("step", [give_way, step_of_a_loop])
def test_a_reader_stops_while_somebody_decides_and_goes_on_after_it(step: Callable[[], object]) -> None:
    with Reader(step).running() as reader:
        assert reader.goes_on()
        with right_of_way():
            assert not reader.goes_on()
        assert reader.goes_on()


def test_so_does_one_that_reads_the_store_while_the_decision_may(tmp_path: object) -> None:
    with Store(f"sqlite:///{tmp_path}/store.db") as store, Reader(lambda: store.count(JobFilter())).running() as reader:
        assert reader.goes_on()
        with right_of_way():
            assert not reader.goes_on()
            assert store.count(JobFilter()) == 0
        assert reader.goes_on()


def test_a_decision_that_fails_lets_readers_go_on() -> None:
    with Reader(give_way).running() as reader:
        with pytest.raises(ZeroDivisionError), right_of_way():
            1 / 0  # noqa: B018
        assert reader.goes_on()
