"""Notifications, and how to do without them.

All databases of a server share one notification queue. A session that LISTENs in a transaction and
keeps it open prevents the queue from being emptied, and anyone who can connect can fill it. Once it
is full, every transaction that notifies fails at its commit.

The server empties the queue only when a session notifies, which then fails, or asks how full it is.
So the queue stays full after that session has gone, until the next such question.

Wake-ups are hints, so no transaction of ours may fail because of one. Most do not notify: others
are told after the commit (announcer.py). Releasing a lease that others wait for does notify; if it
fails because of that, it is repeated without. Then this process does not notify for a while. All
processes that listen check the queue now and then, and poll while it is full (wakeups.py).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tenure.backends.base import lease_topic
from tenure.backends.postgres.blockers import described
from tenure.backends.postgres.errors import QUEUE_FULL, is_queue_full
from tenure.backends.postgres.statements import PACKAGE, Rows, Statement
from tenure.backends.shared import sql
from tenure.errors import StoreError
from tenure.model import Finding, Severity
from tenure.process.clock import Clock

SILENCE = 10.0
"""Seconds without notifications after one was refused; then one transaction tries again."""
NEARLY_FULL, FILLING = 0.9, 0.5
"""How full the queue is when Tenure stops notifying, and when `tenure doctor` warns."""
OLDEST = sql.load(PACKAGE, "sql/blockers.sql")["oldest_transactions"]
USAGE = "SELECT pg_notification_queue_usage() AS queue"
_NOTIFY = "pg_notify(%(channel)s, %(topic)s)"
T = TypeVar("T")
_logger = logging.getLogger("tenure.store")


class Notifications:
    """Decides whether this process notifies at the moment."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._silent_until = float("-inf")
        self.full = False
        """Was the queue full, or nearly, and has no notification succeeded since?"""
        self.changed: Callable[[str, bool], Awaitable[None]] = _nobody_hears
        """Called after each commit, for each topic, with whether the transaction notified."""

    @property
    def silent(self) -> bool:
        return self._clock.monotonic() < self._silent_until

    async def along(
        self, statements: Sequence[Statement], run: Callable[[Sequence[Statement]], Awaitable[T]]
    ) -> T:
        """Run these as one transaction, with their notifications or without."""
        topics = [values["topic"] for text, values in statements if notifies(text)]
        if not topics:
            return await run(statements)
        notified = all(map(_is_lease, topics)) and self.may_notify()
        try:
            result = await run(statements if notified else [quiet(s) for s in statements])
        except StoreError as error:
            if not notified or not self.refused(error):
                raise
            notified = False
            result = await run([quiet(s) for s in statements])
        for topic in topics:
            await self.changed(topic, notified)
        return result

    def may_notify(self) -> bool:
        if self.silent:
            return False
        if self.full:  # let one transaction try, and the others wait for its outcome
            self._silent_until = self._clock.monotonic() + SILENCE
        return True

    def worked(self) -> None:
        if self.full:
            self.full, self._silent_until = False, float("-inf")
            _logger.info("PostgreSQL accepts notifications again: changes are noticed at once.")

    def refused(self, error: StoreError) -> bool:
        """Did a transaction fail because of its notification?"""
        if not is_queue_full(error.__cause__):
            return False
        self._fall_silent()
        return True

    def looked(self, used: float) -> None:
        """The server says how full the queue is: from 0 to 1."""
        if used >= NEARLY_FULL:
            self._fall_silent()
        elif used < FILLING:
            self._silent_until = float("-inf")
            self.worked()

    def _fall_silent(self) -> None:
        self._silent_until = self._clock.monotonic() + SILENCE
        if not self.full:
            self.full = True
            _logger.warning(
                "%s Tenure goes on without notifications: nothing is lost, but"
                " other nodes hear of changes seconds later.",
                QUEUE_FULL,
            )


async def _nobody_hears(topic: str, notified: bool) -> None:
    del topic, notified


def _is_lease(topic: str) -> bool:
    return topic.startswith(lease_topic(""))


def notifies(text: str) -> bool:
    return _NOTIFY in text


def quiet(statement: Statement) -> Statement:
    """The same statement without its notification."""
    text, values = statement
    return text.replace(_NOTIFY, "NULL"), values


def finding(used: float, oldest: Rows) -> Finding:
    """What `tenure doctor` says about the queue and the oldest transactions."""
    text = f"the server's NOTIFY queue is {used:.0%} full"
    if used <= FILLING:
        return Finding("notifications", Severity.OK, text)
    seen = [session for session in oldest if session["xact_start"] is not None]
    who = "; ".join(map(described, seen)) or "none that this role can see"
    text = (
        f"{text}: a session that LISTENs, in any database of the server, keeps a transaction open."
        f" The oldest open transactions: {who}"
    )
    if used > NEARLY_FULL:
        text += ". Tenure works without notifications: changes are noticed by polling"
    hidden = len(seen) < len(oldest)
    remedy = (
        "Find out which of them LISTENs: the server's log names it (NOTIFY queue)."
        + (
            " Sessions of other roles are hidden from this one: ask again as a member of"
            " pg_read_all_stats."
            if hidden
            else ""
        )
        + " `SELECT pg_terminate_backend(pid)` ends it. Asking how full the queue is, as this"
        " check does, then empties it."
    )
    severity = Severity.PROBLEM if used > NEARLY_FULL else Severity.WARNING
    return Finding("notifications", severity, text, remedy)
