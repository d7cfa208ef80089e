"""How a lease is kept: its ttl, how often it is renewed, and for how long at most."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.errors import ConfigError
from tenure.model import Grant
from tenure.node.keeper import Held
from tenure.printable import brief
from tenure.process.clock import Clock
from tenure.settings import check_heartbeat, check_ttl, is_number


@dataclass(frozen=True, slots=True)
class Keeping:
    """Checked when it is made. All in seconds."""

    ttl: float
    heartbeat: float | None = None
    """How often it is renewed; ttl/5 unless given."""
    max_time: float | None = None
    """How long its work may take: it is kept no longer than that."""

    def __post_init__(self) -> None:
        check_ttl(self.ttl)
        if self.heartbeat is not None:
            check_heartbeat(self.heartbeat, self.ttl)
        limit = self.max_time
        if limit is not None and not (is_number(limit) and 0 < limit < float("inf")):
            raise ConfigError(
                f"max_time must be a number of seconds greater than 0, not {brief(limit)}; leave it"
                " out if the work may take any time."
            )

    def hold(self, grant: Grant, clock: Clock, begun: float) -> Held:
        return Held(grant, clock, begun, heartbeat=self.heartbeat, max_time=self.max_time)


def unkept(ttl: float, max_time: float | None) -> Keeping:
    """Of a lease that nobody renews: the work must come to its end within the ttl."""
    keeping = Keeping(ttl, max_time=max_time)
    if max_time is not None and max_time >= ttl:
        raise ConfigError(
            "max_time must satisfy max_time < ttl for a lease that is not kept alive:"
            f" max_time={max_time:g}, ttl={ttl:g}. Raise ttl, lower max_time, or use hold(), which"
            " renews the lease while the work runs."
        )
    return keeping
