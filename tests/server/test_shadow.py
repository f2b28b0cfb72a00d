"""Shadow mode: what is seen, what would be decided, and what that would have gained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.cli.live.shadow import compare
from fairlead.model.cluster import ClusterSpec, parse_cluster_shape
from fairlead.model.errors import InputError
from fairlead.model.job import JobSpec
from fairlead.runtime.protocols import EVERYTHING, Arrival, Capabilities, Phase, Scene, Sighting
from fairlead.server.shadow.journal import FILE, ShadowJournal, rows
from fairlead.server.shadow.story import read_story
from fairlead.server.shadow.watch import Shadow

SPEC = parse_cluster_shape("2x2")
T0 = 1_700_000_000.0


class Screen:
    """Shows what it is told to show; nothing can be done to it."""

    name = "screen"
    capabilities: Capabilities = EVERYTHING

    async def inventory(self) -> ClusterSpec:
        return SPEC

    async def look(self) -> Scene:
        raise OSError("nobody answers")

    async def close(self) -> None: ...


def job(name: str, gpus: int = 1, submit: float = 0.0, **spec: object) -> Arrival:
    return Arrival(name, JobSpec(run="train", gpus=gpus, **spec), "eve", "", T0 + submit)  # type: ignore[arg-type]


def waits(one: Arrival) -> Sighting:
    return Sighting(one, Phase.WAITING)


def runs(one: Arrival, start: float, *gpus: tuple[str, int]) -> Sighting:
    return Sighting(one, Phase.RUNNING, T0 + start, gpus=gpus or (("node-0", one.spec.gpus),))


def ended(one: Arrival, start: float, end: float) -> Sighting:
    return Sighting(one, Phase.ENDED, T0 + start, T0 + end, (("node-0", one.spec.gpus),))


def shadow_of(path: Path, policy: str = "fifo-backfill", now: float = 0.0) -> Shadow:
    before = list(rows(path)) if (path / FILE).exists() else []
    made = Shadow(Screen(), SPEC, ShadowJournal(path), policy=policy, placer="consolidate")
    made.go_on(before, T0 + now)
    return made


def see(shadow: Shadow, at: float, *jobs: Sighting, down: dict[str, str] | None = None) -> list[str]:
    return [one.job for one in shadow.look(Scene(T0 + at, jobs, down or {}))]


def kinds(path: Path) -> list[tuple[str, str]]:
    return [(row["kind"], row.get("job", row.get("node", ""))) for row in rows(path)]


def test_what_the_engine_leaves_waiting_beside_free_gpus_is_said_once(tmp_path: Path) -> None:
    shadow, a = shadow_of(tmp_path), job("a", 2)
    assert see(shadow, 1, waits(a)) == ["a"]
    assert see(shadow, 2, waits(a)) == ["a"]
    assert see(shadow, 5, runs(a, 4)) == []
    assert see(shadow, 9, ended(a, 4, 8)) == []
    assert kinds(tmp_path) == [("watch", ""), ("seen", "a"), ("would-start", "a"), ("start", "a"), ("end", "a")]
    started = next(row for row in rows(tmp_path) if row["kind"] == "start")
    assert started["would_earlier_s"] == 3.0
    assert (shadow.tally.starts, shadow.tally.foreseen) == (1, 1)


def test_what_is_taken_is_not_given_again(tmp_path: Path) -> None:
    """Running jobs hold what the engine gave them, and nodes that it closed are not used."""
    shadow, a, b, c = shadow_of(tmp_path), job("a", 2), job("b", 2, 1.0), job("c", 2, 2.0)
    assert see(shadow, 3, runs(a, 1), waits(b), waits(c)) == ["b"]
    assert see(shadow, 4, runs(a, 1), waits(b), waits(c), down={"node-1": "drained"}) == []
    assert ("down", "node-1") in kinds(tmp_path)
    where = next(row for row in rows(tmp_path) if row["kind"] == "would-start")
    assert where["nodes"] == ["node-1"]


def test_a_policy_that_preempts_says_whom_it_would_suspend(tmp_path: Path) -> None:
    shadow = shadow_of(tmp_path, "srtf")
    long, short = job("long", 4, estimate_s=1e5), job("short", 4, 5.0, estimate_s=10)
    see(shadow, 6, runs(long, 0, ("node-0", 2), ("node-1", 2)), waits(short))
    told = [one for one in kinds(tmp_path) if one[0].startswith("would-")]
    assert told == [("would-suspend", "long"), ("would-start", "short")]


def test_shares_stand_on_one_gpu_and_what_fits_no_book_is_counted(tmp_path: Path) -> None:
    shadow = shadow_of(tmp_path)
    halves = [job(f"h{i}", 1, gpu_share_milli=500) for i in range(4)]
    big = job("big", 2, 1.0)
    see(shadow, 2, *(runs(one, 0) for one in halves), waits(big), runs(job("odd", 1), 0, ("node-9", 1)))
    where = next(row for row in rows(tmp_path) if row["kind"] == "would-start")
    assert where["nodes"] == ["node-1"]
    assert shadow.tally.unplaced == 1


def test_who_holds_something_else_than_it_asks_for_is_counted_and_its_gpus_are_taken(tmp_path: Path) -> None:
    shadow, halves, a, b = shadow_of(tmp_path), job("halves", 1), job("a", 2, submit=1), job("b", 1, submit=2)
    there = runs(halves, 0, ("node-0", 1), ("node-1", 1))
    assert see(shadow, 3, there, waits(a)) == []
    assert shadow.tally.unplaced == 1
    assert see(shadow, 3, there, waits(b)) == ["b"]
    share = job("share", 1, gpu_share_milli=500)
    assert see(shadow, 4, runs(share, 3, ("node-0", 1), ("node-1", 1)), waits(a)) == []
    lost = Sighting(job("lost"), Phase.RUNNING, T0)  # on a node that nobody knows
    assert see(shadow, 5, lost, waits(a)) == ["a"]


def test_what_was_seen_is_written_though_nothing_can_be_decided_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shadow = shadow_of(tmp_path)
    monkeypatch.setattr(shadow, "_decide", lambda *_: (_ for _ in ()).throw(ValueError("no policy takes this")))
    with pytest.raises(ValueError, match="no policy"):
        see(shadow, 1, waits(job("a")))
    assert kinds(tmp_path) == [("watch", ""), ("seen", "a")]


def test_a_watch_that_is_begun_again_goes_on(tmp_path: Path) -> None:
    a, b = job("a", 2), job("b", 2)
    see(shadow_of(tmp_path), 1, runs(a, 0), waits(b))
    with (tmp_path / FILE).open("a") as file:
        file.write('{"kind":"start","ti')  # killed while it wrote
    see(shadow_of(tmp_path, now=10), 11, ended(a, 0, 10), runs(b, 10))
    found = kinds(tmp_path)
    assert [one for one in found if one[0] == "seen"] == [("seen", "a"), ("seen", "b")]
    assert found[-2:] == [("end", "a"), ("start", "b")]
    story = read_story(rows(tmp_path))
    assert story.jobs["a"].ran_s == 10.0
    assert story.since_s == T0


def test_a_requeue_is_two_runs_of_one_job(tmp_path: Path) -> None:
    shadow, a = shadow_of(tmp_path), job("a", 1)
    see(shadow, 1, runs(a, 0))
    see(shadow, 5, waits(a))
    see(shadow, 9, runs(a, 8))
    see(shadow, 20, ended(a, 8, 18))
    story = read_story(rows(tmp_path))
    assert (story.jobs["a"].first_start_s, story.jobs["a"].ran_s) == (T0, 5.0 + 10.0)


def test_the_report_says_what_would_have_been_gained(tmp_path: Path) -> None:
    """Three jobs of a whole node each, which the engine ran one after another on one of two nodes."""
    shadow = shadow_of(tmp_path)
    three = [job(f"j{i}", 2, 1.0) for i in range(3)]
    see(shadow, 2, *map(waits, three))
    for i, one in enumerate(three):
        see(shadow, 11 + 10 * i, runs(one, 10 + 10 * i), *map(waits, three[i + 1 :]))
        see(shadow, 20 + 10 * i, ended(one, 10 + 10 * i, 20 + 10 * i), *map(waits, three[i + 1 :]))
    found = compare(read_story(rows(tmp_path)), ["fifo", "sjf"])
    lived, fifo, _ = found["rows"]
    assert lived["mean_wait_s"] == pytest.approx((9 + 19 + 29) / 3)
    assert fifo["mean_wait_s"] == pytest.approx((0 + 0 + 10) / 3)
    assert fifo["mean_wait_change"] == pytest.approx(10 / 57 - 1)
    assert found["jobs"] == {"seen": 3, "compared": 3, "waiting": 0, "running": 0}
    assert found["decisions"]["starts_foreseen"] == 3
    json.dumps(found, allow_nan=False)


def test_who_ran_before_the_watch_holds_its_gpus_in_the_replay_and_is_not_compared(tmp_path: Path) -> None:
    shadow = shadow_of(tmp_path, now=100)
    old = [job(f"old{i}", 2, 0.0) for i in range(2)]
    new = job("new", 2, 101.0)
    see(shadow, 102, *(runs(one, 50, (f"node-{i}", 2)) for i, one in enumerate(old)), waits(new))
    see(shadow, 120, *(ended(one, 50, 119) for one in old), waits(new))
    see(shadow, 131, runs(new, 130))
    see(shadow, 141, ended(new, 130, 140))
    found = compare(read_story(rows(tmp_path)), ["fifo"])
    assert found["jobs"]["compared"] == 1
    assert [row["mean_wait_s"] for row in found["rows"]] == pytest.approx([29.0, 18.0])


def test_with_nothing_seen_whole_the_report_says_what_would_do(tmp_path: Path) -> None:
    see(shadow_of(tmp_path), 1, waits(job("a")))
    with pytest.raises(InputError, match="from its submission to its end"):
        compare(read_story(rows(tmp_path)), ["fifo"])
    with pytest.raises(InputError, match="nothing was watched here"):
        next(iter(rows(tmp_path / "elsewhere")))
