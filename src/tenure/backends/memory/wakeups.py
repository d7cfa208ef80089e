"""Wake-ups within one process."""

from __future__ import annotations

from collections.abc import Callable

from tenure.backends.shared.callbacks import Callbacks


class MemoryWakeups:
    """Calls back at once, within this process."""

    def __init__(self) -> None:
        self._callbacks = Callbacks()

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        return self._callbacks.subscribe(topic, callback)

    def send(self, topic: str) -> None:
        self._callbacks.call(topic)
