"""A connection that can break: everything passes through, until it is cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Wire:
    """Listens on a port of its own and passes on to another. `cut` ends all connections; `deaf` answers are not passed on:
    the connection breaks instead, after the scheduler has acted."""

    def __init__(self, port: int) -> None:
        self.deaf = 0  #: so many answers will be lost
        self.connections = 0
        self._to = port
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                with self._lock:
                    self.connections += 1
                    self._open |= {near, far}
                for pair in ((near, far, False), (far, near, True)):
                    thread = threading.Thread(target=self._pass, args=pair, daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _pass(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if is_answer and self.deaf > 0:
                    self.deaf -= 1
                    break
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()
        for thread in self._threads:
            thread.join(5)
        for one in self._open:
            one.close()


@contextlib.contextmanager
def wire(url: str) -> Iterator[Wire]:
    made = Wire(int(url.rpartition(":")[2]))
    try:
        yield made
    finally:
        made.close()
