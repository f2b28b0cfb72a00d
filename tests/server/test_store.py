"""What is written is there, once, whole, and after a restart; on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.model.cluster import TenantSpec
from fairlead.model.errors import InputError
from fairlead.model.job import Dependency, JobSpec, When
from fairlead.runtime.protocols import Place
from fairlead.server.store import (
    Batch,
    JobFilter,
    KeyReused,
    NodeRow,
    NoSuchJob,
    Store,
    StoreError,
    StoreInUse,
    StoreMistake,
    Submission,
    Usage,
    UserRow,
    Waited,
)

from .build import finish, run_through, start, submission, submit


def test_jobs_are_numbered_in_order_of_submission_and_named_by_their_number(store: Store) -> None:
    batch = Batch(submissions=[submission("a"), submission("b", array=(3, 5)), submission("c")])
    written = store.write(batch)
    assert [[(job.seq, job.id) for job in one.jobs] for one in written.submitted] == [
        [(1, "1")],
        [(2, "2_3"), (3, "2_5")],
        [(4, "4")],
    ]
    assert [one.array_id for one in written.submitted] == [None, "2", None]
    assert written.last_event == 4
    assert [(job.id, job.array_index) for job in store.jobs(JobFilter(array="2"), descending=False).jobs] == [
        ("2_3", 3),
        ("2_5", 5),
    ]
    assert store.spec("2_5") == JobSpec(run="true", name="b", array=(3, 5))


def test_a_jobs_row_says_all_that_became_of_it(store: Store) -> None:
    (job,) = submit(store, submission("a", 5.0, gpus=2, priority=7))
    places = [Place("n1", (0, 1)), Place("n2", (3,))]
    batch = Batch()
    batch.record("start", 6.0, job, 1, gpus=[0, 1, 3])
    batch.change(job, state="running", first_start_s=6.0, started_s=6.0, run=1, places=places)
    batch.change(job, memo={"left": 3.5}, reason="", message="odd\0 \ud800 text")
    store.write(batch)
    row = store.job("1")
    assert (row.name, row.tenant, row.user, row.submit_s, row.gpus, row.priority) == ("a", "vision", "ann", 5.0, 2, 7)
    assert (row.state, row.first_start_s, row.run, row.places, row.held_milli) == (
        "running",
        6.0,
        1,
        tuple(places),
        3000,
    )
    assert (row.nodes, row.memo, row.message, row.live) == (("n1", "n2"), {"left": 3.5}, "odd� ? text", True)
    assert row.changed_seq == 2
    ended = Batch()
    ended.change(job, state="failed", finished_s=9.0, exit_code=-1, signal=9, places=(), ran_s=3.0, preemptions=2)
    store.write(ended)
    row = store.job("1")
    assert (row.finished_s, row.signal, row.held_milli, row.ran_s, row.live) == (9.0, 9, 0, 3.0, False)


def test_the_journal_keeps_what_happened_in_order(store: Store) -> None:
    first, second = submit(store, submission("a"), submission("b"))
    batch = Batch()
    batch.record("start", 2.0, second, 1, gpus=[1], node="n")
    batch.record("node-down", 3.0, node="n")
    start(batch, first, 3.5)
    written = store.write(batch)
    assert [(e.seq, e.kind, e.job) for e in store.events()] == [
        (1, "submit", 1),
        (2, "submit", 2),
        (3, "start", 2),
        (4, "node-down", None),
        (5, "start", 1),
    ]
    assert written.last_event == 5
    assert store.events(3, limit=1)[0].args == {"node": "n"}
    assert [e.seq for e in store.events(kinds=["start"])] == [3, 5]
    assert [(e.kind, e.run) for e in store.timeline("2")] == [("submit", 0), ("start", 1)]
    with pytest.raises(NoSuchJob):
        store.timeline("99")


def test_the_journal_says_which_jobs_came_to_wait_for_others(store: Store) -> None:
    submit(store, submission("a"), submission("b", state="blocked"))
    assert [event.args for event in store.events()] == [{}, {"blocked": True}]


def test_the_same_key_from_the_same_user_is_the_same_job(store: Store) -> None:
    first = store.write(Batch(submissions=[submission("a", key="k")])).submitted[0]
    again = store.write(Batch(submissions=[submission("a", 9.0, key="k")])).submitted[0]
    assert (again.jobs, again.duplicate, first.duplicate) == (first.jobs, True, False)
    other = store.write(Batch(submissions=[submission("a", key="k", user="bob")])).submitted[0]
    assert other.jobs != first.jobs
    with pytest.raises(KeyReused, match="used for another job"):
        store.write(Batch(submissions=[submission("b", key="k")]))
    for key in ("", "x" * 201):
        with pytest.raises(InputError, match="no idempotency key"):
            store.write(Batch(submissions=[submission("a", key=key)]))
    array = store.write(Batch(submissions=[submission("c", key="l", array=(0, 1, 2))])).submitted[0]
    again = store.write(Batch(submissions=[submission("c", key="l", array=(0, 1, 2))])).submitted[0]
    assert (again.jobs, again.array_id, len(again.jobs)) == (array.jobs, array.array_id, 3)
    assert store.count() == 5


def test_the_same_key_twice_at_once_is_one_job(store: Store) -> None:
    one, two = Batch(submissions=[submission("a", key="k")]), Batch(submissions=[submission("a", key="k")])
    wrong = Batch(submissions=[submission("z"), submission("b", key="k")])
    both = Batch(submissions=[submission("c", key="m"), submission("d", key="m")])
    answers = store.write_all([one, two, wrong, both])
    assert not isinstance(answers[0], Exception)
    assert not isinstance(answers[1], Exception)
    assert answers[0].submitted[0].jobs == answers[1].submitted[0].jobs
    assert [type(answer) for answer in answers[2:]] == [KeyReused, KeyReused]
    assert (store.count(), len(store.events())) == (1, 1)


def test_jobs_wait_for_others_and_for_whole_arrays(store: Store) -> None:
    submit(store, submission("a"), submission("b", array=(0, 1)))
    waits = (Dependency("1"), Dependency("2", When.AFTER_ANY))
    (last,) = submit(store, submission("c", depends_on=waits))
    run_through(store, [1], 4.0, exit_code=3)
    assert store.live_jobs()[-1].row.seq == last
    assert store.live_jobs()[-1].waits_for == (
        Waited(1, "1", When.AFTER_OK, True, 3, "failed"),
        Waited(2, "2_0", When.AFTER_ANY, False, None, "waiting"),
        Waited(3, "2_1", When.AFTER_ANY, False, None, "waiting"),
    )
    with pytest.raises(NoSuchJob, match="depends_on"):
        submit(store, submission("d"), submission("e", depends_on=(Dependency("77"),)))
    assert store.count() == 4


def test_a_batch_is_written_whole_or_not_at_all(store: Store) -> None:
    (job,) = submit(store, submission("a"))
    run_through(store, [job], 2.0)
    before = store.recover(), store.events(), store.jobs()
    wrong = Batch(submissions=[submission("b")])
    wrong.record("start", 3.0, job)
    wrong.change(job, state="running")
    with pytest.raises(StoreMistake, match="not there or has ended"):
        store.write(wrong)
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="no number to keep"):
            store.write(Batch(submissions=[submission("b", value)]))
    with pytest.raises(TypeError, match="no column of a job may be changed that is called colour"):
        wrong.change(job, colour="red")
    assert (store.recover(), store.events(), store.jobs()) == before
    assert submit(store, submission("c")) == [2]


def test_one_wrong_batch_does_not_stop_the_others(store: Store) -> None:
    (job,) = submit(store, submission("a"))
    wrong, right = Batch(), Batch()
    wrong.change(99, state="running")
    start(right, job, 3.0)
    late = Batch(submissions=[submission("b")])
    answers = store.write_all([wrong, right, late])
    assert isinstance(answers[0], StoreMistake)
    assert [job.state for job in store.jobs(descending=False).jobs] == ["running", "waiting"]
    assert [event.kind for event in store.events()] == ["submit", "start", "submit"]


def test_everything_is_there_after_a_restart(opened: Callable[..., Store]) -> None:
    store = opened()
    one, two, three = submit(store, submission("a", gpus=2), submission("b", env={"K": "v"}), submission("c"))
    batch = Batch()
    start(batch, one, 2.0, (0, 1))
    start(batch, three, 2.0, (2,))
    finish(batch, three, 5.0)
    batch.charge("vision", 123.5, 5.0)
    last = store.write(batch).last_event
    store.standing.put_tenant(TenantSpec("vision", 8, 2.0))
    store.standing.put_tenant(TenantSpec("vision", 16, 2.0))
    store.standing.drain("n1", 4.0, "ann", "a fan is loud")
    store.standing.put_settings({"policy": "las:quantum=60", "epoch_s": 1.5})
    store.standing.put_settings({"policy": "fifo"})
    was = store.recover()
    store.close()
    again = opened()
    assert again.recover() == was
    assert [(job.row.seq, job.spec.name, job.row.state) for job in was.jobs] == [
        (one, "a", "running"),
        (two, "b", "waiting"),
    ]
    assert was.jobs[0].row.places == (Place("node-0", (0, 1)),)
    assert was.jobs[1].spec.env == {"K": "v"}
    assert was.tenants == (TenantSpec("vision", 16, 2.0),)
    assert was.nodes == (NodeRow("n1", 4.0, "ann", "a fan is loud"),)
    assert was.settings == {"policy": "fifo", "epoch_s": 1.5}
    assert was.usage == (Usage("vision", 123.5, 5.0, last),)
    assert (was.last_event, was.last_job) == (last, 3)
    again.standing.undrain("n1")
    assert (again.standing.nodes(), again.standing.remove_tenant("vision"), again.standing.tenants()) == ([], True, [])
    assert submit(again, submission("d")) == [4]


def test_use_is_charged_with_the_event_that_it_reaches_to(store: Store) -> None:
    (job,) = submit(store, submission("a"))
    for time_s in (1.0, 2.0):
        batch = Batch()
        batch.record("tick", time_s, job)
        batch.charge("vision", 10 * time_s, time_s)
        store.write(batch)
    assert store.standing.usage() == [Usage("vision", 20.0, 2.0, 3)]
    assert store.events(3) == []


def test_two_schedulers_do_not_share_a_store(opened: Callable[..., Store]) -> None:
    store = opened()
    submit(store, submission("a"))
    with pytest.raises(StoreInUse, match="another scheduler writes to it"):
        opened(timeout_s=0.2)
    reader = opened(write=False)
    assert [job.name for job in reader.jobs().jobs] == ["a"]
    with pytest.raises(StoreError, match="for reading only"):
        submit(reader, submission("b"))
    store.close()
    assert submit(opened(), submission("b")) == [2]


def test_a_reader_sees_one_moment(store: Store) -> None:
    submit(store, submission("a"))
    with store._database.reading() as connection:
        from fairlead.server.store.read import count_jobs

        assert count_jobs(connection, JobFilter()) == 1
        submit(store, submission("b"))
        assert count_jobs(connection, JobFilter()) == 1
    assert store.count() == 2


def test_counts_by_tenant_and_state(store: Store) -> None:
    jobs = submit(store, submission("a"), submission("b", tenant="speech"), submission("c"))
    run_through(store, jobs[:1], 2.0)
    assert store.count_by_state() == {("vision", "done"): 1, ("vision", "waiting"): 1, ("speech", "waiting"): 1}
    assert store.count(JobFilter(live=True)) == 2


def test_a_job_that_is_not_there_is_said_so(store: Store) -> None:
    for ask in (store.job, store.spec, store.timeline):
        with pytest.raises(NoSuchJob, match="there is no job with this id; got 'x"):
            ask("x")


@pytest.mark.parametrize(
    "given", ["mysql://a/b", "sqlite://", "sqlite:///:memory:", "http://x", "://", "postgresql://host:port/x"]
)
def test_what_can_not_be_a_store(given: str) -> None:
    with pytest.raises(InputError, match="expected a path, sqlite:"):
        Store(given)


def test_a_submission_may_be_of_any_text(store: Store, tmp_path: Path) -> None:
    spec = JobSpec(run="echo '日本' \U0001f600", name="日本 ‘x’ %_\\", env={"A": "\n\x01"})
    store.write(Batch(submissions=[Submission(spec, "zoë", "visión", 1.0, key="ключ")]))
    assert store.spec("1") == spec
    assert store.jobs(JobFilter(search="%_\\")).jobs[0].name == spec.name
    assert store.jobs(JobFilter(users=["zoë"], search="日")).jobs[0].user == "zoë"


@pytest.mark.parametrize("odd", ["\0", "\ud800", "a\0b\udfff", "%", "'; DROP TABLE jobs; --", "x" * 100_000])
def test_odd_words_find_nothing_and_break_nothing(store: Store, odd: str) -> None:
    one = Submission(JobSpec(run="true"), f"u{odd}", f"t{odd}", 1.0, key=f"k{odd}" if len(odd) < 1000 else "k")
    first, again = (store.write(Batch(submissions=[one])).submitted[0] for _ in range(2))
    assert (first.jobs, again.duplicate) == (again.jobs, True)
    assert store.count(JobFilter(users=[f"u{odd}"])) == store.count(JobFilter(tenants=[f"t{odd}"])) == 1
    assert (
        store.count(JobFilter(states=[odd]))
        == store.count(JobFilter(search=odd))
        == store.count(JobFilter(array=odd))
        == 0
    )
    assert store.events(kinds=[odd]) == store.events(2**70) == store.events(limit=-1) == []
    assert len(store.events(-(2**70), limit=2**70)) == 1
    for ask in (store.job, store.spec, store.timeline):
        with pytest.raises(NoSuchJob):
            ask(odd)
    store.accounts.put_user(UserRow(f"u{odd}", odd, 1.0))
    store.accounts.put_user(UserRow(f"u{odd}", odd, 2.0))
    assert [user.created_s for user in store.accounts.users()] == [2.0]
    assert store.accounts.user(f"u{odd}") is not None
    assert (store.accounts.user(odd), store.accounts.tokens(odd), store.accounts.token_with(odd)) == (None, [], None)
    with pytest.raises(InputError, match="no token"):
        store.accounts.revoke_token(odd, 1.0)
    store.standing.put_tenant(TenantSpec(odd))
    store.standing.drain(odd, 1.0, odd, odd)
    store.standing.undrain(odd)
    assert (store.standing.nodes(), store.standing.remove_tenant(odd)) == ([], True)
