"""What a relay delivers, where to, and how: as its user says it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tenure.errors import ConfigError
from tenure.events.progress import DeliveryPolicy
from tenure.events.sinks.base import Sink, SinkPlace
from tenure.events.sinks.urls import scheme_of, shown
from tenure.printable import brief
from tenure.process.clock import Clock, SystemClock
from tenure.tasks.event_checks import check_topic

BATCH, BATCH_MOST = 1_000, 10_000
TRIES_MOST = 1_000
NAME_MOST = 100
WINDOWS = 2
"""At most so many batches are kept in memory."""


@dataclass(frozen=True, slots=True)
class Relay:
    """Delivers events to a sink: `Relay("kafka://broker:9092", topics=["ledger"])`.

    It is checked at once; nothing is connected. Processes that name the same relay take turns: one
    of them delivers, and if it dies another goes on.
    """

    url: str = field(repr=False)
    """The sink: docs/sinks.md. It may have a password, and is never shown."""
    topics: Sequence[str] = ()
    """Which topics; by default all."""
    name: str = ""
    """The name under which its progress is stored; by default the scheme of the URL."""
    tries: int = 10
    """How often an event is sent before it is parked."""
    skip: bool = False
    """When an event is parked, do later ones of its key go on?"""
    from_now: bool = False
    """Does a new relay begin with the events to come, and not with the oldest that is kept?"""
    batch: int = BATCH
    """How many events are sent at a time."""
    allow_http: bool = False
    """May events go over connections that are not encrypted?"""
    allow_private: bool = False
    """May a web address lead into a private network, or to this machine?"""

    def __post_init__(self) -> None:
        if isinstance(self.topics, str):
            raise ConfigError(f"topics is a list of names, not one: topics=[{self.topics!r}].")
        topics = tuple(dict.fromkeys(check_topic(topic) for topic in self.topics))
        self._parse(SystemClock())
        name = self.name or scheme_of(self.url).partition("+")[0]
        if len(name) > NAME_MOST or not name.isprintable():
            raise ConfigError(
                f"a relay's name is 1 to {NAME_MOST} printable characters, not {brief(name)}."
            )
        for limit, most in (("tries", TRIES_MOST), ("batch", BATCH_MOST)):
            given = getattr(self, limit)
            if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= most:
                raise ConfigError(f"{limit} must be between 1 and {most:,}, not {brief(given)}.")
        object.__setattr__(self, "topics", topics)
        object.__setattr__(self, "name", name)

    @property
    def location(self) -> str:
        """Where it delivers to, for people."""
        return shown(self.url)

    @property
    def policy(self) -> DeliveryPolicy:
        return DeliveryPolicy(
            batch=self.batch, window=WINDOWS * self.batch, tries=self.tries, skip=self.skip
        )

    def sink(self, clock: Clock) -> Sink:
        """Its sink, not open. Imports the driver: `ConfigError` if that is missing."""
        return self._parse(clock)()

    def _parse(self, clock: Clock) -> Callable[[], Sink]:
        from tenure.events.sinks.registry import parse  # most schedulers have no relays

        return parse(SinkPlace(self.url, clock, self.allow_http, self.allow_private))


def check_relays(relays: Sequence[Relay]) -> tuple[Relay, ...]:
    """The relays of one process: none twice."""
    for relay in relays:
        if not isinstance(relay, Relay):
            raise ConfigError(
                f"relays= takes Relay(…) objects, not {type(relay).__name__}: write"
                ' relays=[Relay("kafka://…")].'
            )
        if sum(relay.name == other.name for other in relays) > 1:
            raise ConfigError(
                f"two relays are named {relay.name!r}: give each a name=… of its own."
            )
    return tuple(relays)
