"""Looks after one node's part of a run on Ray: `python -m fairlead.backends.ray.supervise RUNDIR FD`.

It is the supervisor of local runs with one difference: it and everything below it die with the Ray actor at the other end of
the socket FD. The actor holds the GPUs in Ray's books, so a process that outlived it would use GPUs that Ray has given to
somebody else, and a job that Ray has lost could run twice.
"""

from __future__ import annotations

import os
import socket
import sys
from functools import partial

from fairlead.backends.local import procs
from fairlead.backends.local.logs import Pump
from fairlead.backends.local.supervise import Supervisor, supervise


class TiedSupervisor(Supervisor):
    def _listen(self) -> None:
        """Nobody but its actor talks to it."""
        self.listener = socket.socket(socket.AF_UNIX)

    def _drop(self, sock: socket.socket) -> None:
        super()._drop(sock)
        if not self.controllers and not self.is_over:
            self.note = "its Ray actor is gone, so its processes were ended"
            if self.why not in ("stop", "start"):
                self.why = "shutdown"
            self._kill()

    def _pump_output(self) -> None:
        """Ranks are counted over all nodes."""
        first, several = self.order["first_rank"], self.order["world"] > 1
        self.pumps = [
            Pump(rank.out, self.log, f"[{first + rank.number}] " if several else "") for rank in self.gang.ranks
        ]
        for pump in self.pumps:
            self._watch(pump.fd, partial(self._pump, pump))


def main() -> None:
    """Forked once more, away from the actor's process: Ray kills the children of a worker that exits, and a supervisor that
    is killed can't end what the job's programs have started."""
    controller = socket.socket(fileno=int(sys.argv[2]))
    if os.fork():
        os._exit(0)
    os.setsid()
    procs.set_name(b"fairlead-run")
    supervise(os.path.abspath(sys.argv[1]), controller, TiedSupervisor)


if __name__ == "__main__":
    main()
