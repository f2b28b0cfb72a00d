"""Server-sent events, from bytes as they come in to messages. https://html.spec.whatwg.org/multipage/server-sent-events.html"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: only these end a line; the other line ends of Unicode may stand inside of JSON
_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Message:
    id: str
    event: str
    data: str


class Messages:
    """`feed` it what arrives, in pieces of any size."""

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id  #: what to begin behind, after a broken connection
        self._rest = b""
        self._id = last_id  #: counts once its message is complete
        self._event = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Message]:
        self._rest += chunk
        # a \r at the very end may be the first half of \r\n
        end = len(self._rest) - self._rest.endswith(b"\r")
        *lines, rest = _LINE_END.split(self._rest[:end])
        self._rest = rest + self._rest[end:]
        for line in lines:
            message = self._line(line.decode("utf-8", "replace"))
            if message is not None:
                yield message

    def _line(self, line: str) -> Message | None:
        if not line:
            self.last_id = self._id
            message = Message(self.last_id, self._event or "message", "\n".join(self._data)) if self._data else None
            self._event, self._data = "", []
            return message
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None
