"""How a relay delivers, and what it reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.errors import ConfigError
from tenure.model import HeldLane
from tenure.tasks.backoff import Backoff


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """How a relay delivers."""

    batch: int = 500
    window: int = 2_000
    """At most so many events are kept in memory."""
    tries: int = 10
    """How often an event is sent before it is parked."""
    skip: bool = False
    """Does the lane of a parked event go on without it?"""
    backoff: Backoff = field(
        default_factory=lambda: Backoff.exponential(5, factor=4, most=3_600, jitter=0.1)
    )
    stall: Backoff = field(
        default_factory=lambda: Backoff.exponential(0.5, factor=2, most=30, jitter=0.1)
    )
    most_lanes: int = 10_000
    """With so many lanes held, no new event is read until some are free again."""

    def __post_init__(self) -> None:
        for name in ("batch", "tries", "most_lanes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)!r}.")
        if self.window < self.batch:
            raise ConfigError(
                f"window must be at least batch: window={self.window}, batch={self.batch}."
            )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read from the log."""

    after: int
    room: int
    """So many events after that position, all topics."""
    lanes: tuple[tuple[HeldLane, int, int], ...]
    """For each, its events from its own position to this one, and at most so many."""
