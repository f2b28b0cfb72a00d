"""Where a report's jobs and rows come from: a running scheduler, asked page by page, or the store that one left.

Everything is folded here, not in the scheduler: a report of a month must not hold up a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fairlead.model.cluster import ClusterSpec, NodeSpec
from fairlead.model.errors import InputError
from fairlead.record.lived import NODE_KINDS, Lived, LivedJob, Row, places_of, put_together

if TYPE_CHECKING:
    from fairlead.client import Client
    from fairlead.server.store import Store

_PAGE = 1000
_ROWS = 10_000
#: rows are written in order of time but for requests that cross each other
_SLACK_S = 60.0


class JobLike(Protocol):
    """What both the API and the store tell of a job."""

    @property
    def id(self) -> str: ...
    @property
    def tenant(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def gpus(self) -> int: ...
    @property
    def submit_s(self) -> float: ...
    @property
    def finished_s(self) -> float | None: ...
    @property
    def state(self) -> str: ...
    @property
    def reason(self) -> str: ...


class Source(Protocol):
    now_s: float
    whose: str
    notes: Sequence[str]

    def jobs(self, since_s: float) -> Iterable[JobLike]:
        """Those that live, and those that ended since then."""

    def rows(self, since: int, limit: int, kinds: Sequence[str] = ()) -> tuple[Sequence[tuple[int, Row]], int]:
        """Of the journal behind row number `since`, each with its number; and up to which one everything was looked at. With `kinds`,
        only these."""

    def rows_of(self, job: str) -> Sequence[Row]: ...

    def last(self) -> int:
        """The number of the journal's last row."""

    def drained(self) -> Mapping[str, float]:
        """Nodes that are drained at present, and since when."""

    def weights(self) -> Mapping[str, float]: ...

    def cluster(self, rows: Sequence[Row]) -> ClusterSpec: ...


def collect(source: Source, begin_s: float, end_s: float) -> Lived:
    """Jobs first, rows after: what happens meanwhile is of jobs that are not listed, and does not count."""
    jobs = {job.id: job for job in source.jobs(begin_s) if job.submit_s <= end_s}
    older = dict.fromkeys(job.id for job in jobs.values() if job.submit_s < begin_s)
    told = [row for job in older for row in source.rows_of(job)]
    told += [row for row in _rows_since(source, begin_s, end_s) if row.job is not None and row.job not in older]
    rows = sorted((*_rows_of_nodes(source), *told), key=lambda row: row.time_s)
    return put_together(
        source.cluster(rows),
        begin_s,
        end_s,
        [_lived(job, end_s) for job in jobs.values()],
        rows,
        weights=source.weights(),
        whose=source.whose,
    )


def _lived(job: JobLike, end_s: float) -> LivedJob:
    finished_s = job.finished_s if job.finished_s is not None and job.finished_s <= end_s else None
    state = job.state if finished_s is not None or job.finished_s is None else "running"
    return LivedJob(
        job.id, job.tenant, job.user, job.gpus, job.submit_s, finished_s, state, job.reason, blocked=state == "blocked"
    )


def _rows_since(source: Source, begin_s: float, end_s: float) -> Iterator[Row]:
    for row in _rows_behind(source, _first_since(source, begin_s - _SLACK_S, source.last())):
        if row.time_s > end_s + _SLACK_S:
            return
        yield row


def _rows_of_nodes(source: Source) -> Iterator[Row]:
    """From the beginning, since a node that was closed long ago may be closed still. There are few. The row of a drain may be forgotten
    while the node is drained, so that it is told by the node as well."""
    for node, since_s in source.drained().items():
        yield Row(since_s, "drain", None, {"node": node})
    yield from _rows_behind(source, 0, NODE_KINDS)


def _rows_behind(source: Source, at: int, kinds: Sequence[str] = ()) -> Iterator[Row]:
    last = source.last()
    while at < last:
        found, seen = source.rows(at, _ROWS, kinds)
        yield from (row for _, row in found)
        if seen <= at:
            return
        at = seen


def _first_since(source: Source, time_s: float, last: int) -> int:
    """A row number before which everything is older: found by halving, since times rise with numbers."""
    low, high = 0, last
    while high - low > _ROWS:
        middle = (low + high) // 2
        found, _ = source.rows(middle, 1)
        if found and found[0][1].time_s < time_s:
            low = middle
        else:
            high = middle
    return low


class FromScheduler:
    """Through the API. A user is told of its own jobs only, and the report says so."""

    def __init__(self, client: Client) -> None:
        self._client = client
        me = client.me()
        self.whose = f"{me.user}'s jobs only" if me.role == "user" else ""
        self.notes: Sequence[str] = (
            ("These are your own jobs: what others use is not in any figure, so what is free here need not be free.",)
            if self.whose
            else ()
        )
        found = client.cluster()
        self._last, self.now_s = found.last_event, found.now_s or 0.0
        self._nodes = client.nodes()

    def jobs(self, since_s: float) -> Iterator[JobLike]:
        yield from self._client.all_jobs(live=True, sort="submitted", descending=False, limit=_PAGE)
        for job in self._client.all_jobs(live=False, sort="finished", descending=True, limit=_PAGE):
            if job.finished_s is not None and job.finished_s < since_s:
                return
            yield job

    def rows(self, since: int, limit: int, kinds: Sequence[str] = ()) -> tuple[list[tuple[int, Row]], int]:
        page = self._client.events(since=since, kinds=kinds, limit=limit)
        return [(one.seq, Row(one.time_s, one.kind, one.job, one.args)) for one in page.events], page.last

    def rows_of(self, job: str) -> list[Row]:
        found, since = [], 0
        while True:
            page = self._client.job_events(job, since=since, limit=_ROWS)
            found += [Row(one.time_s, one.kind, job, one.args) for one in page.events]
            if len(page.events) < _ROWS:
                return found
            since = page.events[-1].seq

    def last(self) -> int:
        return self._last

    def drained(self) -> dict[str, float]:
        return {node.name: node.drained_s for node in self._nodes if node.drained_s is not None}

    def weights(self) -> dict[str, float]:
        return {tenant.name: tenant.weight for tenant in self._client.tenants()}

    def cluster(self, rows: Sequence[Row]) -> ClusterSpec:
        return ClusterSpec(tuple(NodeSpec(node.name, node.gpus, node.gpu_type) for node in self._nodes))


class FromStore:
    """From the store of a scheduler, whether it runs or not. Its nodes are not in there, so it is told of them, or takes those that
    jobs were on."""

    def __init__(self, store: Store, cluster: ClusterSpec | None) -> None:
        self._store, self._cluster = store, cluster
        self.whose = ""
        self.now_s = store.last_time_s()
        self.notes: Sequence[str] = (
            ()
            if cluster is not None
            else (
                "The store does not say which nodes there were: those that jobs ran on are taken for all. --cluster names them.",
            )
        )

    def jobs(self, since_s: float) -> Iterator[JobLike]:
        from fairlead.server.store import JobFilter

        yield from self._pages(JobFilter(live=True), "submitted")
        for job in self._pages(JobFilter(live=False), "finished"):
            if job.finished_s is not None and job.finished_s < since_s:
                return
            yield job

    def _pages(self, which: Any, sort: str) -> Iterator[Any]:
        cursor = None
        while True:
            page = self._store.jobs(which, sort=sort, limit=_PAGE, cursor=cursor)
            yield from page.jobs
            if page.cursor is None:
                return
            cursor = page.cursor

    def rows(self, since: int, limit: int, kinds: Sequence[str] = ()) -> tuple[list[tuple[int, Row]], int]:
        found = self._store.events(since, limit=limit, kinds=kinds)
        rows = [(one.seq, Row(one.time_s, one.kind, one.job_id, one.args)) for one in found]
        return rows, rows[-1][0] if len(rows) >= limit else self.last()

    def rows_of(self, job: str) -> list[Row]:
        return [Row(one.time_s, one.kind, job, one.args) for one in self._store.timeline(job, limit=100_000)]

    def last(self) -> int:
        return self._store.recover().last_event

    def drained(self) -> dict[str, float]:
        return {node.name: node.drained_s for node in self._store.standing.nodes() if node.drained_s is not None}

    def weights(self) -> dict[str, float]:
        return {tenant.name: tenant.weight for tenant in self._store.standing.tenants()}

    def cluster(self, rows: Sequence[Row]) -> ClusterSpec:
        if self._cluster is not None:
            return self._cluster
        sizes: dict[str, int] = {}
        for row in rows:
            for node, gpus, _ in places_of(row.args) if row.kind == "start" else ():
                sizes[node] = max(sizes.get(node, 0), *(gpu + 1 for gpu in gpus), 0) if gpus else sizes.get(node, 0)
        if not sizes:
            raise InputError(
                "no job ran in this time, so nothing is known of the nodes",
                accepts="--cluster SPEC, or an earlier --since",
            )
        return ClusterSpec(tuple(NodeSpec(name, sizes[name]) for name in sorted(sizes)))


def from_state_dir(state_dir: Path | None, cluster: ClusterSpec | None, use: Callable[[Source], None]) -> None:
    from fairlead.server.config import load_config
    from fairlead.server.store import Store, StoreError

    config = load_config({"state_dir": state_dir})
    if config.store is None and not (config.state_dir / "fairlead.db").exists():
        raise InputError("there is no store", file=config.store_url, accepts="--state-dir DIR of a scheduler")
    try:
        with Store(config.store_url, write=False) as store:
            use(FromStore(store, cluster))
    except StoreError as error:
        raise InputError(str(error)) from None
