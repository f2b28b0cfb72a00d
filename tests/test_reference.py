"""The reference simulator against cases worked out by hand."""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import parse_cluster_shape
from fairlead.workload.trace import Trace
from reference import simulate


def test_the_toy_of_the_tiresias_paper():
    trace = Trace(np.zeros(3), np.array([2, 1, 2], np.int32), np.array([2.0, 8.0, 6.0]))
    cluster = parse_cluster_shape("1x2")
    assert simulate(trace, cluster, "srsf", {}, "consolidate", {}).finish_s == [2, 10, 16]
    assert simulate(trace, cluster, "las", {"quantum": 1}, "consolidate", {}).finish_s == [5, 14, 16]
