"""The stages of a start, so that a failure can say how far it came.

    workers    no more than allowed     check      compare the code's schedules with the stored
    connect    reach the store          campaign   join the cluster
    migrate    create, upgrade tables   serve      execute

`error.stage` names the one that failed. The error itself says why and what to do. An application
may have stages of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tenure.backends.base import LeaseBackend
from tenure.errors import STAGES, ConfigError, SchemaMismatch, mark
from tenure.facts import Facts, StartFailed, StartStage
from tenure.printable import brief

Opened = TypeVar("Opened", bound=LeaseBackend)


class Stages:
    """Reports how far a start has come."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def reached(self, name: str) -> None:
        self._facts.tell(StartStage(name))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.reached(name)
        try:
            yield
        except Exception as error:
            self.failed(name, error)
            raise

    async def open(self, make: Callable[[], Opened], *, migrate: bool) -> Opened:
        """Connect to a store and, if that is needed and wanted, bring its tables up to date."""
        with self.stage("connect"):
            backend = make()
            behind = False
            try:
                await backend.open(migrate=False)
            except SchemaMismatch:
                behind = True
        with self.stage("migrate"):
            if behind:
                backend = make()
                await backend.open(migrate=migrate)
        return backend

    def failed(self, name: str, error: Exception) -> None:
        mark(error, name)
        self._facts.tell(StartFailed(name, str(error) or type(error).__name__))


def own_stage(name: object) -> str:
    """The name of a stage of the application's own."""
    if not isinstance(name, str) or not name or len(name) > 100 or not name.isprintable():
        raise ConfigError(f"a stage's name is 1 to 100 printable characters, not {brief(name)}.")
    if name in STAGES:
        raise ConfigError(f"{name!r} is a stage of Tenure's own: choose another name.")
    return name
