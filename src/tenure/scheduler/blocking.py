"""`async_scheduler.blocking`: the same scheduler for plain code beside coroutines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from tenure.errors import ConfigError
from tenure.scheduler.runtime import Runtime
from tenure.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from tenure.scheduler.base import BaseScheduler


class Blocking(Scheduler):
    """The methods of `Scheduler`, on the store, tasks and node of an `AsyncScheduler`.

    For plain functions, such as FastAPI's handlers without `async`, which run on threads. The
    `AsyncScheduler` alone is started and stopped.
    """

    def __init__(self, owner: BaseScheduler) -> None:
        self._owner = owner
        self.tasks = owner.tasks
        self.task = owner.task

    @property
    def _runtime(self) -> Runtime:  # type: ignore[override]
        """The owner's, which may be in a world for a while."""
        return self._owner._runtime

    def run(self) -> NoReturn:
        raise _refusal("run()")

    def start(self) -> NoReturn:
        raise _refusal("start()")

    def stop(self, grace: float | None = None) -> NoReturn:
        raise _refusal("stop()")

    def __enter__(self) -> NoReturn:
        raise _refusal("with scheduler.blocking")

    def configure(self, **given: Any) -> NoReturn:
        raise _refusal("configure()")


def _refusal(what: str) -> ConfigError:
    return ConfigError(
        f"{what}: `blocking` is for changes and questions. Start, stop and configure the"
        " AsyncScheduler that it belongs to."
    )
