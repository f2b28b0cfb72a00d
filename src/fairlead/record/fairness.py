"""Was it fair: finish-time fairness per job, Jain's index over tenants."""

from __future__ import annotations

import math

import numpy as np

from fairlead.record.journal import Journal, Outcome
from fairlead.record.runs import Floats, gpu_weight, job_end_s
from fairlead.record.steps import Spans, average_between, union


def finish_time_fairness(journal: Journal, outcome: Outcome) -> Floats:
    """Rho per job, as in Themis: its JCT over the time it would have needed alone in 1/N of the cluster.

    N is the average number of active tenants between the job's submission and its finish; a tenant is
    active while any of its jobs is submitted and has not ended. Where the trace names no tenants, every job
    counts as one. Alone in C/N GPUs, a job of g GPUs that fits takes its duration; one that does not fit
    takes turns on them and needs g / (C/N) times as long. Above 1: an equal part of the cluster would have
    served the job better. A tenant's other jobs are not in its way in that ideal, so a tenant that floods
    its own part sees rho above 1 too. NaN where the job did not finish or asked for no time.
    """
    jobs = journal.jobs
    if len(jobs.submit_s) == 0:
        return np.zeros(0)
    end_s = job_end_s(journal)
    if jobs.tenant is None:
        spans = Spans(np.zeros(0, dtype=np.int32), jobs.submit_s, end_s)
    else:
        code = jobs.tenant + np.int32(1)  # -1: no tenant, a group of its own
        spans = union(code, jobs.submit_s, end_s, int(code.max()) + 1)
    jct_s = outcome.finish_s - jobs.submit_s
    # an unfinished job's end only fills the column; its rho is NaN by its JCT
    active = np.maximum(average_between(spans, jobs.submit_s, end_s), 1.0)
    share_gpus = max(journal.cluster.gpus, 1) / active
    ideal_s = jobs.duration_s * np.maximum(gpu_weight(jobs) / share_gpus, 1.0)
    rho: Floats = np.divide(jct_s, ideal_s, out=np.full(len(jct_s), np.nan), where=ideal_s > 0)
    return rho


def jain_index(journal: Journal, outcome: Outcome) -> float:
    """Jain's (Σx)² / (n Σx²) over the tenants that finished a GPU job; NaN without tenants.

    x is how fast the cluster served the tenant: the GPU-seconds of work that its finished jobs asked for,
    over the GPU-seconds they would have held had they been running from submission to finish. 1: every
    tenant's jobs were stretched by the same factor, whatever it is; 1/n: one tenant got everything.
    """
    jobs = journal.jobs
    if jobs.tenant is None:
        return math.nan
    weight = gpu_weight(jobs)
    counted = np.isfinite(outcome.finish_s) & (weight > 0) & (jobs.tenant >= 0)
    code, part = jobs.tenant[counted], weight[counted]
    asked = np.bincount(code, weights=part * jobs.duration_s[counted])
    lived = np.bincount(code, weights=part * (outcome.finish_s - jobs.submit_s)[counted])
    rate = asked[lived > 0] / lived[lived > 0]
    squares = float((rate * rate).sum())
    return float(rate.sum()) ** 2 / (len(rate) * squares) if squares > 0 else math.nan
