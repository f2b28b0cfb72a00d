"""Forks supervisors, so that Python and its imports are loaded once and not once per run.

It gets the path of a run's directory and a socket for that run's supervisor, one packet each, and forks. It lives as long
as the executor that started it; the supervisors it has forked do not depend on it.
"""

from __future__ import annotations

import gc
import os
import signal
import socket

from fairlead.backends.local import procs
from fairlead.backends.local.supervise import supervise


def main() -> None:
    requests = socket.socket(fileno=os.dup(0))
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries supervisors that have ended
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # pages that nobody writes to stay shared with every supervisor
    while True:
        data, fds, _, _ = socket.recv_fds(requests, 4096, 1)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            try:
                gc.disable()
                os.setsid()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                requests.close()
                procs.set_name(b"fairlead-run")
                supervise(data.decode(), socket.socket(fileno=fds[0]) if fds else None)
            finally:
                os._exit(0)
        for fd in fds:
            os.close(fd)


if __name__ == "__main__":
    main()
