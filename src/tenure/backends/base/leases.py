"""Leases: who may act."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tenure.model import Forgotten, Grant, Holder, LeaseRecord, Tenure

OWN = "tenure/"
"""The prefix of Tenure's own leases: leadership, and the presence of nodes."""
FREE_AFTER = 300.0
"""How many seconds a free lease is kept. Its term is safe without it: see `LeaseStore`."""
KEPT_LINES = 1_000
"""How many lines of history are kept of users' leases."""


class LeaseStore(Protocol):
    """Named rights, each held by one holder, for a limited time, under a term.

    A lease is *live* while it has a holder, has not expired on the store's clock, and its holder
    is not proven dead.

    **The terms of a name only grow**, whatever happens between two grants: release, expiry,
    eviction, being forgotten. The store keeps one high-water term, the *floor*, for each namespace.
    Dropping a record of a term raises the floor to that term, in the same step, and every new term
    is above the floor. So records can be dropped, and no term is ever granted twice.

    **A record may have been edited by hand**, and no call fails because of that. An impossible
    value counts as unknown: `LeaseRecord.unreadable` names it, and the lease is judged on the safe
    side (lease_rows.py has the rules).

    - A term above `HIGHEST_TERM` was never granted, and is ignored. After `HIGHEST_TERM` itself no
      term is left: `acquire` raises `StoreError` with the remedy. A store may have a lower limit.
      Then it grants no term above that, and `acquire` refuses a `floor` that would need one:
      `StoreError` with the remedy, and nothing is changed.
    - A ttl that is impossible, or above `LONGEST_TTL`, is ignored: the expiry decides.
    - An expiry that is unreadable, or further away than the ttl, is ignored: the lease is taken
      only after its counter was seen unchanged for a full ttl. If the ttl is unknown too, that is
      `UNKNOWN_TTL` for a fenced lease, else `LONGEST_TTL`.
    - A renewal relies only on the record's holder and term, and repairs what it writes. So a
      holder that is alive keeps its lease.
    """

    async def acquire(
        self,
        name: str,
        holder: Holder,
        ttl: float,
        *,
        fenced: bool = False,
        floor: int = 0,
        info: Mapping[str, Any] | None = None,
    ) -> Grant | LeaseRecord:
        """Take the lease if it is not live. Returns a Grant, or the record of its holder.

        - One atomic statement decides: of any number of simultaneous calls one is granted.
        - The new term is greater than every earlier term of the name, and greater than `floor`;
          even if the name was forgotten, or if its record was deleted by hand and its history is
          still there. The history then says that the lease of the last holder was deleted.
        - A holder that asks again for a lease that it holds gets a new term, and its earlier grant
          is over. So a grant whose reply was lost blocks nobody. A lock that must exclude other
          code in the same process needs a holder of its own.
        - If the stored holder's clock cannot be compared with ours (the machine was restarted), the
          lease is taken only after this backend object has seen its renewal counter unchanged for
          a full ttl of that lease, on its own clock.
        - `Grant.takeover` says from whom it was taken, after how long a silence, and why, if that
          holder had not released it.
        - `fenced` says that the holder's writes are fenced. Then a hint of death is enough to
          shorten the lease; otherwise only a proof of death is.
        """
        ...

    async def renew(self, grants: Sequence[Grant]) -> set[Grant]:
        """Prolong these by their ttl from now, all in one round trip; return the renewed ones.

        A grant is renewed if the store still has its holder and term, expired or not: a late
        holder keeps its lease unless another has taken it. Each renewal changes the counter; at
        the end of its range it starts over at 0.
        """
        ...

    async def describe(self, grant: Grant, info: Mapping[str, Any]) -> bool:
        """Replace what the record says about its holder, if the lease is still this grant's. This
        does not renew the lease."""
        ...

    async def release(self, grant: Grant, reason: str = "released") -> bool:
        """End the lease at once if it is still this grant's, keep its term, wake candidates."""
        ...

    async def evict(self, name: str, reason: str, term: int | None = None) -> LeaseRecord | None:
        """End the lease by force and raise its term. Returns the record as it was; None if the
        lease was free, or `term` is given and it has another.

        The evicted holder can neither renew nor release. This works on every record, however
        damaged, and overwrites what could not be read.
        """
        ...

    async def forget(
        self,
        prefix: str,
        older_than: float,
        *,
        free_after: float | None = None,
        lines_after: float | None = None,
        keep: int = KEPT_LINES,
        limit: int = 1_000,
        after: str = "",
        dry_run: bool = False,
    ) -> Forgotten:
        """Drop leases that were not used for long and whose names start with `prefix`: free ones
        not renewed for `free_after` seconds (default: `older_than`), and expired ones that were
        never released, not renewed for `older_than` seconds. Never a live one.

        - A forgotten name never gets one of its earlier terms again: see above.
        - Its history stays. If the lease was never released, its line says when it expired, and
          why it counts as over.
        - It reads about `limit` leases, starting where the last call stopped: `after` is what that
          call returned. An empty `Forgotten.after` means that there are no more.
        - With `lines_after` it first drops about `limit` lines of history, of any name: those that
          ended more than so many seconds ago; open ones of that age whose lease is gone; and of
          users' leases all but about the newest `keep`, however young. The line of a lease that is
          held always stays.
        - Setting the clock forward after this backend was opened makes nothing older.
        - With `dry_run` nothing is changed: it counts. Every such call counts the same lines.
        """
        ...

    async def read(self, name: str) -> LeaseRecord | None:
        """The lease as it is now; None if it was never held, or was forgotten."""
        ...

    async def all(
        self, prefix: str = "", *, after: str = "", limit: int | None = None
    ) -> list[LeaseRecord]:
        """All leases whose names start with `prefix`, by name, in the order of code points; with
        `after`, those behind that name; at most `limit`."""
        ...

    async def history(self, name: str | None = None, limit: int = 50) -> list[Tenure]:
        """Who held it, from when to when, and why it ended; newest first. A lease that was taken
        from a silent holder ended when it expired, unless it was taken before that: from then on
        nobody had it."""
        ...

    async def suspect(self, record: LeaseRecord, wait: float = 0.0) -> bool:
        """Is there a hint or proof that this record's holder is dead? Cheap, and may be wrong:
        the next `acquire` decides. Never true for a holder that is known to be alive.

        - `wait` is for deputies. A store that can learn of a holder's end waits for it, at most so
          many seconds, at almost no cost. Any other store looks once and answers. The caller may
          cancel the call at any moment.
        - A hint counts only after a second look, and even then only `acquire` takes the lease.
        - So a wrong hint costs one `acquire`, and a missing one costs waiting for the ttl.
        """
        ...
