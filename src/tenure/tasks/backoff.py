"""How long a run waits before its next attempt, and after which errors there is one.

Both belong to the code of a task, not to the schedule: the node that executes an attempt decides,
by its own code, and the store has the due time that comes of it. So a rollout needs no agreement.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

from tenure.errors import InvalidSchedule
from tenure.model import SECONDS_MOST
from tenure.tasks.arguments import seconds

BACKOFF_MOST = 300.0
"""Five minutes: the longest wait, unless told otherwise."""

Errors = type[BaseException] | Iterable[type[BaseException]]
EVERY: tuple[type[BaseException], ...] = (BaseException,)


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before each further attempt. Make one with `exponential`, `constant` or
    `steps`."""

    delays: tuple[float, ...]
    """In seconds, the first ones."""
    factor: float = 1.0
    """By how much each later one is longer than the one before."""
    most: float = SECONDS_MOST
    jitter: float = 0.0
    """The share of a delay that may be left out, so that many do not come back at once."""

    def __post_init__(self) -> None:
        if not self.delays:
            raise InvalidSchedule("a backoff of no steps: say how long, as Backoff.steps(1, 10).")
        for delay in self.delays:
            seconds("backoff", delay, zero=True)
        seconds("most", self.most, zero=True)
        _between("factor", self.factor, 1.0, 1_000.0)
        _between("jitter", self.jitter, 0.0, 1.0)

    @classmethod
    def exponential(
        cls, first: float, *, factor: float = 2.0, most: float = BACKOFF_MOST, jitter: float = 0.0
    ) -> Backoff:
        """`first`, and `factor` times longer after each failure, up to `most` seconds."""
        return cls((first,), factor, most, jitter)

    @classmethod
    def constant(cls, delay: float, *, jitter: float = 0.0) -> Backoff:
        """The same each time."""
        return cls((delay,), jitter=jitter)

    @classmethod
    def steps(cls, *delays: float, jitter: float = 0.0) -> Backoff:
        """One after the other, and then the last one each time."""
        return cls(delays, jitter=jitter)

    def delay(self, failures: int, key: object = "") -> float:
        """How long to wait, after so many failures before this one. The jitter is drawn from `key`:
        the same for the same run, on every node."""
        place = min(failures, len(self.delays) - 1)
        try:
            delay = self.delays[place] * float(self.factor) ** (failures - place)
        except OverflowError:
            delay = self.most
        drawn = crc32(f"{key}/{failures}".encode()) / 2**32
        return float(min(delay, self.most) * (1.0 - self.jitter * drawn))


@dataclass(frozen=True, slots=True)
class Retrying:
    """What a task says about its further attempts."""

    backoff: Backoff | None = None
    """None: as `Settings.backoff` says."""
    retry_on: tuple[type[BaseException], ...] = EVERY
    give_up_on: tuple[type[BaseException], ...] = ()

    @classmethod
    def parse(cls, what: str, backoff: object, retry_on: object, give_up_on: object) -> Retrying:
        """As it was given; refuses what is none."""
        if backoff is not None and not isinstance(backoff, Backoff):
            raise InvalidSchedule(
                f"{what}: backoff={backoff!r} is not a Backoff, such as Backoff.constant(5) or"
                " Backoff.exponential(1, most=60)."
            )
        on = EVERY if retry_on is None else _errors(what, "retry_on", retry_on)
        return cls(backoff, on, _errors(what, "give_up_on", give_up_on))

    def refusal(self, error: BaseException) -> str | None:
        """Why there is no other attempt after this error; None if there may be one."""
        if isinstance(error, self.give_up_on):
            return "give_up_on names it"
        return None if isinstance(error, self.retry_on) else "retry_on does not name it"


AS_SET = Retrying()
"""By the settings of the node, after every error."""


def _errors(what: str, name: str, given: object) -> tuple[type[BaseException], ...]:
    classes = tuple(given) if isinstance(given, Iterable) else (given,)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise InvalidSchedule(
                f"{what}: {name}={given!r} is not an exception class, or several of them, such as"
                f" {name}=(ConnectionError, TimeoutError)."
            )
    return classes


def _between(name: str, value: object, least: float, most: float) -> None:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else least - 1
    if not least <= number <= most:
        raise InvalidSchedule(f"{name}={value!r} must be a number from {least:g} to {most:g}.")
