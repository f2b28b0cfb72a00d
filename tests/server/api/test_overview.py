"""What the dashboard is drawn from: GPUs and who has them, the overview, counts as a stream; and that many who look cost little more
than one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

import pytest

from fairlead.server.api import gpus
from fairlead.server.api.fresh import Fresh
from fairlead.server.metrics import GpuReading

from .service import Service, wait_for


@pytest.fixture
def running(live: Service) -> Iterator[str]:
    job = live.submit(resources={"gpus": 3}, name="runs")
    live.until("ann", job, "running")
    yield job
    live.ask("ann", "POST", f"/v1/jobs/{job}/cancel")
    live.until("ann", job, "cancelled")


def test_every_gpu_and_who_has_it(live: Service, running: str) -> None:
    def found() -> dict[str, object] | None:
        told = live.ask("vic", "GET", "/v1/gpus").json()
        return told if [job["id"] for job in told["jobs"]] == [running] else None

    told = wait_for(found)
    assert [(node["name"], node["gpus"], node["state"]) for node in told["nodes"]] == [
        ("node-0", 4, "up"),
        ("node-1", 4, "up"),
    ]
    assert sorted(told["holder"]) == [-1] * 5 + [0] * 3
    assert sorted(told["milli"]) == [0] * 5 + [1000] * 3
    assert told["jobs"] == [{"id": running, "name": "runs", "tenant": "vision"}]
    assert told["utilization_percent"] is None
    plain = live.ask("vic", "GET", "/v1/gpus", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json()["nodes"] == told["nodes"]


def test_gpus_that_are_shared_name_all_who_share(live: Service) -> None:
    jobs = [live.submit(resources={"gpu_share": 0.25}, name=f"part-{i}") for i in range(2)]
    for job in jobs:
        live.until("ann", job, "running")

    def shared() -> object:
        told = live.ask("ada", "GET", "/v1/gpus").json()
        return told["shared"] and [sorted(told["jobs"][one]["id"] for one in own) for own in told["shared"].values()]

    assert wait_for(shared) == [sorted(jobs)]
    for job in jobs:
        live.ask("ann", "POST", f"/v1/jobs/{job}/cancel")
        live.until("ann", job, "cancelled")


def test_a_node_with_each_of_its_gpus(live: Service, running: str) -> None:
    at = live.ask("ann", "GET", f"/v1/jobs/{running}").json()["places"][0]
    live.scheduler.metrics.gpus(
        [GpuReading(at["node"], i, f"GPU-{i}", "T", 10.0 * i, 100.0, 900.0, 300.0, 60.0) for i in range(4)]
    )
    wait_for(lambda: live.ask("ann", "GET", f"/v1/nodes/{at['node']}").json()["jobs"] == [running])
    node = live.ask("ann", "GET", f"/v1/nodes/{at['node']}").json()
    assert [gpu["index"] for gpu in node["each"] if gpu["holders"]] == at["gpus"]
    assert [gpu["utilization_percent"] for gpu in node["each"]] == [0, 10, 20, 30]
    assert node["each"][at["gpus"][0]]["holders"] == [{"job": running, "tenant": "vision", "milli": 1000}]
    live.scheduler.metrics.gpus([])
    missed = live.ask("ann", "GET", "/v1/nodes/nod-0")
    assert (missed.status_code, "did you mean 'node-0'?" in missed.json()["detail"]) == (404, True)


def test_the_overview_counts_what_the_journal_says(live: Service, running: str) -> None:
    waits = live.submit(resources={"gpus": 8}, name="waits")
    held = live.submit("bob", resources={"gpus": 1}, name="held")
    live.ask("bob", "POST", f"/v1/jobs/{held}/suspend")
    live.until("bob", held, "held")

    def found() -> dict[str, object] | None:
        told = live.ask("bob", "GET", "/v1/overview?span=1h").json()
        return told if told["pending"] == {"held": 1, "not-enough-free": 1} else None

    told = wait_for(found)
    assert len(told["time_s"]) == len(told["allocated"]) == len(told["computing"]) == 120
    assert told["allocated"][-1] > 0
    assert all(a + 1e-6 >= c for a, c in zip(told["allocated"], told["computing"], strict=True))
    assert max(told["allocated"]) <= told["gpus"] == 8
    vision = next(row for row in told["tenants"] if row["name"] == "vision")
    assert vision["started"] >= 1
    assert 0 <= vision["wait_p50_s"] <= vision["wait_p95_s"]
    assert sum(row["share"] or 0 for row in told["tenants"]) == pytest.approx(1.0)
    assert sum(row["fair_share"] for row in told["tenants"]) == pytest.approx(1.0)
    assert told["free_gpus"] == 5
    assert told["waiting_most"] >= max(1, *told["waiting"])  # at a moment, where those are means
    for job in (waits, held):
        live.ask("ada", "POST", f"/v1/jobs/{job}/cancel")


def test_a_span_that_there_is_not(live: Service) -> None:
    answer = live.ask("ann", "GET", "/v1/overview?span=2h")
    assert (answer.status_code, answer.json()["field"], answer.json()["accepts"]) == (
        422,
        "span",
        "one of 1d, 1h, 6h, 7d",
    )


def test_counts_come_as_a_stream_when_something_happens(live: Service) -> None:
    with live.client("vic").stream("GET", "/v1/cluster", params={"follow": True}) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        job = ""
        for line in stream.iter_lines():
            if line.startswith("data: "):
                told = json.loads(line.removeprefix("data: "))
                if not job:
                    before = told["last_event"]
                    job = live.submit(run="true")
                    live.until("ann", job, "done")
                elif told["last_event"] > before and told["jobs"].get("done"):
                    break
        assert told["gpus"] == 8


def test_an_answer_that_is_dear_is_kept_for_longer() -> None:
    made = 0

    async def dear() -> int:
        nonlocal made
        made += 1
        await asyncio.sleep(0.05)
        return made

    async def look() -> None:
        number = 0

        def changes() -> int:
            nonlocal number
            number += 1
            return number

        cheap, bounded = Fresh(dear, changes, 0.0, 0.0), Fresh(dear, changes, 0.0, 0.0, share=1e-4)
        assert [await cheap.get(), await cheap.get()] == [1, 2]
        assert set(await asyncio.gather(*(bounded.get() for _ in range(20)))) == {3}  # made once for all of them
        assert {await bounded.get() for _ in range(20)} == {3}
        assert await bounded.get(after=number) == 4  # unless it must know of something newer

    asyncio.run(look())


def test_what_was_said_of_a_job_is_said_again_until_something_becomes_of_it(live: Service, running: str) -> None:
    waits = live.submit(resources={"gpus": 8}, name="asked-often", time_limit="1h")
    live.until("ann", waits, "waiting")
    first = wait_for(lambda: live.ask("ann", "GET", f"/v1/jobs/{waits}/explain").json()["message"])
    assert "needs 8 GPUs" in first
    live.ask("ann", "POST", f"/v1/jobs/{waits}/suspend")
    live.until("ann", waits, "held")
    # nobody is told that a held job waits for GPUs
    assert "needs 8" not in live.ask("ann", "GET", f"/v1/jobs/{waits}/explain").json()["message"]
    live.ask("ann", "POST", f"/v1/jobs/{waits}/cancel")


def test_a_map_that_many_ask_for_at_once_is_packed_once_for_each_pair_of_eyes(
    live: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed: list[str] = []
    plain = gpus.Holders.packed

    def slowly(self: gpus.Holders, user: str) -> bytes:
        packed.append(user)
        time.sleep(0.3)
        return plain(self, user)

    monkeypatch.setattr(gpus.Holders, "packed", slowly)

    async def ask() -> list[bytes]:
        held = gpus.GpuMap(live.scheduler)
        return await asyncio.gather(*(held.answer(user) for user in ("", "ann", "", "", "ann")))

    told = live.call(ask())
    assert sorted(packed) == ["", "ann"]
    assert told[0] == told[2] == told[3]
    assert told[1] == told[4]
