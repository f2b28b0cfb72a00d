"""Forgetting what is old, and nothing else; many writers at once; a scheduler killed in the middle of a write."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model.job import Dependency
from fairlead.server.store import Batch, GroupWriter, JobFilter, KeyReused, NoSuchJob, Pruned, Store, StoreLocked

from .build import names, run_through, submission, submit

ROOT = Path(__file__).resolve().parents[2]


# -- pruning ----------------------------------------------------------------------------------------------------------------------


def test_what_ended_before_a_time_is_forgotten_and_nothing_else(store: Store) -> None:
    jobs = submit(store, *(submission(f"j{i}") for i in range(6)))
    for job in jobs[:4]:
        run_through(store, [job], 10.0 * job)
    batch = Batch()
    batch.record("node-down", 5.0, node="n")
    batch.record("node-up", 35.0, node="n")
    store.write(batch)
    assert store.prune(before_s=30.0) == Pruned(jobs=2, events=7)
    assert names(store, descending=False) == ["j2", "j3", "j4", "j5"]
    assert {event.job for event in store.events()} == {3, 4, 5, 6, None}
    assert store.prune(before_s=30.0) == Pruned()
    with pytest.raises(NoSuchJob):
        store.spec("1")
    assert store.damage() == []


def test_the_newest_of_the_ended_are_kept_in_small_steps(store: Store) -> None:
    jobs = submit(store, *(submission(f"j{i}") for i in range(20)))
    run_through(store, jobs[:15], 10.0)
    assert store.prune(keep=4, at_once=3).jobs == 11
    assert [job.seq for job in store.jobs(JobFilter(live=False)).jobs] == [15, 14, 13, 12]
    assert store.count(JobFilter(live=True)) == 5
    assert store.prune(keep=4) == store.prune() == Pruned()


def test_what_a_live_job_waits_for_is_kept(store: Store) -> None:
    submit(store, submission("a"), submission("b", array=(0, 1)))
    submit(store, submission("c", depends_on=(Dependency("1"), Dependency("2"))))
    run_through(store, [1, 2, 3], 5.0)
    assert store.prune(before_s=100.0).jobs == 0
    assert [waited.finished for waited in store.live_jobs()[0].waits_for] == [True] * 3
    run_through(store, [4], 6.0)
    assert store.prune(before_s=100.0).jobs == 4


def test_an_arrays_specification_lives_as_long_as_any_of_its_tasks(store: Store) -> None:
    submit(store, submission("a", array=(0, 1)))
    run_through(store, [1], 5.0)
    assert store.prune(keep=0).jobs == 1
    assert store.spec("1_1").name == "a"
    assert store.live_jobs()[0].spec.array == (0, 1)


def test_no_number_is_given_out_twice(opened: Callable[..., Store]) -> None:
    store = opened()
    run_through(store, submit(store, submission("a"), submission("b")), 5.0)
    last = store.recover().last_event
    assert store.prune(keep=0).jobs == 2
    assert submit(store, submission("c")) == [3]
    run_through(store, [3], 6.0)
    store.prune(keep=0)
    store.close()
    again = opened()
    assert again.count() == 0
    assert submit(again, submission("d")) == [4]
    assert [event.seq for event in again.events()] == [last + 4]


# -- many at once -----------------------------------------------------------------------------------------------------------------


def test_whoever_writes_at_once_is_written_together_each_with_its_own_answer(store: Store) -> None:
    calls: list[int] = []
    write_all = store.write_all

    def counted(batches: list[Batch]) -> list[object]:
        calls.append(len(batches))
        return write_all(batches)  # type: ignore[return-value]

    store.write_all = counted  # type: ignore[assignment,method-assign]

    async def many() -> list[object]:
        writer = GroupWriter(store, most=40)
        wanted = [Batch(submissions=[submission(f"j{i}", key=f"k{i}")]) for i in range(100)]
        wanted[50] = Batch(submissions=[submission("x", key="k0")])
        answers = await asyncio.gather(*(writer.write(batch) for batch in wanted), return_exceptions=True)
        await writer.close()
        with pytest.raises(RuntimeError, match="closed"):
            await writer.write(Batch())
        return list(answers)

    answers = asyncio.run(many())
    assert isinstance(answers[50], KeyReused)
    seqs = [a.submitted[0].jobs[0].seq for a in answers if not isinstance(a, Exception)]  # type: ignore[attr-defined]
    assert seqs == list(range(1, 100))
    assert sum(calls) == 100
    assert len(calls) <= 4


def test_a_caller_that_goes_away_does_not_take_its_batch_along(sqlite_store: Store) -> None:
    async def leave() -> None:
        writer = GroupWriter(sqlite_store)
        task = asyncio.create_task(writer.write(Batch(submissions=[submission("a")])))
        await asyncio.sleep(0)
        task.cancel()
        await writer.close()
        assert task.cancelled() or task.cancelling()

    asyncio.run(leave())
    assert names(sqlite_store) == ["a"]


def test_what_ails_the_store_is_told_to_all_that_wait(sqlite_store: Store) -> None:
    import sqlite3

    async def three() -> list[object]:
        writer = GroupWriter(sqlite_store)
        wanted = [Batch(submissions=[submission("a")]) for _ in range(3)]
        answers = await asyncio.gather(*(writer.write(batch) for batch in wanted), return_exceptions=True)
        await writer.close()
        return list(answers)

    other = sqlite3.connect(sqlite_store.where, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert [type(answer) for answer in asyncio.run(three())] == [StoreLocked] * 3
    other.close()
    assert sqlite_store.count() == 0


@given(st.lists(st.lists(st.sampled_from(["new", "key", "start", "bad"]), max_size=4), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None)
def test_together_or_one_by_one_comes_to_the_same(
    tmp_path_factory: pytest.TempPathFactory, plan: list[list[str]]
) -> None:
    def batches() -> list[Batch]:
        made = []
        for words in plan:
            batch = Batch()
            for i, word in enumerate(words):
                if word == "new":
                    batch.submit(submission(f"n{i}"))
                elif word == "key":
                    batch.submit(submission("same", key="k"))
                elif word == "bad":
                    batch.submit(submission("other", key="k"))
                else:
                    batch.record("start", 5.0, 1, 1)
                    batch.change(1, state="running", run=1)
            made.append(batch)
        return made

    folder = tmp_path_factory.mktemp("group")
    with Store(folder / "a.db") as one, Store(folder / "b.db") as other:
        for store in (one, other):
            submit(store, submission("first"))
        together = one.write_all(batches())
        alone = [other.write_all([batch])[0] for batch in batches()]
        kinds = [type(answer) for answer in together], [type(answer) for answer in alone]
        assert kinds[0] == kinds[1]
        assert one.events() == other.events()
        assert one.jobs().jobs == other.jobs().jobs


# -- kill -9 ----------------------------------------------------------------------------------------------------------------------

_WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from server.build import finish, start, submission
from fairlead.server.store import Batch, Store

store = Store(sys.argv[1])
number = store.recover().last_job
while True:
    batch = Batch(submissions=[submission(f"{number}-{i}", 1.0) for i in range(5)])
    for job in range(max(number - 4, 1), number + 1):
        start(batch, job, 2.0)
        finish(batch, job, 3.0)
    batch.charge("vision", float(number), 3.0)
    written = store.write(batch)
    number = written.submitted[-1].jobs[-1].seq
    sys.stdout.write(f"{number} {written.last_event}\\n")
    sys.stdout.flush()
"""


def test_a_writer_that_is_killed_leaves_whole_batches_and_every_one_that_it_was_promised(
    opened: Callable[..., Store], store_at: str
) -> None:
    """Five times, each at another moment: after so many batches, wherever the next one happens to be."""
    for kill in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, store_at, str(ROOT / "tests")],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        promised = "0 0"
        try:
            assert process.stdout
            for _ in range(1 + kill * 4):
                promised = process.stdout.readline()
                assert promised
        finally:
            process.send_signal(signal.SIGKILL)
            rest, _ = process.communicate()
        # a line may have been cut by the kill
        lines = [line for line in (promised + rest).splitlines(keepends=True) if line.endswith("\n")]
        job, event = map(int, lines[-1].split())
        with opened() as store:
            recovered = store.recover()
            jobs, last = recovered.last_job, recovered.last_event
            assert (jobs, last) >= (job, event)
            assert jobs - job in (0, 5), "at most the one batch that was under way"
            # every batch submits five and ends the five before: so it is after each of them
            assert jobs % 5 == 0
            assert [one.row.seq for one in recovered.jobs] == list(range(jobs - 4, jobs + 1))
            assert store.count() == jobs
            assert last == jobs + 2 * (jobs - 5)
            assert [e.seq for e in store.events(limit=100_000)] == list(range(1, last + 1))
            assert (recovered.usage[0].gpu_s, recovered.usage[0].event_seq) == (jobs - 5, last)
            assert store.damage() == []
