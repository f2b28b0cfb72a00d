"""The models of Gandiva's 1000 jobs, as the simulator's truth: what the paper measured of them, and what had to be assumed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairlead.record.journal import Journal
from fairlead.record.runs import Floats, fold_runs
from fairlead.sim.profiles import Profile, Profiles
from fairlead.workload.trace import Trace

#: by how much several copies on one GPU do more than taking turns (the paper's table, P40, no MPS)
GAINS: Mapping[str, float] = {
    "VAE": 4.12,
    "SuperRes": 2.60,
    "RHN": 0.46,
    "SCRNN": 0.39,
    "MI-LSTM": 0.17,
    "LSTM": -0.16,
    "ResNet-50": -0.13,
    "ResNeXt": -0.11,
}
#: the first and the last are the paper's; what lies between is assumed, in the order of the table
UTILIZATION: Mapping[str, float] = {
    "VAE": 0.087,
    "SuperRes": 0.15,
    "RHN": 0.60,
    "SCRNN": 0.65,
    "MI-LSTM": 0.75,
    "LSTM": 0.90,
    "ResNet-50": 0.97,
    "ResNeXt": 0.989,
}
#: work that 100 mini-batches are; the paper does not give it
HUNDRED_BATCHES_S = 50.0


def model_profiles() -> Profiles:
    """Two copies do 1 + gain together, and none of them more than it would alone."""
    return Profiles(
        {
            name: Profile(sharing=(1.0, min(1.0, (1.0 + gain) / 2.0)), utilization=UTILIZATION[name])
            for name, gain in GAINS.items()
        }
    )


class Progress:
    """How much work each job has done when, from the journal and the profiles' factors for GPUs that are shared."""

    def __init__(self, trace: Trace, journal: Journal, profiles: Profiles, resume_cost_s: float) -> None:
        self.runs = fold_runs(journal)
        assert trace.profile is not None
        names = trace.profile.values
        self._shared = np.array([profiles.by_name[name].sharing[-1] for name in names])[trace.profile.codes]
        self._use = np.array([profiles.by_name[name].utilization for name in names])[trace.profile.codes]
        self._jobs = len(trace)
        self._order = np.lexsort((self.runs.start_s, self.runs.job))
        job = self.runs.job[self._order]
        resumed = np.concatenate([[False], job[1:] == job[:-1]])
        self._from_s = self.runs.start_s[self._order] + np.where(resumed, resume_cost_s, 0.0)
        self._beside = self._shared_s(journal)[self._order]

    def _shared_s(self, journal: Journal) -> Floats:
        """Seconds of each run that somebody else sat on its GPU."""
        runs = self.runs
        beside = np.zeros(len(runs))
        half = np.flatnonzero((runs.gpus == 1) & (runs.weight < 1.0))
        gpu = journal.gpu_ids[runs.offset[half]]
        for one in np.unique(gpu).tolist():
            mine = half[gpu == one]
            for at, run in enumerate(mine.tolist()):
                for other in mine[at + 1 :].tolist():
                    if runs.start_s[other] >= runs.end_s[run]:
                        break
                    both = min(runs.end_s[run], runs.end_s[other]) - runs.start_s[other]
                    beside[run] += both
                    beside[other] += both
        return beside

    def work_s(self) -> Floats:
        """Of each run, in order of job and start: work done, if what it did with others came first."""
        spent = np.maximum(self.runs.end_s[self._order] - self._from_s, 0.0)
        beside = np.minimum(self._beside, spent)
        factor = self._shared[self.runs.job[self._order]]
        work: Floats = beside * factor + (spent - beside)
        return work

    def reached_s(self, amount_s: float) -> Floats:
        """When each job had done so much work."""
        job, work = self.runs.job[self._order], self.work_s()
        when = np.full(self._jobs, np.nan)
        done = np.zeros(self._jobs)
        for at in range(len(job)):
            i = job[at]
            if np.isnan(when[i]) and done[i] + work[at] >= amount_s - 1e-9:
                rate = self._shared[i] if self._beside[at] > 0 else 1.0
                when[i] = self._from_s[at] + (amount_s - done[i]) / rate
            done[i] += work[at]
        return when

    def used_gpu_s(self, until_s: float) -> float:
        """GPU-seconds that were really used up to a moment: each job's utilisation alone × the work it did × its GPUs. A run
        that goes on beyond it counts by its part before."""
        runs = self.runs
        job, start_s, end_s = (column[self._order] for column in (runs.job, runs.start_s, runs.end_s))
        length = np.maximum(end_s - start_s, 1e-12)
        part = np.clip(until_s - start_s, 0.0, length) / length
        return float((self._use[job] * self.work_s() * part * runs.gpus[self._order]).sum())
