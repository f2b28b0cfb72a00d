"""Taking the port, before anything else is touched; and who has it, where somebody does."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from pathlib import Path

from fairlead.model.errors import InputError
from fairlead.server.config import Config

_BACKLOG = 1024


def listen(config: Config) -> socket.socket:
    """A socket that listens: connections wait in it until they are served."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            config.bind, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise InputError(
            f"this is no address to listen on: {error.strerror}",
            file=config.sources.get("bind"),
            value=config.bind,
            accepts="an address of this machine, such as 127.0.0.1",
        ) from None
    found = socket.socket(family, kind, protocol)
    try:
        # a port whose last connections are still closing is free
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(_BACKLOG)
        found.setblocking(False)
    except OSError as error:
        found.close()
        raise _refused(error, config) from None
    return found


def _refused(error: OSError, config: Config) -> InputError:
    where = config.sources.get("port")
    if error.errno == errno.EADDRINUSE:
        who = holder(config.port)
        return InputError(
            f"port {config.port} is taken{f' by {who}' if who else ' by another program'}",
            file=where,
            accepts=f"another port (--port {config.port + 1 if config.port < 65535 else 7878}), or 0 for any that is free",
        )
    if error.errno == errno.EACCES:
        return InputError(f"port {config.port} needs root", file=where, accepts="a port above 1023")
    if error.errno == errno.EADDRNOTAVAIL:
        return InputError(
            "this machine has no such address", file=config.sources.get("bind"), value=config.bind, accepts="127.0.0.1"
        )
    return InputError(f"listening on {config.bind} port {config.port} failed: {error.strerror}", file=where)


def url_of(config: Config, listening: socket.socket) -> str:
    """With the port that it really is, where any would do."""
    from dataclasses import replace

    return replace(config, server=None, port=listening.getsockname()[1]).server_url


def check_certificate(config: Config) -> None:
    if config.tls_cert is None or config.tls_key is None:
        return
    for path in (config.tls_cert, config.tls_key):
        if not path.is_file():
            raise InputError("there is no such file", file=str(path), accepts="a file in PEM")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(config.tls_cert, config.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"this certificate and its key can't be used: {error}",
            file=f"{config.tls_cert}, {config.tls_key}",
            accepts="a certificate and its key without a password, in PEM",
        ) from None


def holder(port: int) -> str:
    """`python3 (pid 812)` for who listens on a port of this machine; "" where that can't be seen."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(file) in sockets for file in (process / "fd").iterdir()):
                name = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
                return f"{name} (pid {process.name})"
        except OSError:  # somebody else's, or gone
            continue
    return ""


def _inodes(port: int) -> set[str]:
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found
