from __future__ import annotations

from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.record.story import story

from .build import Builder


def test_a_job_that_was_suspended_and_lost_a_node_tells_it_all() -> None:
    build = Builder("2x4", ["vision"])
    job = build.job(3600, 3, 7200, "vision")
    other = build.job(3600, 1, 10)
    build.start(3600, other, [7]).start(4200, job, [0, 1, 3]).suspend(4500, job).start(4500, job, [2, 4, 5])
    build.row(5100, EventKind.NODE_DOWN, 1).row(5100, EventKind.KILL, job, 1)
    build.start(5400.5, job, [0, 1, 2]).finish(12600.5, job)
    assert story(build.build(), job) == [
        "Job 0 was submitted at 3,600 s by vision: 3 GPUs for 2 h.",
        "It started at 4,200 s, after waiting 10 min, on node-0 (GPUs 0, 1, 3).",
        "It was suspended at 4,500 s, after 5 min on its GPUs: a job that the policy ranks higher took its GPUs.",
        "It started at 4,500 s, at once, on node-0 (GPU 2) and node-1 (GPUs 0-1).",
        "It lost node-1 at 5,100 s, after 10 min on its GPUs, and waits to be tried again.",
        "It started at 5,400.5 s, after waiting 5.01 min, on node-0 (GPUs 0-2).",
        "It finished at 12,600.5 s, after 2 h on its GPUs.",
        "In all 2.5 h from submission to end: 2.25 h on GPUs, 15 min waiting.",
    ]


def test_shares_cpu_jobs_failures_and_refusals_are_told() -> None:
    build = Builder("2x1")
    share, cpu, refused, silent = (
        build.job(0, 1, 60, share=250),
        build.job(0, 0, 60),
        build.job(0, 9, 1),
        build.job(0, 1, 1),
    )
    build.row(0, EventKind.REFUSE, refused, Reason.TOO_MANY_GPUS).start(0, share, [1]).start(0, cpu, [-2])
    build.row(30, EventKind.FAIL, share, 1).start(30, share, [0]).row(50, EventKind.GIVE_UP, share, 2)
    journal = build.build()
    assert story(journal, share)[0] == "Job 0 was submitted at 0 s: 0.25 of a GPU for 60 s."
    assert story(journal, share)[2].startswith("Attempt 1 failed at 30 s, after 30 s on its GPUs; it waits")
    assert story(journal, share)[4] == "Attempt 2 failed at 50 s, after 20 s on its GPUs, and it was given up."
    assert story(journal, cpu)[1] == "It started at 0 s, at once, on node-1."
    assert story(journal, refused)[1] == "It was refused at 0 s: it asks for more GPUs than can ever be had."
    assert story(journal, silent)[1] == "Nothing else is recorded of it."
