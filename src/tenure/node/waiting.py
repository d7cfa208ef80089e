"""Waiting for a wake-up without missing one: register, look once more, then sleep.

That look sees what was committed before it; a process that commits later finds the registration. A
service that has enough to do does not wait, so that wake-ups go to others.
"""

from __future__ import annotations

from collections.abc import Callable

Subscribe = Callable[[], Callable[[], None]]
"""Registers for wake-ups; call the result to stop."""


class Waiting:
    """Whether a service waits for wake-ups."""

    def __init__(self, subscribe: Subscribe) -> None:
        self._subscribe = subscribe
        self._unsubscribe: Callable[[], None] | None = None

    def begin(self) -> bool:
        """Wait from now on. True if that is new: look once more before you sleep."""
        if self._unsubscribe is not None:
            return False
        self._unsubscribe = self._subscribe()
        return True

    def end(self) -> None:
        """Stop waiting."""
        unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            unsubscribe()


def nobody() -> Callable[[], None]:
    """A `Subscribe` that registers nowhere, for a service that only polls."""
    return lambda: None
