"""A lease that this process holds, as user code sees it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tenure.errors import LeaseLost
from tenure.keeper import Held
from tenure.stores import fence_of

if TYPE_CHECKING:
    from tenure.locks import Leases


class Lease:
    """A lease that this process holds."""

    def __init__(self, leases: Leases, held: Held, *, here: bool = False) -> None:
        self._leases = leases
        self._held = held
        self._here = here
        """Nobody keeps it alive, so it can be given back on the calling thread."""
        self._pid = os.getpid()

    @property
    def name(self) -> str:
        return self._held.grant.name

    @property
    def term(self) -> int:
        """The fencing token: greater than that of every earlier holder."""
        return self._held.grant.term

    @property
    def holder(self) -> str:
        return self._held.grant.holder

    @property
    def inherited(self) -> bool:
        """Is this a forked child's copy of what its parent holds?"""
        return self._pid != os.getpid()

    @property
    def held(self) -> bool:
        """May it be trusted, at this instant?"""
        return not self.inherited and self._held.trusted

    @property
    def remaining(self) -> float:
        """Seconds for which it may be trusted without another renewal."""
        return 0.0 if self.inherited else self._held.remaining

    def check(self) -> None:
        """Raise `LeaseLost` unless it may be trusted, at this instant."""
        self._check_parent()
        if not self._held.trusted:
            why = self._held.over or "it was not renewed in time"
            raise LeaseLost(
                f"lease {self.name!r}, term {self.term}, can no longer be trusted: {why}."
                " Stop what it guards."
            )

    def renew(self) -> bool:
        """Prolong it by its ttl; False if it is somebody else's by now."""
        self._check_parent()
        return self._leases.call(self._renew())

    def release(self) -> bool:
        """Give it back; False if it was somebody else's by now."""
        self._check_parent()
        if self._here and self._held.over is None:
            local = self._leases.local()
            if local is not None:
                self._held.over = "released"
                return self._leases.release_here(local, self._held.grant)
        return self._leases.call(self.give_back())

    def fence(self, connection: Any) -> None:
        """Within your own transaction: raise `Fenced` if a newer term has written here.

        `connection` is your sqlite3 or psycopg connection, to a database that has Tenure's tables.
        The check and your writes commit together, or not at all.
        """
        fence_of(connection)(connection, self._leases.namespace, self.name, self.term, self.holder)

    def _check_parent(self) -> None:
        if self.inherited:
            raise LeaseLost(
                f"lease {self.name!r} belongs to the parent process {self._pid}; a forked child"
                " must acquire its own."
            )

    async def _renew(self) -> bool:
        connected = await self._leases.connected()
        begun = self._leases._clock.monotonic()
        renewed = await connected.backend.leases.renew([self._held.grant])
        if renewed:
            self._held.renewed(begun)
        else:
            self._held.over = "lost"
        return bool(renewed)

    async def give_back(self) -> bool:
        connected, grant = await self._leases.connected(), self._held.grant
        released = False
        try:
            released = await connected.keeper.release(self._held)
        finally:
            if not released:  # it may be somebody else's; or nobody has answered
                connected.unanswered.add(grant.name, grant.holder, grant.ttl)
        return released

    def __repr__(self) -> str:
        state = "held" if self.held else (self._held.over or "suspended")
        return f"<Lease {self.name!r} term={self.term} {state}>"
