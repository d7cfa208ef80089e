"""Wake-ups within one process."""

from __future__ import annotations

from collections.abc import Callable


class MemoryWakeups:
    """Calls back at once, within this process."""

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callable[[], None]]] = {}

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        callbacks = self._callbacks.setdefault(topic, [])
        callbacks.append(callback)
        return lambda: callbacks.remove(callback)

    def send(self, topic: str) -> None:
        for callback in list(self._callbacks.get(topic, ())):
            callback()
