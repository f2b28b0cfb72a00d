"""The Gandiva paper's workload for time-slicing and packing (OSDI'18): 1000 jobs for 45 machines of 4."""

from __future__ import annotations

import numpy as np

from fairlead.workload.generate.registry import generator
from fairlead.workload.trace import Names, Trace

#: the models of the paper's table by GPU utilisation, ascending, with the share of jobs of each class
_CLASSES = (
    (0.30, ("VAE", "SuperRes")),
    (0.25, ("RHN", "SCRNN", "MI-LSTM")),
    (0.45, ("LSTM", "ResNet-50", "ResNeXt")),
)
_MODELS = tuple(model for _, models in _CLASSES for model in models)
_GANGS = ("ResNet-50", "ResNeXt")


@generator("gandiva-1000")
def gandiva_1000(rng: np.random.Generator, *, jobs: int = 1000, hours: float = 2.0) -> Trace:
    """Gandiva's 1000 jobs of 30 to 45 minutes, uniform over 2 hours, of eight models, for 45x4 GPUs.

    30, 25 and 45 % of the jobs have low, middle and high GPU utilisation, evenly over each class's models. The
    last two models run on 2 or 4 GPUs, the others on one. `profile` names the model.
    """
    shares = [share / len(models) for share, models in _CLASSES for _ in models]
    ends = np.rint(np.cumsum(shares) * jobs).astype(np.int64)
    model = np.repeat(np.arange(len(_MODELS), dtype=np.int32), np.diff(ends, prepend=0))
    model = model[rng.permutation(jobs)]
    gang = np.isin(model, [_MODELS.index(name) for name in _GANGS])
    gpus = np.where(gang, rng.choice(np.array([2, 4]), jobs), 1).astype(np.int32)
    submit_s = np.sort(np.floor(rng.random(jobs) * hours * 3600.0))
    return Trace(
        submit_s=submit_s - submit_s[0],
        gpus=gpus,
        duration_s=np.floor(rng.uniform(1800.0, 2701.0, jobs)),
        profile=Names(model, _MODELS),
        source="gandiva-1000",
    )
