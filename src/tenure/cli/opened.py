"""A store that a command has opened, with its leases wherever they are. What changes it is put on
record (recording.py)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from tenure.backends.address import NOWHERE, Address
from tenure.backends.base import (
    AuditStore,
    Backend,
    Copies,
    EditionStore,
    EventStore,
    KnowsNamespaces,
    LeaseBackend,
    LeaseStore,
    RelayStore,
    RunStore,
    ScheduleStore,
    SummaryStore,
    Wakeups,
)
from tenure.backends.registry import called
from tenure.backends.urls import scheme_of
from tenure.cli.output import say
from tenure.cli.recording import recorded
from tenure.node.names import LEADER
from tenure.schedules.known_names import on_record

if TYPE_CHECKING:  # imported when they are used: commands that only look need no triggers
    from tenure.schedules.drafts import Drafts
    from tenure.schedules.editor import Editor


class Opened:
    """An open store, with its leases wherever they are. It may have nothing but leases."""

    def __init__(
        self, store: Backend | None, elsewhere: LeaseBackend | None, address: Address = NOWHERE
    ) -> None:
        self.address = address
        self._store = store
        self._for_leases = elsewhere or self._whole
        self._backends = [backend for backend in (store, elsewhere) if backend is not None]
        self._open: list[LeaseBackend] = []

    @property
    def _whole(self) -> Backend:
        if self._store is None:
            raise no_schedules(self.address)
        return self._store

    @property
    def leases(self) -> LeaseStore:
        return recorded("leases", self._for_leases.leases, self._store)

    @property
    def wakeups(self) -> Wakeups:
        return self._for_leases.wakeups

    def editor(self, drafts: Drafts | None = None) -> Editor:
        from tenure.schedules.drafts import Drafts
        from tenure.schedules.editor import Editor

        # Without --app there are no tasks: the command line changes what is stored, by its names.
        editor = Editor(self._whole, drafts or Drafts(), self.address)
        return recorded("editor", editor, self._store)

    @property
    def schedules(self) -> ScheduleStore:
        return self._whole.schedules

    @property
    def editions(self) -> EditionStore:
        return self._whole.editions

    @property
    def runs(self) -> RunStore:
        return recorded("runs", self._whole.runs, self._store)

    @property
    def events(self) -> EventStore:
        return recorded("events", self._whole.events, self._store)

    @property
    def relays(self) -> RelayStore:
        return recorded("relays", self._whole.relays, self._store)

    @property
    def audit(self) -> AuditStore:
        return self._whole.audit

    @property
    def summaries(self) -> SummaryStore:
        return self._whole.summaries

    @property
    def location(self) -> str:
        return (self._store or self._for_leases).location

    @property
    def leases_elsewhere(self) -> str | None:
        """Where the leases are, if not in the store itself."""
        return None if self._for_leases is self._store else self._for_leases.location

    @property
    def has_schedules(self) -> bool:
        return self._store is not None

    async def moved(self) -> str | None:
        """What `tenure copy` has done to this store, if it is not in use as usual."""
        store: object = self._store
        mark = await store.copy_mark() if isinstance(store, Copies) else None
        return mark.warning if mark is not None else None

    async def now(self) -> datetime:
        """By the clock that says what is due."""
        return await self._whole.now()

    async def lease_now(self) -> datetime:
        """By the clock that judges the leases."""
        return await self._for_leases.now()

    async def leases_unknown(self) -> str | None:
        """A hint, if a leader was in office whose lease was never here: then the nodes cannot be
        seen from here either."""
        if self.leases_elsewhere is not None or await self.leases.history(LEADER, limit=1):
            return None
        term = (await self.schedules.backlog(LEADER)).term
        if not term:
            return None
        return (
            f"Term {term} was in office, and its lease was never here: the scheduler keeps its"
            " leases elsewhere. Say where, with --leases redis://…"
        )

    async def tell_namespace(self) -> None:
        """Nothing was found. A namespace that was mistyped must not look like an empty one."""
        store: object = self._store or self._for_leases
        known = await store.namespaces() if isinstance(store, KnowsNamespaces) else []
        if known and self.address.namespace not in known:
            some = ", ".join(known[:10]) + (" …" if len(known) > 10 else "")
            which = f"namespace {self.address.namespace!r} of {self.location}"
            lacks = (
                "never had a lease"
                if self._store is None
                else "has no schedules, and no node has run in it"
            )
            say(
                f"Warning: {which} {lacks}. There are: {some}. Choose one with --namespace.",
                err=True,
            )

    async def tell_unknown(self, task: str | None, tenant: str | None) -> None:
        """Nothing was found. If nothing on record has that task or tenant, say so."""
        for what, name in (("task", task), ("tenant", tenant)):
            if name is not None and not await on_record(self._whole, **{what: name}):
                say(f"Warning: no run and no schedule has the {what} {name!r}.", err=True)

    async def open(self, *, migrate: bool = True) -> None:
        for backend in self._backends:
            await backend.open(migrate=migrate)
            self._open.append(backend)

    async def close(self) -> None:
        while self._open:
            await self._open.pop().close()


def no_schedules(at: Address) -> click.UsageError:
    scheme = scheme_of(at.url or "")
    return click.UsageError(
        f"{called(scheme)} holds leases here, not schedules. Two ways on: give the store of the"
        " schedules, --url postgresql://… or sqlite:///… (status, doctor and leases take"
        f" --leases {scheme}://… beside it); or ask about the leases alone:"
        f" {at.command('leases', 'list')}"
    )
