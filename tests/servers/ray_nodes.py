"""A Ray cluster of several nodes on loopback, kept by this process: run by `ray_cluster` with a Python that has Ray.

A line of JSON in, a line of JSON out; everything it started ends with it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from ray.cluster_utils import Cluster

_STORE_BYTES = 80 << 20


class Keeper:
    def __init__(self, port: int) -> None:
        self.port = port
        self.cluster: Cluster | None = None
        self.nodes: dict[str, Any] = {}

    def head(self, gpus: int) -> str:
        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={
                **self._args("head", gpus),
                "gcs_server_port": self.port,
                "include_dashboard": False,
                "include_log_monitor": False,
                "dashboard_agent_listen_port": None,
            },
        )
        self.nodes["head"] = self.cluster.head_node
        return str(self.cluster.address)

    def add(self, name: str, gpus: int) -> str:
        assert self.cluster
        self.nodes[name] = self.cluster.add_node(**self._args(name, gpus))
        return str(self.nodes[name].node_id)

    def _args(self, name: str, gpus: int) -> dict[str, Any]:
        return {
            "node_ip_address": "127.0.0.1",
            "node_name": name,
            "num_cpus": 4,
            "num_gpus": gpus,
            "object_store_memory": _STORE_BYTES,
            "resources": {"accelerator_type:V100": 1},
        }

    def pids(self, name: str) -> dict[str, list[int]]:
        """By kind of process: raylet, gcs_server, …"""
        return {kind: [one.process.pid for one in found] for kind, found in self.nodes[name].all_processes.items()}

    def kill(self, name: str, kind: str) -> None:
        """And buried: Ray's workers take a raylet for alive whose parent has not taken note of its death."""
        for one in self.nodes[name].all_processes.get(kind, ()):
            one.process.kill()
            one.process.wait()

    def remove(self, name: str) -> None:
        assert self.cluster
        self.cluster.remove_node(self.nodes.pop(name), allow_graceful=False)

    def end(self) -> None:
        for node in self.nodes.values():
            for found in node.all_processes.values():
                for one in found:
                    one.process.kill()
        self.nodes.clear()
        self.cluster = None


def main() -> None:
    """Until nobody is there to tell it more: the pipe ends when the tests do, however they end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    keeper = Keeper(int(sys.argv[1]))
    try:
        for line in sys.stdin:
            name, *args = json.loads(line)
            try:
                answer = [getattr(keeper, name)(*args), ""]
            except Exception as error:
                answer = [None, f"{type(error).__name__}: {error}"]
            out.write(json.dumps(answer) + "\n")
            out.flush()
    finally:
        keeper.end()
        os._exit(0)  # Ray would tidy up at length


if __name__ == "__main__":
    main()
