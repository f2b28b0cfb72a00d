"""What the executor and a run's supervisor say to each other: one JSON object a packet, over a Unix socket.

To the supervisor: {"op": "stop" | "suspend"}, {"op": "continue", "rundir": …}; a "suspend" may name its "run", and is then not for
the one that goes on after it. From it, at once and at every change:
{"serves": the run it looks after, "state": the state of that run, or of one that it refused to go on as}.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct

from fairlead.backends.local.rundir import Doc

_LARGEST = 1 << 18


def _address(directory: int) -> str:
    """The path of a socket may have 107 characters; through the open directory it always fits."""
    return f"/proc/self/fd/{directory}/control.sock"


def listen(rundir: str) -> socket.socket:
    directory = os.open(rundir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink("control.sock", dir_fd=directory)
        sock.bind(_address(directory))
        os.chmod("control.sock", 0o600, dir_fd=directory)
        sock.listen(8)
        sock.setblocking(False)
    finally:
        os.close(directory)
    return sock


def connect(rundir: str) -> socket.socket:
    """Raises OSError where nobody listens."""
    directory = os.open(rundir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.connect(_address(directory))
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(directory)
    sock.setblocking(False)
    return sock


def is_trusted(sock: socket.socket) -> bool:
    """The same user as we, or root."""
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return uid in (0, os.geteuid())


def send(sock: socket.socket, message: Doc) -> bool:
    """False where the other side is gone or does not listen: it will connect again, and is told then."""
    try:
        sock.send(json.dumps(message).encode(), socket.MSG_NOSIGNAL)
    except OSError:
        return False
    return True


def receive(sock: socket.socket) -> Doc | None:
    """None when the other side is gone, {} when it has said nothing."""
    try:
        data = sock.recv(_LARGEST)
    except BlockingIOError:
        return {}
    except OSError:
        return None
    if not data:
        return None
    try:
        message = json.loads(data)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}
