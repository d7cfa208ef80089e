"""Options of a task's code. Unlike policies they are not stored with schedules and runs: each node
follows its own code. For `max_running` and `on_failure` that would not do: there all nodes follow
the newest live edition (node/rollout.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenure.errors import InvalidSchedule
from tenure.printable import brief
from tenure.tasks.arguments import NUMBER_MOST, check_name, whole
from tenure.tasks.backoff import AS_SET, Backoff, Errors, Retrying

DEFAULT_QUEUE = "default"
_NO_LIMIT = (
    "; without one there is no limit. To let its runs wait, pause its schedules, or let no node"
    " execute its queue"
)


@dataclass(frozen=True, slots=True)
class Options:
    """How a task is executed, whatever its schedule."""

    queue: str = DEFAULT_QUEUE
    """Nodes may be told to execute only the tasks of some queues."""
    keep_result: bool = True
    """Whether what it returns is kept."""
    retrying: Retrying = AS_SET
    transactional: bool = False
    """Whether it gets a connection, on which its effects and its run commit together."""
    max_running: int | None = None
    """At most so many of its runs are claimed at a time, by all nodes together."""
    on_failure: str | Callable[..., Any] | None = None
    """The task that is told when a run has failed or is lost for good."""
    isolate: bool = False
    """Whether it is executed in a process of its own, which is killed at its timeout."""
    memory_mb: int | None = None
    """How much memory that process may take, in MiB of address space."""

    @classmethod
    def names(cls) -> list[str]:
        """As users give them."""
        return list(cls._of.__kwdefaults__ or ())

    @classmethod
    def parse(cls, what: str, given: Mapping[str, Any]) -> Options:
        return cls._of(what, **given) if given else _DEFAULT

    @classmethod
    def _of(
        cls,
        what: str,
        *,
        queue: str = DEFAULT_QUEUE,
        keep_result: bool = True,
        backoff: Backoff | None = None,
        retry_on: Errors | None = None,
        give_up_on: Errors = (),
        transactional: bool = False,
        max_running: object = None,
        on_failure: object = None,
        isolate: bool = False,
        memory_mb: int | None = None,
    ) -> Options:
        if isolate and transactional:
            raise InvalidSchedule(
                f"{what}: isolate=True has a process of its own, and transactional=True needs a"
                " connection of this one. Choose one of them."
            )
        return cls(
            queue=check_name(queue, "queue"),
            keep_result=_yes_or_no(what, "keep_result", keep_result),
            retrying=Retrying.parse(what, backoff, retry_on, give_up_on),
            transactional=_yes_or_no(what, "transactional", transactional),
            max_running=None
            if max_running is None
            else whole("max_running", max_running, 1, NUMBER_MOST, _NO_LIMIT),
            on_failure=_task(what, on_failure),
            isolate=_yes_or_no(what, "isolate", isolate),
            memory_mb=_memory(what, memory_mb, isolate),
        )


_DEFAULT = Options()
MEMORY_LEAST = 128
"""MiB: with 96 a process cannot even import Tenure, with 112 it can."""
MEMORY_MOST = 1 << 30


def _task(what: str, given: object) -> str | Callable[..., Any] | None:
    if given is None or isinstance(given, str) or callable(given):
        return given
    raise InvalidSchedule(
        f"{what}: on_failure={brief(given)} must be a task: its function or name."
    )


def _yes_or_no(what: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidSchedule(f"{what}: {name}={brief(value)} must be True or False.")
    return value


def _memory(what: str, megabytes: object, isolate: bool) -> int | None:
    if megabytes is None:
        return None
    if not isolate:
        raise InvalidSchedule(
            f"{what}: memory_mb={brief(megabytes)} limits a process of its own, and it has none:"
            " give isolate=True as well."
        )
    number = isinstance(megabytes, int) and not isinstance(megabytes, bool)
    if not number or not MEMORY_LEAST <= megabytes <= MEMORY_MOST:  # type: ignore[operator]
        raise InvalidSchedule(
            f"{what}: memory_mb={brief(megabytes)} must be a whole number of megabytes, at least"
            f" {MEMORY_LEAST}, such as 512."
        )
    return megabytes  # type: ignore[return-value]
