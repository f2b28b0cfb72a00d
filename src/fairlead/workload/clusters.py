"""Clusters in: the short form people type, a YAML file, or a published list of machines."""

from __future__ import annotations

import re
from pathlib import Path

from fairlead.model.cluster import ClusterSpec, parse_cluster_shape

_SHAPE = re.compile(r"\s*\d+x\d+")
_DAY = re.compile(r"(?P<path>.+)@(?P<day>\d{4}-\d{2}-\d{2})")


def load_cluster(spec: str) -> ClusterSpec:
    """`64x8` and the like, or the path of a YAML file or machine list.

    A Helios list of GPUs by day means its last day; `FILE@2020-09-01` means that one.
    """
    if _SHAPE.match(spec) and not Path(spec).exists():
        return parse_cluster_shape(spec)
    dated = None if Path(spec).exists() else _DAY.fullmatch(spec)
    path, day = (Path(dated["path"]), dated["day"]) if dated else (Path(spec), None)
    if path.suffix in (".yaml", ".yml"):
        from fairlead.workload.cluster_file import read_cluster_file  # pydantic is not needed for a shape

        return read_cluster_file(path)
    if path.suffix or path.exists():
        from fairlead.workload.inventories import read_inventory

        return read_inventory(path, day)
    return parse_cluster_shape(spec)
