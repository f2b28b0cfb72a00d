"""Nodes that take no jobs, and by whose word: our own people's, the executor's, or both. Either alone keeps a node closed."""

from __future__ import annotations

from fairlead.runtime.live import LiveCore


class Closed:
    def __init__(self, core: LiveCore, drained: set[str], down: dict[str, str]) -> None:
        self._core = core
        self._numbers = {node.name: number for number, node in enumerate(core.spec.nodes)}
        self.drained = drained
        self.down = down  #: and why; it outlives this, since an executor tells such a thing once

    def drain(self, name: str, now: float) -> None:
        self.drained.add(name)
        self._set(name, now)

    def undrain(self, name: str, now: float) -> None:
        self.drained.discard(name)
        self._set(name, now)

    def goes_down(self, name: str, why: str, now: float) -> None:
        self.down[name] = why
        self._set(name, now)

    def comes_up(self, name: str, now: float) -> None:
        self.down.pop(name, None)
        self._set(name, now)

    def _set(self, name: str, now: float) -> None:
        number, closed = self._numbers[name], name in self.drained or name in self.down
        if closed and number not in self._core.closed():
            self._core.close_node(number, now)
        elif not closed and number in self._core.closed():
            self._core.open_node(number, now)
