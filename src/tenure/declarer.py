"""The declarer makes the stored schedules of its app be what the code of the live nodes declares.

At the start of a node, and again whenever nodes of other releases have come or gone. So a rollout
takes effect with the first new node, and a rollback when the last one is gone; a schedule whose
task vanished from the code is orphaned, and one that came back is revived, all by themselves. What
is done is decided in declarations.py; who lives is told by roster.py.

Any number of nodes may do this at the same moment: whoever comes second finds it done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from zlib import crc32

from tenure.address import NOWHERE, Address
from tenure.backends.base import LeaseStore, ReleaseStore, ScheduleStore
from tenure.clock import Clock
from tenure.declarations import Decision, Declarations, decide, is_known, starting
from tenure.errors import Conflict, InvalidSchedule, StoreUnavailable
from tenure.facts import Facts, ScheduleOrphaned
from tenure.presence import PRESENCE
from tenure.reaper import LATEST_RETRY
from tenure.roster import Roll, Roster
from tenure.service import Service
from tenure.settings import Settings

ATTEMPTS = 20
PATIENCE = 5
"""How often a start tries again while the store says that it is busy."""
SELDOM = 4
"""While nothing changes, a look is taken this many times less often."""
UNASKED = 10
"""After so many looks in a row that showed nothing new, the schedules are compared all the same;
and after the first: a change that somebody decided on before we were seen may have landed since."""


class Declarer(Service):
    """Keeps code and store in agreement."""

    def __init__(
        self,
        mine: Declarations,
        leases: LeaseStore,
        releases: ReleaseStore,
        schedules: ScheduleStore,
        node: Callable[[], str | None],
        settings: Settings,
        clock: Clock,
        facts: Facts,
        at: Address = NOWHERE,
    ) -> None:
        super().__init__(clock, facts)
        self._at = at
        self._mine = mine
        self._leases = leases
        self._releases = releases
        self._schedules = schedules
        self._node = node
        self._settings = settings
        # Not less than the living need to renew their presence, after an outage.
        patience = max(settings.rollout_grace, settings.renew_every, LATEST_RETRY)
        self._roster = Roster(mine.app, mine.release.digest, patience)
        self._undeclared: dict[str, float] = {}
        """Since when we have seen that nobody declares these schedules."""
        self._others: frozenset[object] = frozenset()
        """As they were at the last look."""
        self._unchanged = 0
        """For how many looks in a row."""
        self._agreed = False
        """Did code and store agree, with the others as they were?"""
        self._pending = False
        """Is there something that only time decides?"""

    @property
    def release(self) -> str:
        """What this node's code declares, as a digest."""
        return self._mine.release.digest

    async def declare(self) -> None:
        """At the start of a node, before it is present: add what is new, replace what is older.

        Nothing is written if there is nothing to change: a start must not wait for a store that
        cannot be written to at the moment."""
        if not await self._agree(await self._look(), joining=True):
            raise Conflict(
                f"the schedules of app {self._mine.app!r} keep changing while they are compared"
                " with the code. Start again; if that does not help, look at who changes them."
            )

    async def step(self) -> float | None:
        node = self._node()
        if node is None:
            return None  # whoever is not present does not judge; its presence wakes us
        async with asyncio.timeout(self._settings.call_timeout):
            roll = await self._look()
        self._unchanged = self._unchanged + 1 if roll.others == self._others else 0
        self._others = roll.others
        if not self._agreed or self._pending or self._unchanged % UNASKED in (0, 1):
            self._agreed = False
            async with asyncio.timeout(self._settings.ttl):
                self._agreed = await self._agree(roll)
        return self._until_next(node, roll)

    def _until_next(self, node: str, roll: Roll) -> float:
        often = self._settings.rollout_poll
        if not self._agreed:
            return often / SELDOM
        # Each node at a pace of its own, so that they do not all ask at the same moment.
        pace = 0.9 + 0.2 * crc32(node.encode()) / 2**32
        delay = often * pace * (1 if self._pending or not self._unchanged else SELDOM)
        return delay if roll.settles_in is None else min(delay, roll.settles_in + 0.01)

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
        """Change what is to be changed. False if others were faster, time and again."""
        size, failures, announced = None, 0, False
        while failures < ATTEMPTS:
            # Presences were read first: who changed anything before that has been announced.
            known = await self._releases.declared(self._mine.app)
            started = starting(known, self._settings.ttl)
            self._pending = bool(started - roll.live - {self._mine.release.digest})
            decisions = decide(self._mine, known, roll.live | started, joining=joining)
            decisions = self._without_hasty(decisions)
            if joining:
                await self._refuse_others(decisions)
            if not announced and (decisions if joining else not is_known(self._mine, known)):
                await self._releases.announce(self._mine.app, self._mine.release)
                announced = True
                continue
            if not decisions:
                return True
            if not joining and self.clock.monotonic() - roll.at > self._settings.ttl:
                return False  # we stood still: the others may have come or gone meanwhile
            batch = decisions[:size]
            try:
                await self._schedules.change([decision.change for decision in batch])
            except Conflict:
                # Of many that fire often, one has always just fired: take fewer at a time.
                size, failures = max(1, len(batch) // 2), failures + 1
            except StoreUnavailable:
                # Others declare the same at this moment, and hold the rows: a start can wait.
                if not joining or failures >= PATIENCE:
                    raise
                failures += 1
                await self.clock.sleep(0.1 * failures)
            else:
                failures = 0
                self._tell(batch)
        return False

    def _without_hasty(self, decisions: Sequence[Decision]) -> list[Decision]:
        """What nobody declares is not orphaned at once: those who do may be restarting."""
        now = self.clock.monotonic()
        orphans = {d.change.spec.name for d in decisions if isinstance(d.fact, ScheduleOrphaned)}
        self._undeclared = {name: self._undeclared.get(name, now) for name in orphans}
        hasty = {
            name
            for name, since in self._undeclared.items()
            if now - since < self._settings.rollout_grace
        }
        self._pending |= bool(hasty)
        return [d for d in decisions if d.change.spec.name not in hasty]

    async def _refuse_others(self, decisions: Sequence[Decision]) -> None:
        """A name that the code wants to add must not be somebody else's."""
        names = [d.change.spec.name for d in decisions if d.change.replaces is None]
        for name, other in (await self._schedules.find(names) if names else {}).items():
            if other.spec.app == self._mine.app:
                continue  # another node has just added it
            app = other.spec.app
            owner = f"belongs to app {app!r}" if app else "was added at run time"
            raise InvalidSchedule(
                f"the code declares a schedule {name!r}, but one of that name exists already and"
                f" {owner}. Rename the task with name=…, or remove the other one:"
                f" `{self._at.command('schedules', 'remove', name=name)}`"
            )

    def _tell(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            if decision.fact is not None:
                self.facts.tell(decision.fact)
