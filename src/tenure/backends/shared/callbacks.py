"""Callbacks by topic: what the wake-ups of all backends have in common."""

from __future__ import annotations

from collections.abc import Callable


class Callbacks:
    """Callbacks by topic."""

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callable[[], None]]] = {}

    @property
    def topics(self) -> list[str]:
        return list(self._callbacks)

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back on this topic; call the result to stop."""
        self._callbacks.setdefault(topic, []).append(callback)

        def unsubscribe() -> None:
            callbacks = self._callbacks.get(topic, [])
            if callback in callbacks:
                callbacks.remove(callback)
            if not callbacks:
                self._callbacks.pop(topic, None)

        return unsubscribe

    def call(self, topic: str) -> None:
        for callback in list(self._callbacks.get(topic, ())):
            callback()

    def call_all(self) -> None:
        for topic in self.topics:
            self.call(topic)
