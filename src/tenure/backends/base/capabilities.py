"""Extras that a backend may offer. The caller asks for them with `isinstance`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tenure.backends.base.events import EventStore
from tenure.backends.base.runs import RunStore
from tenure.backends.base.schedules import Now, ScheduleStore
from tenure.model import Finding, Grant, Holder, LeaseRecord, Pending, Result, RoleScript

LEND_WITHIN = 30.0
"""How many seconds a task waits for a connection that others have."""


@runtime_checkable
class BlockingLeases(Protocol):
    """Leases that can also be taken on the calling thread.

    For calls that block anyway: `acquire` and `release` of `LeaseStore`, without the detour over
    Tenure's own thread. Any number of threads may call.
    """

    @property
    def can_block(self) -> bool:
        """Does this work now? If not, use the methods of `LeaseStore`, which do the same."""
        ...

    def acquire_blocking(self, name: str, holder: Holder, ttl: float) -> Grant | LeaseRecord: ...

    def release_blocking(self, grant: Grant) -> bool: ...


@dataclass(frozen=True, slots=True)
class Joined:
    """Schedules, runs and events as the caller's own transaction sees and changes them.

    If the caller's connection blocks, their methods await nothing, so that they can run on the
    caller's thread without an event loop.
    """

    schedules: ScheduleStore
    runs: RunStore
    now: Now
    """`LeaseBackend.now`: the present, not the start of the caller's transaction."""
    confirm: Callable[[int, int, str], Awaitable[bool]]
    """Is this (run, claim, node) still the present claim? If so, the run cannot be taken away until
    the caller's transaction ends."""
    events: EventStore


@runtime_checkable
class Joins(Protocol):
    """A store whose schedules can be changed inside the caller's own transaction.

    - A change becomes visible, and wakes other nodes, when the caller commits; if the caller rolls
      back, nothing is stored.
    - Nothing is begun, committed or rolled back on the caller's connection, and no setting outlasts
      the call. A call that is refused leaves the transaction as it was, and usable.
    - While the transaction is open, other schedules still fire and change, if the store can have
      more than one writer.
    - Firing, taking office, claiming and giving positions to events are not possible in it. But a
      claim can be confirmed, and its result reported: it is on record if the caller commits.
    - While a claim is confirmed, `recover` leaves its run alone and takes the other runs of that
      node, if the store can have more than one writer.
    """

    async def identify(self) -> None:
        """Learn what `join` needs to know about the store; once, on Tenure's own loop."""
        ...

    def join(self, connection: object) -> Joined:
        """The store on this connection. `ConfigError` if it leads to another database."""
        ...


class LentTransaction(Protocol):
    """A transaction, on a connection that a task may use until it ends. Where that can be seen, it
    begins when the task first uses its connection, and holds up nobody before that."""

    @property
    def connection(self) -> Any: ...

    @property
    def used(self) -> bool:
        """Has it begun? If not, the task has written nothing, and its run may be recorded like any
        other."""
        ...

    def commit(self, result: Result) -> bool:
        """Record this success, as the last statement, and commit. False if (run, claim, node) is
        not the present claim, or no longer: then nothing is changed. That it has ended in the same
        way before does not do: the effects would be there twice.

        Raises `TransactionLost` if the task has ended the transaction itself, or its time was up.
        After any other exception it may have been committed or not: the store knows.
        """
        ...


class AsyncLentTransaction(Protocol):
    """The same for a coroutine, which cannot wait where it looks at an attribute: so it begins
    before."""

    @property
    def connection(self) -> Any: ...

    async def commit(self, result: Result) -> bool: ...


class Lender(Protocol):
    """Lends connections to tasks, a bounded number at a time. Has none until one is asked for.

    - What the task writes and the result of its run commit together, or neither does. A transaction
      that is left without a commit is rolled back.
    - A caller that finds all connections lent waits for at most `LEND_WITHIN` seconds, and then
      gets `StoreUnavailable`; within the task's limit in any case, else `TimeoutError`.
    - A transaction that stays open for too long is ended by the store or here, whatever the task
      does meanwhile. While it is open, leases are renewed, and after that anything else goes on.
    - Nothing that a task sets or leaves in its session is seen by the next one. (On connections of
      an engine that was handed in, its pool decides.)
    """

    def refusal(self, *, coroutine: bool) -> str | None:
        """Why it cannot lend to a plain function, or to a coroutine, and what to do; None if it
        can."""
        ...

    def lend(self, limit: float | None) -> AbstractContextManager[LentTransaction]:
        """On any thread, which may block. `limit`: of the task, in seconds, the wait included."""
        ...

    def lend_async(self, limit: float | None) -> AbstractAsyncContextManager[AsyncLentTransaction]:
        """On any running loop."""
        ...

    def close(self) -> None:
        """Close what is not lent, now, and what is lent when it comes back. Never waits."""
        ...


@runtime_checkable
class Lends(Protocol):
    """A store that lends connections of its own to transactional tasks."""

    def lender(self, most: int, hold: float) -> Lender:
        """At most `most` connections at a time. `hold` is how many seconds a transaction may keep
        all others from writing, in a store with one writer. Works on a backend that is not open
        yet, if only to ask for a `refusal`."""
        ...


@runtime_checkable
class Connects(Protocol):
    """A store to which a user can be given a connection, for transactions that `Joins` joins."""

    def connect(self) -> Any:
        """A new blocking connection, in no transaction; the caller closes it. Any thread may
        call."""
        ...

    def begin(self, connection: Any, idle: float) -> None:
        """Begin a transaction on it. A server ends it when it waits for more than `idle` seconds
        for the next statement: the process may be frozen, and holds locks."""
        ...

    async def connect_async(self) -> Any:
        """The same for asyncio, on the caller's loop; where the driver has none, `connect`."""
        ...

    async def begin_async(self, connection: Any, idle: float) -> None: ...


@runtime_checkable
class Upkeep(Protocol):
    """What the operator's tools ask of a backend.

    Both work on a backend that is not open, and neither creates or changes anything: operators
    need them most when `open` fails.
    """

    async def pending(self) -> Pending:
        """The migrations that `open` would apply; all of them if there is no database yet.
        Raises `SchemaMismatch` if the tables are too new for this code."""
        ...

    async def diagnose(self) -> list[Finding]:
        """Everything about the store itself that can be checked from here. A problem is a finding,
        never an exception."""
        ...


@runtime_checkable
class KnowsRoles(Protocol):
    """A store that knows which rights a reader, an editor, a node and the migrator need.

    Neither method changes anything.
    """

    def role_script(self, prefix: str) -> RoleScript:
        """A script for an administrator to run, now and after each migration. The names of the
        roles begin with `prefix`; `ConfigError` if they cannot. Needs no connection."""
        ...

    async def check_rights(self) -> None:
        """Raise `StoreError` if this user lacks a right that a node needs: it names the user, the
        right and the remedy. Does nothing if the store cannot tell."""
        ...


@runtime_checkable
class KnowsNamespaces(Protocol):
    """A store that can say which namespaces it has: the name of one that nobody has is mistyped."""

    async def namespaces(self) -> list[str]:
        """Those in which a schedule is stored or a node has run, or where there are only leases a
        lease was granted; by name, the first hundred."""
        ...


@runtime_checkable
class CountsConnections(Protocol):
    """A store on a server."""

    @property
    def connections(self) -> int:
        """How many connections it has open at this moment, but for those that it lends to tasks.
        Any thread may ask."""
        ...


@runtime_checkable
class BacksUp(Protocol):
    """A store that is a file and can be copied while it is in use."""

    def back_up(self, target: Path, *, replace: bool, progress: Callable[[int, int], None]) -> None:
        """Copy all that was committed before the call to the file `target`; blocks.

        - Works on a backend that is not open. Neither readers nor writers wait for it.
        - `target` becomes a complete, checked copy, or stays as it was. An existing file is
          replaced only with `replace` (otherwise `Conflict`), a file of the store itself never
          (`ConfigError`).
        - `progress` is called with how much is done, and how much there is.
        """
        ...
