"""What nobody has is told: an empty answer would look like the truth. Each thing once."""

from __future__ import annotations

import logging

from tenure.backends.base import Backend, KnowsNamespaces
from tenure.schedules.known_names import on_record
from tenure.tasks.registry import Tasks

_logger = logging.getLogger("tenure.scheduler")


class Mistyped:
    """Of one scheduler."""

    def __init__(self, namespace: str, tasks: Tasks) -> None:
        self._namespace = namespace
        self._tasks = tasks
        self._told: set[str] = set()

    async def check_namespace(self, backend: Backend) -> None:
        """Nothing was found. If it is because nobody has this namespace, say so."""
        if not isinstance(backend, KnowsNamespaces) or "namespace" in self._told:
            return
        known = await backend.namespaces()
        if known and self._namespace not in known:
            self._told.add("namespace")
            _logger.warning(
                "namespace %r of %s has no schedules, and no node has run in it. There are: %s",
                *(self._namespace, backend.location, ", ".join(known[:10])),
            )

    async def check_task(self, backend: Backend, name: str | None) -> None:
        if name is None or name in self._tasks or await on_record(backend, task=name):
            return
        self._tell("task", name)

    async def check_tenant(self, backend: Backend, name: str | None) -> None:
        if name is not None and not await on_record(backend, tenant=name):
            self._tell("tenant", name)

    def _tell(self, what: str, name: str) -> None:
        about = f"{what} {name!r}"
        if about not in self._told and len(self._told) < 1_000:
            self._told.add(about)
            _logger.warning("no run and no schedule has the %s", about)
