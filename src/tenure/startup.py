"""The stages of a start, so that a failure can say how far it came.

    connect    reach the store          check      compare the code's schedules with the stored
    migrate    create, upgrade tables   campaign   join the cluster       serve   execute

`error.stage` names the one that failed. The error itself says why and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tenure.backends.base import LeaseBackend
from tenure.errors import SchemaMismatch, TenureError
from tenure.facts import Facts, StartFailed, StartStage

STAGES = ("connect", "migrate", "check", "campaign", "serve")


Opened = TypeVar("Opened", bound=LeaseBackend)


class Stages:
    """Where a start has come to, told to whoever listens."""

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
            self._failed(name, error)
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

    def _failed(self, name: str, error: Exception) -> None:
        if isinstance(error, TenureError):
            error.stage = name
        error.add_note(f"Startup stopped at stage {name!r} of {', '.join(STAGES)}.")
        self._facts.tell(StartFailed(name, str(error) or type(error).__name__))
