"""A backend object opens once: its connections and threads end with it."""

from __future__ import annotations

from tenure.errors import StoreError


class Once:
    """Remembers whether a backend was opened."""

    def __init__(self) -> None:
        self._used = False

    def begin(self, location: str) -> None:
        """Call this first in `open`. Raises `StoreError` if it was called before."""
        if self._used:
            raise StoreError(
                f"this backend object for {location} was opened before, and is opened only once."
                " Make another one."
            )
        self._used = True
