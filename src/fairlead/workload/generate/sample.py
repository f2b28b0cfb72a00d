"""Draw jobs from a mix, a bounded number at a time: what they are, not yet when they come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairlead.model.errors import InputError
from fairlead.workload.generate import durations, normal
from fairlead.workload.generate.mix import Mix, Repeats
from fairlead.workload.trace import Floats, Ints, Longs

#: jobs drawn at once; temporaries are about 100 bytes a job
CHUNK = 1 << 20
#: a tenant's jobs of one size come in at least so many batches
_LEAST_BATCHES = 30


@dataclass(frozen=True)
class Jobs:
    """Jobs in the order in which their batches start. `group` counts from 0 in each chunk."""

    batch_lengths: Longs
    size: Ints
    tenant: Ints
    user: Ints
    group: Ints
    groups: int
    duration_s: Floats


@dataclass(frozen=True)
class Tables:
    """A mix prepared for drawing: impossible sizes taken out, the rest scaled up to 1."""

    mix: Mix
    shares: Floats  #: [tenant, size], sums to 1
    scores: Floats  #: [size, score] -> log duration
    first_user: Longs  #: [tenant]
    user_ranks: tuple[Floats, ...]  #: [tenant] -> cumulative weights of its users

    @property
    def gpu_seconds_per_job(self) -> float:
        """What the tables promise on average; a sample of a heavy tail may stray from it."""
        sizes = np.array(self.mix.sizes_milli) / 1000.0
        return float(
            (self.shares.sum(axis=0) * sizes * durations.table_means(self.mix.levels, self.mix.durations_s)).sum()
        )


def prepare(mix: Mix, max_gpus: int) -> Tables:
    shares = np.array([tenant.jobs for tenant in mix.tenants], dtype=np.float64)
    shares[:, np.array(mix.sizes_milli) > 1000 * max_gpus] = 0.0
    if shares.sum() <= 0:
        raise InputError(f"{mix.name} has no job of at most {max_gpus} GPUs", column="max_gpus", value=max_gpus)
    shares /= shares.sum()
    users = np.array([tenant.users for tenant in mix.tenants])
    ranks = []
    for count in users.tolist():
        weights = np.arange(1, count + 1) ** -mix.user_skew
        ranks.append(np.cumsum(weights) / weights.sum())
    first_user = np.cumsum(users) - users
    return Tables(mix, shares, durations.score_tables(mix, shares), first_user, tuple(ranks))


def draw_many(rng: np.random.Generator, tables: Tables, jobs: int) -> Iterator[Jobs]:
    while jobs > 0:
        # two chunks of half a step rather than a full one and a crumb
        step = jobs if jobs <= CHUNK else CHUNK if jobs >= 2 * CHUNK else jobs // 2
        yield draw(rng, tables, step)
        jobs -= step


def draw(rng: np.random.Generator, tables: Tables, jobs: int) -> Jobs:
    mix = tables.mix
    lengths = _batch_lengths(rng, mix.repeats, jobs)
    lengths, cell = _share_out(rng, tables.shares.ravel(), lengths)
    lengths, cell = _split(rng, tables, jobs, lengths, cell)
    sizes = len(mix.sizes_milli)
    tenant, size = cell // sizes, cell % sizes
    user = _users(rng, tables, tenant)
    group, groups = _groups(rng, mix.repeats, user, size)

    common = _group_scores(rng, group, groups, cell, lengths)
    likeness = mix.repeats.likeness
    paces = np.array([mix.pace(t, s) for t in range(len(mix.tenants)) for s in range(sizes)])
    mean, deviation = paces[cell].T
    score = rng.standard_normal(jobs)
    score *= np.repeat(deviation * np.sqrt(1.0 - likeness), lengths)
    score += np.repeat(mean + deviation * np.sqrt(likeness) * common, lengths)
    return Jobs(
        batch_lengths=lengths,
        size=np.repeat(size.astype(np.int32), lengths),
        tenant=np.repeat(tenant.astype(np.int32), lengths),
        user=np.repeat(user.astype(np.int32), lengths),
        group=np.repeat(group.astype(np.int32), lengths),
        groups=groups,
        duration_s=durations.look_up(tables.scores, np.repeat(size, lengths), score),
    )


def _batch_lengths(rng: np.random.Generator, repeats: Repeats, jobs: int) -> Longs:
    """Lengths that add up to `jobs`, none more than a fiftieth of them, so that few jobs are still a mix."""
    low, high = repeats.campaign_jobs
    most = max(1, min(high, jobs // 50))
    parts: list[Longs] = []
    left = jobs
    while left > 0:
        count = max(64, left // 4)
        length = np.minimum(rng.random(count) ** (-1.0 / repeats.tail), low)
        campaign = rng.random(count) < repeats.campaign_share
        length[campaign] = low * (high / low) ** rng.random(int(campaign.sum()))
        whole = np.minimum(length.astype(np.int64), most)
        ends = np.cumsum(whole)
        stop = int(np.searchsorted(ends, left))
        if stop < count:
            whole = whole[: stop + 1]
            whole[-1] -= ends[stop] - left
            left = 0
        else:
            left -= int(ends[-1])
        parts.append(whole)
    return np.concatenate(parts)


def _share_out(rng: np.random.Generator, shares: Floats, lengths: Longs) -> tuple[Longs, Longs]:
    """Lay the batches in a row and cut it into cells that have their shares exactly, to the job."""
    jobs = int(lengths.sum())
    cuts = np.minimum(np.floor(np.cumsum(shares) * jobs + rng.random()).astype(np.int64), jobs)
    # the last cell that can occur ends where the jobs do
    cuts[np.flatnonzero(shares)[-1] :] = jobs
    edges = np.union1d(np.cumsum(lengths), cuts[cuts > 0])
    starts = np.concatenate(([0], edges[:-1]))
    return edges - starts, np.searchsorted(cuts, starts, side="right").astype(np.int64)


def _split(rng: np.random.Generator, tables: Tables, jobs: int, lengths: Longs, cell: Longs) -> tuple[Longs, Longs]:
    """Cut batches that are long for their cell: a rare kind of job must not be one campaign."""
    sizes = np.maximum(np.array(tables.mix.sizes_milli) // 1000, 1)
    limit = np.minimum(tables.shares * jobs / _LEAST_BATCHES, tables.mix.repeats.campaign_jobs[1] / sizes).ravel()
    most = np.maximum(limit.astype(np.int64), 1)[cell]
    pieces = -(-lengths // most)
    out = np.repeat(most, pieces)
    out[np.cumsum(pieces) - 1] = lengths - (pieces - 1) * most
    # pieces are batches of their own, so they go anywhere in time
    order = rng.permutation(len(out))
    return out[order], np.repeat(cell, pieces)[order]


def _users(rng: np.random.Generator, tables: Tables, tenant: Longs) -> Longs:
    draws = rng.random(len(tenant))
    user = np.empty(len(tenant), dtype=np.int64)
    for index, ranks in enumerate(tables.user_ranks):
        mine = tenant == index
        found = np.searchsorted(ranks, draws[mine], side="right")
        user[mine] = tables.first_user[index] + np.minimum(found, len(ranks) - 1)
    return user


def _groups(rng: np.random.Generator, repeats: Repeats, user: Longs, size: Longs) -> tuple[Longs, int]:
    """Number groups by their first batch; a user's next batch of a size may run the same thing again."""
    order = np.lexsort((np.arange(len(user)), size, user))
    fresh = rng.random(len(user)) >= repeats.again
    fresh[0] = True
    fresh[1:] |= (user[order][1:] != user[order][:-1]) | (size[order][1:] != size[order][:-1])
    group = np.empty(len(user), dtype=np.int64)
    group[order] = np.cumsum(fresh) - 1
    # the first batch of each group, in time, gives the group its number
    first = order[fresh]
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[group], len(first)


def _group_scores(rng: np.random.Generator, group: Longs, groups: int, cell: Longs, lengths: Longs) -> Floats:
    """Each batch's group score: normal over the jobs of every cell, so that no campaign skews it."""
    weight = np.bincount(group, weights=lengths, minlength=groups)
    group_cell = np.empty(groups, dtype=np.int64)
    group_cell[group] = cell
    order = np.lexsort((rng.random(groups), group_cell))
    ordered_cell, ordered_weight = group_cell[order], weight[order]
    ends = np.cumsum(ordered_weight)
    per_cell = np.bincount(ordered_cell, weights=ordered_weight)
    before = np.cumsum(per_cell) - per_cell
    middle = (ends - 0.5 * ordered_weight - before[ordered_cell]) / per_cell[ordered_cell]
    rank = np.mod(middle + rng.random(len(per_cell))[ordered_cell], 1.0)
    scores = np.empty(groups)
    scores[order] = normal.score(np.clip(rank, 1e-6, 1 - 1e-6))
    return np.asarray(scores[group])
