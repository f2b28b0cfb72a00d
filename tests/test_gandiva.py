"""Gandiva's mechanisms, each on a case small enough to be worked out by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairlead.model.cluster import ClusterSpec, NodeSpec, TenantSpec, parse_cluster_shape
from fairlead.model.errors import InputError
from fairlead.model.event import EventKind
from fairlead.policy.registry import find_policy
from fairlead.sim.profiles import Profile, Profiles
from fairlead.sim.run import Run, simulate
from fairlead.state.rules import Options
from fairlead.workload.trace import Names, Trace
from gandiva_cases import QUANTUM, random_gandiva
from reference.ledger import Ledger

K = EventKind
LONG = 100_000.0


def jobs(*rows: tuple[float, int, float], **columns: Any) -> Trace:
    """A trace of (submit, GPUs, duration)."""
    submit_s, gpus, duration_s = (list(column) for column in zip(*rows))
    return Trace(np.array(submit_s, float), np.array(gpus, np.int32), np.array(duration_s, float), **columns)


def gandiva(
    trace: Trace, cluster: str | ClusterSpec, text: str = "", profiles: Profiles | None = None, **options: Any
) -> Run:
    spec = parse_cluster_shape(cluster) if isinstance(cluster, str) else cluster
    # exact observations, so that what is worked out by hand is what happens
    chosen = Options(**{"profiler_noise": 0.0, **options})
    return simulate(trace, spec, f"gandiva{text}", "consolidate:relaxed=true", chosen, profiles)


def events(run: Run, until_s: float = float("inf")) -> list[tuple[float, str, int, Any]]:
    """(time, kind, job, what it got): GPU ids, and the milli-GPUs of each where these are not what was asked for."""
    found = []
    journal = run.journal
    for time_s, kind, job, arg in zip(
        *(column.tolist() for column in (journal.time_s, journal.kind, journal.job, journal.arg))
    ):
        got: Any = None
        if kind == K.START:
            got = tuple(journal.gpu_ids[arg : arg + max(int(journal.jobs.gpus[job]), 1)].tolist())
        elif kind == K.START_AS:
            count, milli = journal.gpu_ids[arg - 2 : arg].tolist()
            got = (tuple(journal.gpu_ids[arg : arg + count].tolist()), milli)
        if time_s <= until_s:
            found.append((time_s, K(kind).name, job, got))
    return found


def first_gpus(run: Run) -> dict[int, tuple[int, ...]]:
    """Where each job was first started."""
    found: dict[int, tuple[int, ...]] = {}
    for _, kind, job, got in events(run):
        if kind == "START":
            found.setdefault(job, got)
    return found


def held_until(run: Run, until_s: float) -> list[float]:
    """Seconds that each job was on its GPUs before a moment."""
    held, since = [0.0] * len(run.journal.jobs.submit_s), {}
    for time_s, kind, job, _ in events(run):
        if kind.startswith("START"):
            since[job] = min(time_s, until_s)
        elif kind in ("SUSPEND", "FINISH"):
            held[job] += min(time_s, until_s) - since.pop(job)
    return held


# -- node choice -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cluster", "sizes", "gpus"),
    [
        # 2: an empty node; 1: then its affinity, though the other node is empty
        ("2x4", [1, 1, 2, 1, 2], [(0,), (1,), (4, 5), (2,), (6, 7)]),
        # 3: no node of affinity 4 and none empty: the fullest node that has enough
        ("2x8", [2, 2, 2, 1, 4], [(0, 1), (2, 3), (4, 5), (8,), (9, 10, 11, 12)]),
        # 3: the fullest that has enough is not the emptiest
        ("3x8", [2, 4, 4, 1, 3], [(0, 1), (8, 9, 10, 11), (12, 13, 14, 15), (16,), (2, 3, 4)]),
        # 3: no node has two free GPUs: one of each
        ("2x3", [2, 2, 2], [(0, 1), (3, 4), (2, 5)]),
        # 2: a gang larger than a node takes empty nodes
        ("4x2", [1, 5], [(0,), (2, 3, 4, 5, 6)]),
        # 3: spread over those with most free first, but 8 are not enough for 9: queued until job 0 ends
        ("3x4", [1, 3, 9], [(0,), (4, 5, 6), (0, 1, 2, 3, 7, 8, 9, 10, 11)]),
    ],
)  # fmt: skip
def test_a_job_goes_to_the_first_of_the_five_steps_that_finds_nodes(
    cluster: str, sizes: list[int], gpus: list[tuple[int, ...]]
) -> None:
    run = gandiva(jobs(*[(float(t), size, LONG) for t, size in enumerate(sizes)]), cluster)
    got = first_gpus(run)
    assert [got[job] for job in range(len(sizes))] == gpus


def test_of_the_nodes_of_its_affinity_a_job_goes_to_the_least_loaded() -> None:
    """Job 3 oversubscribes node 0 at the load of 2; when it has 3, job 4 goes to node 1; both loads 3: job 5 to node 0."""
    run = gandiva(jobs(*[(float(t), 1, LONG) for t in range(4)], *[(4.0 + t, 1, LONG) for t in range(3)]), "2x2")
    assert [first_gpus(run)[job][0] // 2 for job in range(4)] == [0, 0, 1, 1]
    turns = {job: got[0] // 2 for _, kind, job, got in events(run, 240.0) if kind == "START"}
    assert [turns[job] for job in (4, 5, 6)] == [0, 1, 0]


def test_without_a_node_of_its_affinity_a_job_is_queued_until_gpus_are_free() -> None:
    """Two jobs of one GPU fill the node; one of two GPUs finds no affinity, another of one GPU takes turns."""
    run = gandiva(jobs((0, 1, 100), (0, 1, 100), (1, 2, 10), (2, 1, 100)), "1x2")
    assert run.outcome.start_s.tolist() == [0.0, 0.0, 160.0, 60.0]  # job 3 runs from 60 to 160


def test_a_node_has_the_affinity_of_the_jobs_that_are_left_on_it() -> None:
    """Job 1 of two GPUs leaves job 2 of one GPU behind on node 0; so job 3 goes there, though node 1 is empty."""
    run = gandiva(
        jobs((0, 4, 20), (0, 2, 10), (1, 1, LONG), (21, 1, 10)), ClusterSpec((NodeSpec("a", 4), NodeSpec("b", 3)))
    )
    assert first_gpus(run) == {0: (0, 1, 2, 3), 1: (4, 5), 2: (6,), 3: (4,)}


def test_gpu_types_cpu_and_quotas_are_kept_to() -> None:
    """Node a lacks the CPU, node c has the wrong type; the tenant may be hosted with two GPUs and no more."""
    nodes = (NodeSpec("a", 4, "V100", 2000), NodeSpec("b", 4, "V100", 8000), NodeSpec("c", 4, "T4", 8000))
    cluster = ClusterSpec(nodes, tenants={"red": TenantSpec("red", quota_gpus=2)})
    trace = jobs(
        (0, 1, 10), (0, 1, 10), (0, 1, 10),
        cpu_milli=np.full(3, 3000), gpu_type=Names(np.zeros(3, np.int32), ("V100",)),
        tenant=Names(np.zeros(3, np.int32), ("red",)),
    )  # fmt: skip
    run = gandiva(trace, cluster)
    assert first_gpus(run) == {0: (4,), 1: (5,), 2: (4,)}
    assert run.outcome.start_s.tolist() == [0.0, 0.0, 10.0]


# -- turns -------------------------------------------------------------------------------------------------------------------


def test_six_jobs_on_four_gpus_take_turns() -> None:
    run = gandiva(jobs(*[(0, 1, 600)] * 6), "1x4", resume_cost_s=1.0)
    assert events(run, 120.0)[4:] == [
        (60.0, "SUSPEND", 2, None), (60.0, "SUSPEND", 3, None),
        (60.0, "START", 4, (2,)), (60.0, "START", 5, (3,)),
        (120.0, "SUSPEND", 0, None), (120.0, "SUSPEND", 1, None),
        (120.0, "START", 2, (0,)), (120.0, "START", 3, (1,)),
    ]  # fmt: skip
    assert held_until(run, 720.0) == [480.0] * 6
    assert run.outcome.finish_s.max() / 900 < 1.02


@pytest.mark.parametrize(
    ("sizes", "weights", "shares"),
    [
        ([1, 1], [1, 1], [1 / 2, 1 / 2]),
        ([1, 1, 1], [1, 1, 1], [1 / 3, 1 / 3, 1 / 3]),
        ([1, 1], [2, 1], [2 / 3, 1 / 3]),
        ([1, 1, 1], [2, 1, 1], [1 / 2, 1 / 4, 1 / 4]),
        ([4, 3], [1, 1], [1 / 2, 1 / 2]),  # of one affinity; time goes by job, not by GPU
        ([2, 2, 2], [1, 1, 1], [2 / 3, 2 / 3, 2 / 3]),
        ([4, 3, 4], [3, 2, 1], [1 / 2, 1 / 3, 1 / 6]),
    ],
)  # fmt: skip
def test_time_on_a_crowded_node_goes_by_weight(sizes: list[int], weights: list[float], shares: list[float]) -> None:
    names = ("a", "b", "c")
    cluster = ClusterSpec(
        (NodeSpec("n", max(sizes)) if max(sizes) != 2 else NodeSpec("n", 4),),
        tenants={name: TenantSpec(name, weight=weight) for name, weight in zip(names, weights)},
    )
    trace = jobs(*[(0.0, size, 1e5) for size in sizes], tenant=Names(np.arange(len(sizes), dtype=np.int32), names))
    held = held_until(gandiva(trace, cluster, ":pack=false"), 21600.0)
    assert held == pytest.approx([21600.0 * share for share in shares], abs=60.0)


def test_a_job_that_comes_late_starts_level_with_who_has_had_least() -> None:
    """Two jobs took turns for ten minutes; a third gets a third from then on, and not all until it has caught up."""
    run = gandiva(jobs((0, 1, 1e5), (0, 1, 1e5), (600, 1, 1e5)), "1x1")
    late = [a - b for a, b in zip(held_until(run, 4200.0), held_until(run, 600.0))]
    assert late == pytest.approx([1200.0] * 3, abs=60.0)


def test_a_higher_priority_is_never_suspended_for_a_lower() -> None:
    trace = jobs((0, 1, 300), (10, 1, 200), (20, 1, 50), priority=np.array([0, 5, 0], np.int32))
    run = gandiva(trace, "1x1")
    assert events(run) == [
        (0.0, "START", 0, (0,)),
        (60.0, "SUSPEND", 0, None), (60.0, "START", 1, (0,)),  # and it keeps the GPU until it is done
        (260.0, "FINISH", 1, None), (260.0, "START", 2, (0,)),  # of two equals, who has had less
        (310.0, "FINISH", 2, None), (310.0, "START", 0, (0,)),
        (550.0, "FINISH", 0, None),
    ]  # fmt: skip


@pytest.mark.parametrize("block", range(4))
def test_on_random_workloads_no_priority_is_suspended_for_a_lower(block: int) -> None:
    """Whoever is suspended could not have run beside those of its own priority or a higher one: on one of its nodes these left
    too little. What a lower priority got is what it could not have used."""
    seen = 0
    for seed in range(block, 160, 4):
        case = random_gandiva(
            seed, ("priorities", "costs"), policy="gandiva:quantum=4,pack=false,migrate=false,grow=false"
        )
        priority = case.trace.priority
        if priority is None:
            continue
        node_of = [n for n, node in enumerate(case.cluster.nodes) for _ in range(node.gpus)]
        by_instant: dict[float, list[tuple[str, int, Any]]] = {}
        for time_s, kind, job, got in events(case.run()):
            by_instant.setdefault(time_s, []).append((kind, job, got))
        held: dict[int, tuple[int, ...]] = {}
        for rows in by_instant.values():
            before = dict(held)
            for kind, job, got in rows:
                if kind == "START":
                    held[job] = got
                elif kind in ("SUSPEND", "FINISH"):
                    del held[job]
            for job in [job for kind, job, _ in rows if kind == "SUSPEND" and job not in held]:
                seen += 1
                worthy = [gpu for other, ids in held.items() if priority[other] >= priority[job] for gpu in ids]
                needs = [node_of[gpu] for gpu in before[job]]
                taken = [node_of[gpu] for gpu in worthy]
                lacks = [n for n in needs if taken.count(n) + needs.count(n) > case.cluster.nodes[n].gpus]
                assert lacks, f"seed {seed}: job {job}"
    assert seen > 20


def test_jobs_with_parts_on_several_nodes_get_their_turn_on_all_of_them_at_once() -> None:
    run = gandiva(jobs(*[(0, 4, 600)] * 3), "2x2", ":migrate=false")
    assert held_until(run, 1800.0) == [600.0] * 3
    assert run.outcome.finish_s.max() == 1800.0


def test_turns_cost_nothing_where_nobody_waits() -> None:
    """No wake-ups: as many instants as jobs come and go."""
    run = gandiva(jobs((0, 1, 1e6), (0, 1, 1e6)), "1x2")
    assert len(run.journal) == 4
    assert run.events == 4


# -- packing -----------------------------------------------------------------------------------------------------------------

MODELS = Profiles(
    {
        "vae": Profile(sharing=(1.0, 1.0), utilization=0.1),
        "rnn": Profile(sharing=(1.0, 0.75), utilization=0.6),
        "lstm": Profile(sharing=(1.0, 0.4), utilization=0.9),
        "full": Profile(sharing=(1.0, 0.5), utilization=1.0),
    }
)


def of_models(trace: Trace, *names: str) -> Trace:
    known = tuple(MODELS.by_name)
    return replace(trace, profile=Names(np.array([known.index(name) for name in names], np.int32), known))


def test_two_jobs_that_do_more_together_are_kept_on_one_gpu() -> None:
    """Alone for a turn each, then tried together at 120, judged at 180 and kept: 0.75 each. What is left at 120 is 540 s of
    both; together that takes 720 s."""
    run = gandiva(of_models(jobs((0, 1, 600), (0, 1, 600)), "rnn", "rnn"), "1x1", profiles=MODELS)
    assert events(run) == [
        (0.0, "START", 0, (0,)),
        (60.0, "SUSPEND", 0, None), (60.0, "START", 1, (0,)),
        (120.0, "SUSPEND", 1, None),
        (120.0, "START_AS", 0, ((0,), 500)), (120.0, "START_AS", 1, ((0,), 500)),
        (840.0, "FINISH", 0, None), (840.0, "FINISH", 1, None),
    ]  # fmt: skip


def test_a_pair_that_does_less_than_taking_turns_is_undone_after_a_quantum() -> None:
    """Tried at 120, at 0.4 each; undone at 180, and not tried again."""
    run = gandiva(of_models(jobs((0, 1, 600), (0, 1, 600)), "lstm", "lstm"), "1x1", profiles=MODELS)
    shared = [row for row in events(run) if row[1] == "START_AS"]
    assert [(time_s, job) for time_s, _, job, _ in shared] == [(120.0, 0), (120.0, 1)]
    assert [row for row in events(run) if row[0] == 180.0] == [
        (180.0, "SUSPEND", 0, None), (180.0, "SUSPEND", 1, None), (180.0, "START", 0, (0,)),
    ]  # fmt: skip
    # 1200 s of work, of which the minute of the trial did 48 s instead of 60
    assert run.outcome.finish_s.max() == 1212.0


def test_the_next_are_tried_where_the_first_do_not_pay() -> None:
    """Jobs 0 and 1 have run alone first, and do not go together. Then job 2 has: it uses least, and goes with job 0."""
    run = gandiva(of_models(jobs(*[(0, 1, 900)] * 3), "lstm", "lstm", "vae"), "1x1", profiles=MODELS)
    tried = [(time_s, job) for time_s, kind, job, _ in events(run) if kind == "START_AS"]
    assert tried[:4] == [(180.0, 0), (180.0, 1), (240.0, 0), (240.0, 2)]
    ledger = Ledger(
        of_models(jobs(*[(0, 1, 900)] * 3), "lstm", "lstm", "vae"), parse_cluster_shape("1x1"), Options(), MODELS
    )
    pairs = ledger.replay(run.journal).together
    assert Counter(pair.jobs for pair in pairs)[0, 1] == 1
    assert {pair.jobs for pair in pairs} == {(0, 1), (0, 2)}


@pytest.mark.parametrize(
    ("models", "memory_gib", "overload"),
    [
        (("full", "full"), (1, 1), True),  # a GPU that is fully used
        (("vae", "vae"), (9, 9), True),  # more memory than the GPU has
        (("vae", "vae"), (1, 1), False),  # a GPU each
    ],
)
def test_jobs_are_not_packed_where_that_can_not_pay(
    models: tuple[str, str], memory_gib: tuple[int, int], overload: bool
) -> None:
    trace = of_models(jobs((0, 1, 600), (0, 1, 600)), *models)
    trace = replace(trace, gpu_memory_mib=np.array(memory_gib) * 1024)
    run = gandiva(trace, ClusterSpec((NodeSpec("n", 1 if overload else 2, gpu_memory_mib=16384),)), profiles=MODELS)
    assert "START_AS" not in {kind for _, kind, _, _ in events(run)}


def test_a_pair_gets_a_gpu_each_when_there_is_one() -> None:
    """Three jobs on two GPUs: two of them share until the third ends."""
    trace = of_models(jobs((0, 1, 3000), (0, 1, 3000), (0, 1, 600)), "rnn", "rnn", "full")
    run = gandiva(trace, "1x2", profiles=MODELS)
    ends = run.outcome.finish_s.tolist()
    after = [(kind, job, got) for time_s, kind, job, got in events(run) if time_s == ends[2]]
    assert after == [("FINISH", 2, None), ("SUSPEND", 1, None), ("START", 1, (0,))]


@pytest.mark.parametrize("block", range(4))
def test_a_pair_that_runs_slower_than_taking_turns_is_never_kept(block: int) -> None:
    """By the true rates, on random workloads and with a profiler that is off by up to a fifth. A pair is judged at the first
    tick after a whole quantum: one that is slow is together for at most two quanta at a time, and for a whole one only as
    often as each job is tried."""
    kept = slow = 0
    for seed in range(block, 400, 4):
        case = random_gandiva(seed)
        ledger = Ledger(case.trace, case.cluster, case.options, case.profiles).replay(case.run().journal)
        whole = Counter(pair.jobs for pair in ledger.together if pair.end_s - pair.begin_s >= QUANTUM)
        for pair in ledger.together:
            if pair.throughput > 1.0:
                kept += pair.end_s - pair.begin_s > 2 * QUANTUM or whole[pair.jobs] > 3
                continue
            slow += 1
            assert pair.end_s - pair.begin_s <= 2 * QUANTUM, f"seed {seed}: {pair}"
            assert whole[pair.jobs] <= 3, f"seed {seed}: {pair}"
    assert kept >= 1
    assert slow >= 5


# -- migration ---------------------------------------------------------------------------------------------------------------


def test_a_suspended_job_moves_into_the_room_that_another_has_left() -> None:
    """Node 0 has three jobs for two GPUs, node 1 two for two. When one of node 1 ends at 100, the job that waits on node 0
    moves there."""
    trace = jobs((0, 1, 1000), (0, 1, 1000), (0, 1, 100), (0, 1, 1000), (1, 1, 1000))
    moved = gandiva(trace, "2x2")
    assert (100.0, "START", 1, (2,)) in events(moved)
    stayed = gandiva(trace, "2x2", ":migrate=false")
    assert {got[0] // 2 for _, kind, job, got in events(stayed) if kind == "START" and job in (0, 1, 4)} == {0}
    assert moved.outcome.finish_s.mean() < stayed.outcome.finish_s.mean()


def test_a_split_job_is_brought_together_where_there_is_room() -> None:
    """Job 2 is spread over both nodes at half speed; job 1 ends at 50, and job 2 moves to node 1."""
    trace = jobs((0, 2, 500), (0, 2, 50), (1, 2, 100))
    profiles = Profiles(default=Profile(locality=(1.0, 0.5)))
    run = gandiva(trace, "2x3", profiles=profiles, resume_cost_s=2.0)
    assert events(run)[2:6] == [
        (1.0, "START", 2, (2, 5)), (50.0, "FINISH", 1, None), (50.0, "SUSPEND", 2, None), (50.0, "START", 2, (3, 4)),
    ]  # fmt: skip
    # 49 s at half speed did 24.5; then 2 s of moving, and the rest at full speed
    assert run.outcome.finish_s[2] == 50 + 2 + 75.5


def test_defragmentation_empties_the_node_with_most_free_gpus_and_stops() -> None:
    """Job 2 leaves at 11: node 0 has one GPU of four in use and node 1 two, and no node is idle. So job 0 moves. Job 3 comes
    and goes on node 0, which is idle again then: nothing more moves."""
    trace = jobs((0, 1, 1000), (0, 2, 1000), (1, 1, 10), (20, 1, 10))
    run = gandiva(trace, "2x4")
    assert events(run, 100.0)[2:] == [
        (1.0, "START", 2, (1,)),
        (11.0, "FINISH", 2, None), (11.0, "SUSPEND", 0, None), (11.0, "START", 0, (6,)),
        (20.0, "START", 3, (0,)), (30.0, "FINISH", 3, None),
    ]  # fmt: skip
    assert gandiva(trace, "2x4", ":migrate=false").preemptions == 0
    assert gandiva(trace, "2x4", ":spare=0").preemptions == 0


@pytest.mark.parametrize(
    ("sizes", "moves"),
    [
        ((1, 3, 1), 1),  # three of node 0's four are free when job 2 has left, and node 1 has one
        ((2, 3, 2), 0),  # two of four free is no fragment
        ((1, 4, 1), 0),  # no other node has room
    ],
)
def test_a_node_is_emptied_only_if_three_of_four_are_free_and_there_is_room(
    sizes: tuple[int, int, int], moves: int
) -> None:
    run = gandiva(jobs((0, sizes[0], 1000), (0, sizes[1], 1000), (1, sizes[2], 10)), "2x4")
    assert run.preemptions == moves


# -- grow and shrink -------------------------------------------------------------------------------------------------------------


def elastic(trace: Trace, least: list[int], most: list[int]) -> Trace:
    return replace(trace, min_gpus=np.array(least, np.int32), max_gpus=np.array(most, np.int32))


def test_a_job_grows_after_the_timeout_and_shrinks_at_once() -> None:
    """Idle since 0, so at 120 (the first turn after the timeout of 100 s) job 0 gets all four GPUs; at 200 job 1 needs two."""
    trace = elastic(jobs((0, 2, 1000), (200, 2, 50)), [1, 2], [4, 2])
    run = gandiva(trace, "1x4", ":idle=100", resume_cost_s=1.0)
    assert events(run)[:7] == [
        (0.0, "START", 0, (0, 1)),
        (120.0, "SUSPEND", 0, None), (120.0, "START_AS", 0, ((0, 1, 2, 3), 1000)),
        (200.0, "SUSPEND", 0, None), (200.0, "START", 1, (0, 1)), (200.0, "START", 0, (2, 3)),
        (250.0, "FINISH", 1, None),
    ]  # fmt: skip


def test_growing_makes_a_job_faster_by_its_scale() -> None:
    """120 s of work at 2 GPUs, then at 4 by (3 / 2): 480 s of the rest take 320 s."""
    profiles = Profiles(default=Profile(scale=(1.0, 2.0, 2.5, 3.0)))
    trace = elastic(jobs((0, 2, 600)), [2], [4])
    run = gandiva(trace, "1x4", ":idle=100", profiles)
    assert run.outcome.finish_s.tolist() == [120 + 320.0]
    assert run.outcome.held_gpu_s is not None
    assert run.outcome.held_gpu_s.tolist() == [2 * 120 + 4 * 320.0]


def test_a_growth_that_does_not_pay_is_undone() -> None:
    profiles = Profiles(default=Profile(scale=(1.0, 2.0, 2.0, 2.0)))
    run = gandiva(elastic(jobs((0, 2, 600)), [2], [4]), "1x4", ":idle=100", profiles)
    assert events(run) == [
        (0.0, "START", 0, (0, 1)),
        (120.0, "SUSPEND", 0, None), (120.0, "START_AS", 0, ((0, 1, 2, 3), 1000)),
        (180.0, "SUSPEND", 0, None), (180.0, "START", 0, (0, 1)),
        (600.0, "FINISH", 0, None),
    ]  # fmt: skip


def test_an_elastic_job_starts_on_fewer_gpus_rather_than_wait() -> None:
    run = gandiva(elastic(jobs((0, 1, 30), (1, 2, 100)), [1, 1], [1, 2]), "1x2")
    assert events(run)[1] == (1.0, "START_AS", 1, ((1,), 1000))


def test_nobody_shrinks_for_a_lower_priority() -> None:
    trace = replace(elastic(jobs((0, 4, 1000), (10, 4, 50)), [1, 4], [4, 4]), priority=np.array([1, 0], np.int32))
    run = gandiva(trace, "1x4")
    assert run.outcome.start_s[1] >= run.outcome.finish_s[0]


# -- what it may and may not -------------------------------------------------------------------------------------------------------


def test_it_learns_of_jobs_only_what_the_profiler_sees() -> None:
    """No module of gandiva reads rates, remaining work or profiles from the state."""
    from pathlib import Path

    import fairlead.policy.gandiva as package

    for path in Path(package.__file__).parent.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for secret in ("J_RATE", "J_DONE", "J_DUE", "J_RAN", "K_PROFILE", ".work", "q.rates", "R_USE", "estimate"):
            assert secret not in text, f"{path.name} reads {secret}"


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (":quantum=0", {}, "quantum"),
        (":idle=-1", {}, "idle"),
        (":quantum=1", {"resume_cost_s": 2.0}, "nothing would ever finish"),
        (":quantm=1", {}, "quantum"),
    ],
)
def test_what_can_not_work_is_refused(text: str, options: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        gandiva(jobs((0, 1, 1)), "1x1", text, **options)


def test_it_is_found_by_name() -> None:
    assert find_policy("gandiva").name == "gandiva"
