"""The numbers of a node, checked when they are given."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.errors import ConfigError

TTL_LIMITS = (0.5, 86_400.0)
_POSITIVE = (
    "batch",
    "poll",
    "hint_every",
    "idle_poll",
    "reap_every",
    "rollout_poll",
    "payload_limit",
    "jump_limit",
    "jump_hold",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """How a node behaves. All durations are seconds."""

    ttl: float = 15.0
    """How long a lease lives without a renewal: the takeover time where no hint helps."""
    heartbeat: float | None = None
    """How often leases are renewed; ttl/5 unless given."""
    margin: float | None = None
    """How much earlier than the store a holder gives up; ttl/20 unless given."""
    concurrency: int = 20
    """How many runs this node executes at a time. 0: it only schedules."""
    batch: int = 1_000
    """How many due schedules one firing transaction takes."""
    poll: float = 1.0
    """How often a standby looks at the leadership. Wake-ups and hints make it faster."""
    hint_every: float = 0.1
    """How often a standby looks for a hint that the leader died."""
    idle_poll: float = 5.0
    """How often leader and workers look for work without having been woken."""
    reap_every: float = 2.0
    """How often the leader looks for runs of dead nodes."""
    rollout_poll: float = 5.0
    """How often a node looks for nodes of other releases that came or went; while none do, four
    times less often."""
    rollout_grace: float = 15.0
    """How long the last nodes of a release may be away, restarting perhaps, before an older
    definition returns, and before what nobody declares is orphaned."""
    grace: float = 30.0
    """How long a polite stop waits for running tasks."""
    retention: float = 7 * 86_400.0
    """How long finished runs, occurrences and lease history are kept."""
    max_crashes: int = 3
    """How many crashed nodes a run survives before it is recorded as lost."""
    backoff: float = 1.0
    """The wait before the first retry; doubled each time, 5 minutes at the most."""
    payload_limit: int = 262_144
    """The longest JSON text of keyword arguments, in bytes."""
    jump_limit: float = 60.0
    """A jump of the store's clock beyond this is held back until it is confirmed."""
    jump_hold: float = 30.0
    """How long a jump must last to be believed."""

    def __post_init__(self) -> None:
        check_ttl(self.ttl)
        if not 0 < self.renew_every <= self.ttl / 3:
            raise ConfigError(
                f"heartbeat must satisfy 0 < heartbeat <= ttl/3, so that two renewals may fail"
                f" before the lease does: heartbeat={self.renew_every:g}, ttl/3={self.ttl / 3:g}."
                f" Raise ttl or lower heartbeat."
            )
        if not 0 < self.safety <= self.ttl / 3:
            raise ConfigError(
                f"margin must satisfy 0 < margin <= ttl/3: margin={self.safety:g},"
                f" ttl/3={self.ttl / 3:g}. Raise ttl or lower margin."
            )
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be greater than 0, not {getattr(self, name)!r}.")
        for name in (
            "concurrency",
            "grace",
            "retention",
            "max_crashes",
            "backoff",
            "rollout_grace",
        ):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative: {getattr(self, name)!r}.")

    @property
    def renew_every(self) -> float:
        return self.ttl / 5 if self.heartbeat is None else self.heartbeat

    @property
    def safety(self) -> float:
        return self.ttl / 20 if self.margin is None else self.margin

    @property
    def call_timeout(self) -> float:
        """No call to a store may take longer: a hung one must leave time for another try."""
        return self.ttl / 3

    @property
    def transaction_limit(self) -> float:
        """The store ends a transaction before its caller stops waiting for it."""
        return 0.9 * self.call_timeout


def check_ttl(ttl: float) -> None:
    low, high = TTL_LIMITS
    if not low <= ttl <= high:
        raise ConfigError(f"ttl must be between {low:g} and {high:g} seconds, not {ttl!r}.")
