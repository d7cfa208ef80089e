"""A lease that this process holds, as user code sees it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tenure.backends.fencing import pass_fence
from tenure.errors import LeaseLost
from tenure.node.keeper import Held

if TYPE_CHECKING:
    from tenure.leases.runtime import Runtime


class HeldLease:
    """What can be known about a lease without asking its store."""

    def __init__(self, runtime: Runtime, held: Held, *, blocking: bool = False) -> None:
        self._runtime = runtime
        self._held = held
        self._blocking = blocking
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
        """Whether this is a forked child's copy of its parent's lease."""
        return self._pid != os.getpid()

    @property
    def held(self) -> bool:
        """Whether it may be trusted, at this instant."""
        return not self.inherited and self._held.trusted

    @property
    def remaining(self) -> float:
        """Seconds for which it may be trusted without another renewal."""
        return 0.0 if self.inherited else self._held.remaining

    def check(self) -> None:
        """Raise `LeaseLost` unless it may be trusted, at this instant."""
        self._check_parent()
        if not self._held.trusted:
            raise LeaseLost(
                f"lease {self.name!r}, term {self.term}, can no longer be trusted:"
                f" {self._held.doubt}. Stop what it guards."
            )

    def fence(self, connection: Any) -> Any:
        """In your own transaction: raise `Fenced` if a newer term has written here.

        `connection` is your sqlite3 or psycopg connection, or an SQLAlchemy connection or session,
        to a database that has Tenure's tables; await the call if your connection is for asyncio.
        The check and your writes commit together, or not at all.
        """
        namespace = self._runtime.address.namespace
        return pass_fence(connection, namespace, self.name, self.term, self.holder)

    def _check_parent(self) -> None:
        if self.inherited:
            raise LeaseLost(
                f"lease {self.name!r} belongs to the parent process {self._pid}; a forked child"
                " must acquire its own."
            )

    def _check_renewable(self) -> None:
        self._check_parent()
        if self._held.overran:
            self.check()

    def __repr__(self) -> str:
        state = "held" if self.held else (self._held.over or "suspended")
        return f"<{type(self).__name__} {self.name!r} term={self.term} {state}>"


class Lease(HeldLease):
    """A lease that this process holds."""

    def renew(self) -> bool:
        """Extend it by its ttl from now; False if another holder has it."""
        self._check_renewable()
        return self._runtime.call(self._runtime.renew(self._held))

    def release(self) -> bool:
        """Give it back; False if another holder has it."""
        self._check_parent()
        if self._blocking and self._held.over is None:
            blocking = self._runtime.blocking()
            if blocking is not None:
                self._held.over = "released"
                return self._runtime.release_blocking(blocking, self._held.grant)
        return self._runtime.call(self._runtime.give_back(self._held))


class AsyncLease(HeldLease):
    """A lease that this process holds, for coroutines."""

    async def renew(self) -> bool:
        """Extend it by its ttl from now; False if another holder has it."""
        self._check_renewable()
        return await self._runtime.call_async(self._runtime.renew(self._held))

    async def release(self) -> bool:
        """Give it back; False if another holder has it."""
        self._check_parent()
        return await self._runtime.call_async(self._runtime.give_back(self._held))
