"""A node's settings, checked when they are given."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from tenure.errors import ConfigError
from tenure.model import LONGEST_TTL
from tenure.printable import brief, nearest

P = ParamSpec("P")
T = TypeVar("T")
TTL_LIMITS = (0.5, LONGEST_TTL)
RESULT_LIMIT = 8_192
LENT_CONNECTIONS = 5
LENT_HOLD = 1.0
PAYLOAD_MOST = 1_000_000
"""In bytes. The tables refuse rows that are not much longer: all that is due is read at once."""
EVENT_LIMIT = 65_536
"""So many bytes every carrier of CloudEvents passes on."""
EVENT_MOST = 900_000
"""In bytes. With key and headers that fits into the tables, and into Kafka's 1,000,000."""
_POSITIVE = (
    "batch",
    "poll",
    "hint_every",
    "idle_poll",
    "reap_every",
    "rollout_poll",
    "payload_limit",
    "result_limit",
    "event_limit",
    "jump_limit",
    "jump_hold",
    "skew_limit",
)
_MOST = {"payload_limit": PAYLOAD_MOST, "result_limit": PAYLOAD_MOST, "event_limit": EVENT_MOST}


@dataclass(frozen=True, slots=True)
class Settings:
    """How a node behaves. All durations are in seconds."""

    if not TYPE_CHECKING:  # type checkers know the fields

        def __new__(cls, *args: Any, **given: Any) -> Self:
            check_keywords("Settings", given, cls.__dataclass_fields__)
            return object.__new__(cls)

    ttl: float = 15.0
    """How long a lease lives without a renewal: the takeover time where no hint helps."""
    heartbeat: float | None = None
    """How often leases are renewed; ttl/5 unless given."""
    margin: float | None = None
    """How much earlier than the store a holder gives up; ttl/20 unless given."""
    concurrency: int = 20
    """How many runs this node executes at a time. 0: it only schedules."""
    queues: tuple[str, ...] = ()
    """The queues whose tasks this node executes. Empty: all of them."""
    lent_connections: int | None = None
    """How many connections transactional tasks have at a time, on PostgreSQL, and so many more the
    consumers; 5 unless given, or `concurrency` if that is less."""
    leads: bool = True
    """May this node lead? False: it only executes."""
    batch: int = 1_000
    """How many due schedules one firing transaction takes."""
    poll: float = 1.0
    """How often a standby looks at a leadership that has not been renewed for ttl/2; before that it
    looks every ttl/3 or 5 s. Wake-ups and hints make it faster."""
    hint_every: float = 0.1
    """How often a deputy looks for a hint that the leader died, where it is not told. The leader
    looks five times as rarely whether others are proven dead."""
    idle_poll: float = 5.0
    """How often leader and workers look for work without having been woken."""
    reap_every: float = 2.0
    """How often the leader looks for runs of dead nodes."""
    rollout_poll: float = 5.0
    """How often the leader lists the nodes, and how often each looks at what it made known: have
    nodes of other editions come or gone?"""
    rollout_grace: float = 15.0
    """How long the last nodes of an edition may be away, restarting perhaps, before an older
    definition returns, and before what nobody declares is orphaned."""
    grace: float = 30.0
    """How long a polite stop waits for running tasks."""
    retention: float = 7 * 86_400.0
    """How long finished runs, occurrences and lease history are kept."""
    max_crashes: int = 3
    """How many crashed nodes a run survives before it is recorded as lost."""
    backoff: float = 1.0
    """The wait before the first retry; doubled each time, up to 5 minutes."""
    payload_limit: int = 262_144
    """The longest JSON text of keyword arguments, in bytes."""
    result_limit: int = RESULT_LIMIT
    """The longest JSON text of what a task returns that is kept, in bytes."""
    event_limit: int = EVENT_LIMIT
    """The longest JSON text of an event's data, in bytes."""
    jump_limit: float = 60.0
    """A jump of the store's clock beyond this is held back until it is confirmed."""
    jump_hold: float = 30.0
    """How long a jump must last to be believed."""
    skew_limit: float = 2.0
    """A greater difference between this node's clock and the store's is told as a warning."""

    def __post_init__(self) -> None:
        check_ttl(self.ttl)
        object.__setattr__(self, "queues", check_queues(self.queues))
        if not isinstance(self.leads, bool):
            raise ConfigError(f"leads must be True or False, not {self.leads!r}.")
        check_heartbeat(self.renew_every, self.ttl)
        if not 0 < self.safety <= self.ttl / 3:
            raise ConfigError(
                f"margin must satisfy 0 < margin <= ttl/3: margin={self.safety:g},"
                f" ttl/3={self.ttl / 3:g}. Raise ttl or lower margin."
            )
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be greater than 0, not {getattr(self, name)!r}.")
        if self.lent_connections is not None and self.lent_connections <= 0:
            raise ConfigError(
                f"lent_connections must be greater than 0, not {self.lent_connections!r}."
            )
        for name, most in _MOST.items():
            if getattr(self, name) > most:
                raise ConfigError(
                    f"{name} must be at most {most}, not {getattr(self, name)!r}: a store"
                    " takes no more. Store the data elsewhere and pass its key."
                )
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

    def executes(self, queue: str) -> bool:
        """Does this node execute the tasks of this queue?"""
        return self.concurrency > 0 and (not self.queues or queue in self.queues)

    @property
    def renew_every(self) -> float:
        return self.ttl / 5 if self.heartbeat is None else self.heartbeat

    @property
    def safety(self) -> float:
        return self.ttl / 20 if self.margin is None else self.margin

    @property
    def lent(self) -> int:
        """How many connections transactional tasks have at a time."""
        return self.lent_connections or max(1, min(self.concurrency, LENT_CONNECTIONS))

    @property
    def lent_hold(self) -> float:
        """How long a transactional task may keep all others from writing, where a store has one
        writer: a heartbeat that waits for it still comes in time."""
        return min(LENT_HOLD, self.ttl / 5)

    @property
    def call_timeout(self) -> float:
        """No call to a store may take longer: a hung one must leave time for another try."""
        return self.ttl / 3

    @property
    def transaction_limit(self) -> float:
        """The store ends a transaction before its caller stops waiting for it."""
        return 0.9 * self.call_timeout


def check_keywords(what: str, given: Iterable[str], *known: Iterable[str]) -> None:
    """Refuse arguments that do not exist, and name those that do: Python names its function."""
    names = [name for some in known for name in some]
    for name in given:
        if name not in names:
            raise ConfigError(
                f"{what}() takes no argument {name!r}.{nearest(name, names)} It takes"
                f" {', '.join(names)}."
            )


def named_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Let a public function refuse keyword arguments that it does not have in these words."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    known = [name for name in names if name != "self"]

    @functools.wraps(function)
    def called(*args: P.args, **given: P.kwargs) -> T:
        check_keywords(function.__name__, given, known)
        return function(*args, **given)

    return called


def check_ttl(ttl: float) -> None:
    low, high = TTL_LIMITS
    if not is_number(ttl) or not low <= ttl <= high:
        raise ConfigError(f"ttl must be between {low:g} and {high:g} seconds, not {ttl!r}.")


def check_heartbeat(heartbeat: float, ttl: float) -> None:
    if not is_number(heartbeat):
        raise ConfigError(f"heartbeat must be a number of seconds, not {brief(heartbeat)}.")
    if not 0 < heartbeat <= ttl / 3:
        raise ConfigError(
            f"heartbeat must satisfy 0 < heartbeat <= ttl/3, so that two renewals may fail"
            f" before the lease does: heartbeat={heartbeat:g}, ttl/3={ttl / 3:g}."
            f" Raise ttl or lower heartbeat."
        )


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_queues(queues: Iterable[str]) -> tuple[str, ...]:
    if isinstance(queues, str):
        raise ConfigError(f"queues is a list of names, not one: write queues=[{queues!r}].")
    return tuple(dict.fromkeys(check_queue(name) for name in queues))


def check_queue(name: object) -> str:
    if not isinstance(name, str) or not name or len(name) > 200 or not name.isprintable():
        raise ConfigError(f"queues: a name is 1 to 200 printable characters, not {brief(name)}.")
    return name
