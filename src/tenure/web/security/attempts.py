"""How often a token may be wrong before wrong ones are answered with 429, and no longer logged."""

from __future__ import annotations

from tenure.process.clock import Clock

ALLOWED, ALLOWED_ALL = 5, 50
"""How many failures, from one address and from all together, within `WITHIN` seconds."""
WITHIN = 60.0
_ALL = "*"


class Attempts:
    """Failures of the last minute, by address."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: dict[str, list[float]] = {}

    def wait(self, peer: str) -> float:
        """How many seconds until this address may try again; 0: it may now."""
        return max(self._wait(peer, ALLOWED), self._wait(_ALL, ALLOWED_ALL))

    def failed(self, peer: str) -> None:
        now = self._clock.monotonic()
        self._failed = {
            key: recent
            for key, moments in self._failed.items()
            if (recent := [moment for moment in moments if moment > now - WITHIN])
        }
        for key in (peer, _ALL):
            self._failed.setdefault(key, []).append(now)

    def _wait(self, key: str, allowed: int) -> float:
        now = self._clock.monotonic()
        recent = [moment for moment in self._failed.get(key, []) if moment > now - WITHIN]
        return 0.0 if len(recent) < allowed else recent[-allowed] + WITHIN - now
