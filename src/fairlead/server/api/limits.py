"""How much and how often: a body is counted as it comes in, a token may ask so many times a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import Message, Receive, Scope

from fairlead.server.api.problems import Malformed, TooLarge, TooMany
from fairlead.server.auth import RateLimiter
from fairlead.server.config import Config

#: event streams and followed logs that one token may have open
MOST_STREAMS = 64


def header(scope: Scope, name: bytes) -> str | None:
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return None


def limited_body(scope: Scope, receive: Receive, most: int) -> Receive:
    """`receive` for the application. Whoever announces too much is refused before anything of it is read."""
    told = header(scope, b"content-length")
    if told is not None:
        # the server has refused what is no number; without one we would just count
        if not (told.isascii() and told.isdigit()):
            raise Malformed("the length of the body is no number")
        if int(told) > most:
            raise TooLarge(f"the request has {int(told):,} bytes; at most {most:,} are read")
    got = 0

    async def counted() -> Message:
        nonlocal got
        message = await receive()
        got += len(message.get("body", b""))
        if got > most:
            raise TooLarge(f"the request has more than the {most:,} bytes that are read")
        return message

    return counted


class Rates:
    def __init__(self, config: Config, now: Callable[[], float]) -> None:
        self._limiter = RateLimiter(config.request_rate, config.request_burst, now)
        self._streams: Counter[str] = Counter()

    def pay(self, key: str) -> None:
        wait_s = self._limiter.wait_s(key)
        if wait_s:
            raise TooMany(f"too many requests; there is room for another in {wait_s:.3g} s", wait_s)

    def may_stream(self, token_id: str) -> None:
        """Before a stream is answered at all; `streaming` counts it."""
        if self._streams[token_id] >= MOST_STREAMS:
            raise TooMany(f"a token may have {MOST_STREAMS} streams open at once; close one first", 5.0)

    @contextmanager
    def streaming(self, token_id: str) -> Iterator[None]:
        self._streams[token_id] += 1
        try:
            yield
        finally:
            self._streams[token_id] -= 1
            if not self._streams[token_id]:
                del self._streams[token_id]
