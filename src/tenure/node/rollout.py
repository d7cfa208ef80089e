"""Makes an app's stored schedules match what the code of its live nodes declares.

This happens when a node starts, and whenever nodes of other editions come or go. So a rollout takes
effect with the first new node, and a rollback when the last one is gone. A schedule whose task
vanished from the code is orphaned, and revived if the task comes back. declarations.py decides what
to change. The leader's notice says which editions are live (notice.py); a node looks for itself
when it starts, before it changes something, and while there is no notice.

Any number of nodes may do this at the same time: the second one finds it done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from zlib import crc32

from tenure.backends.address import NOWHERE, Address
from tenure.backends.base import Stores
from tenure.errors import Conflict, InvalidSchedule, StoreUnavailable
from tenure.facts import ScheduleOrphaned
from tenure.model import TaskRule
from tenure.node.batch_size import Portion
from tenure.node.notice import Notice
from tenure.node.presence import PRESENCE
from tenure.node.reaper import LATEST_RETRY
from tenure.node.roster import Edition, Roll, Roster, live_editions
from tenure.node.service import Service, Surroundings
from tenure.schedules.declarations import (
    Decision,
    Declarations,
    decide,
    is_known,
    rules,
    starting,
)

ATTEMPTS = 20
PATIENCE = 5
"""How often a start tries again while the store is busy."""
CHANGES = 2_500
"""How many schedules one transaction changes, unless that takes too long."""
SELDOM = 4
"""While nothing changes, looks are so many times less frequent."""
UNASKED = 10
"""Schedules are compared again after the first look that shows nothing new, because a change that
another node decided on before it saw us may have landed since; and then after so many."""


class Rollout(Service):
    """Keeps code and store in agreement."""

    def __init__(
        self,
        mine: Declarations,
        stores: Stores,
        node: Callable[[], str | None],
        around: Surroundings,
        at: Address = NOWHERE,
        notice: Callable[[], Notice | None] = lambda: None,
    ) -> None:
        super().__init__(around)
        self._notice = notice
        self._at = at
        self._mine = mine
        self._leases = stores.leases
        self._editions = stores.editions
        self._schedules = stores.schedules
        self._node = node
        # At least as long as live nodes need to renew their presence after an outage.
        self.patience = max(self.settings.rollout_grace, self.settings.renew_every, LATEST_RETRY)
        self._roster = Roster(mine.app, mine.edition.digest, self.patience)
        self._heard: Notice | None = None
        self._before: tuple[frozenset[Edition], float] = frozenset(), float("-inf")
        """The editions that were live under the previous leader, and until when they count."""
        self._undeclared: dict[str, float] = {}
        """Since when no live node has declared these schedules, as far as we saw."""
        self._others: frozenset[object] = frozenset()
        """The other nodes at the last look."""
        self._unchanged = 0
        """For how many looks in a row they have been the same."""
        self._agreed = False
        """Did code and store agree at the last look?"""
        self._pending = False
        """Does a decision depend on time alone?"""
        self._portion = Portion(CHANGES, self.settings.call_timeout)

    @property
    def edition(self) -> str:
        """What this node's code declares, as a digest."""
        return self._mine.edition.digest

    async def declare(self) -> None:
        """When a node starts, before it is present: add what is new, replace what is older.

        Nothing is written if there is nothing to change: a start must succeed while the store
        cannot be written."""
        if not await self._agree(await self._look(), joining=True):
            raise Conflict(
                f"the schedules of app {self._mine.app!r} keep changing while they are compared"
                " with the code. Start again; if that does not help, find out what changes them."
            )

    async def step(self) -> float | None:
        node = self._node()
        if node is None:
            return None  # only a node that is present decides; its presence wakes us
        notice, seldom = self._notice(), UNASKED
        if notice is not None:
            roll, seldom = self._hear(notice), UNASKED * SELDOM
        else:
            async with asyncio.timeout(self.settings.call_timeout):
                roll = await self._look()
        self._unchanged = self._unchanged + 1 if roll.others == self._others else 0
        self._others = roll.others
        if not self._agreed or self._pending or self._unchanged % seldom in (0, 1):
            self._agreed = False
            async with asyncio.timeout(self.settings.ttl):
                self._agreed = await self._agree(roll)
        return self._until_next(node, roll, heard=notice is not None)

    def _until_next(self, node: str, roll: Roll, *, heard: bool) -> float:
        often = self.settings.rollout_poll
        if not self._agreed:
            return often / SELDOM
        # Each node has its own pace, so that they do not all ask at the same time.
        pace = 0.9 + 0.2 * crc32(node.encode()) / 2**32
        # Looking at the notice costs nothing.
        delay = often * pace * (1 if heard or self._pending or not self._unchanged else SELDOM)
        return delay if roll.settles_in is None else min(delay, roll.settles_in + 0.01)

    def _hear(self, notice: Notice) -> Roll:
        """Which editions are live, according to the leader."""
        now, app, heard = self.clock.monotonic(), self._mine.app, self._heard
        if heard is not None and heard.term != notice.term:
            # A new leader may not know which nodes left under its predecessor.
            self._before = heard.editions.get(app, frozenset()), now + self.patience
        self._heard = notice
        editions, until = self._before
        live = notice.editions.get(app, frozenset()) | (editions if now < until else frozenset())
        others = {(str(e), e, True) for e in live if e != self._mine.edition.digest}
        # If they changed and changed back while this node was frozen, compare all the same.
        others.add((f"term {notice.term}, change {notice.changes}", None, True))
        return Roll(now, live, frozenset(others))

    async def _look(self) -> Roll:
        now = self.clock.monotonic()
        records = await self._leases.all(PRESENCE)
        dead = [
            record.name
            for record in self._roster.doubtful(records)
            if await self._leases.suspect(record)
        ]
        return self._roster.look(records, now, dead)

    async def _agree(self, roll: Roll, *, joining: bool = False) -> bool:
        """Make the changes that are needed. False if others kept changing the same schedules."""
        failures, announced, listed = 0, False, joining
        while failures < ATTEMPTS:
            # Presences were read before: every node that changed something by then is announced.
            known = await self._editions.declared(self._mine.app)
            started = starting(known, self.settings.ttl)
            self._pending = bool(started - roll.live - {self._mine.edition.digest})
            decisions = decide(self._mine, known, roll.live | started, joining=joining)
            decisions = self._without_hasty(decisions)
            changed = rules(self._mine, known, roll.live | started, joining=joining)
            if joining:
                await self._refuse_others(decisions)
            changes = bool(decisions or changed)
            if not announced and (changes if joining else not is_known(self._mine, known)):
                await self._editions.announce(self._mine.app, self._mine.edition)
                announced = True
                continue
            if not changes:
                return True
            if not listed:
                # The notice may be some seconds old: do not overlook nodes that came since.
                roll, listed = await self._listed(roll), True
                continue
            if not joining and self.clock.monotonic() - roll.at > self.settings.ttl:
                return False  # we were frozen: nodes may have come or gone meanwhile
            batch, begun = decisions[: self._portion.size], self.clock.monotonic()
            try:
                await self._change(batch, changed)
            except Conflict:
                # If many schedules fire often, one of them has always just fired: take fewer.
                self._portion.failed(len(batch))
                failures += 1
            except StoreUnavailable:
                # So many may take longer than a transaction may: take fewer. Or other nodes that
                # start now declare the same and hold the rows: wait for them.
                self._portion.failed(len(batch))
                if not joining or failures >= PATIENCE:
                    raise
                failures += 1
                await self.clock.sleep(0.1 * failures)
            else:
                self._portion.done(len(batch), self.clock.monotonic() - begun)
                failures = 0
                self._tell(batch)
        return False

    async def _change(self, decisions: Sequence[Decision], rules: Mapping[str, TaskRule]) -> None:
        if rules:
            await self._editions.set_rules(self._mine.app, rules)
        if decisions:
            await self._schedules.change([decision.change for decision in decisions])

    async def _listed(self, roll: Roll) -> Roll:
        """The same, with the nodes that are present now."""
        now = self.clock.monotonic()
        present = live_editions(await self._leases.all(PRESENCE), self._mine.app)
        return replace(roll, at=now, live=roll.live | present)

    def _without_hasty(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Do not orphan a schedule at once: the nodes that declare it may be restarting."""
        now = self.clock.monotonic()
        orphans = {d.change.spec.name for d in decisions if isinstance(d.fact, ScheduleOrphaned)}
        self._undeclared = {name: self._undeclared.get(name, now) for name in orphans}
        hasty = {
            name
            for name, since in self._undeclared.items()
            if now - since < self.settings.rollout_grace
        }
        self._pending |= bool(hasty)
        return [d for d in decisions if d.change.spec.name not in hasty]

    async def _refuse_others(self, decisions: Sequence[Decision]) -> None:
        """Refuse to add a schedule whose name is taken by another app or by hand."""
        names = [d.change.spec.name for d in decisions if d.change.replaces is None]
        for name, other in (await self._schedules.find(names) if names else {}).items():
            if other.spec.app == self._mine.app:
                continue  # another node has just added it
            app = other.spec.app
            owner = f"belongs to app {app!r}" if app else "was added at run time"
            raise InvalidSchedule(
                f"the code declares a schedule {name!r}, but one with that name already exists and"
                f" {owner}. Rename the task with name=…, or remove the other one:"
                f" `{self._at.command('schedules', 'remove', name=name)}`"
            )

    def _tell(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            if decision.fact is not None:
                self.facts.tell(decision.fact)
