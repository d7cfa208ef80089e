"""The leases: each method of `LeaseStore`, as one look at the file or one change of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from tenure.backends.base import KEPT_LINES, OWN
from tenure.model import DELETED, Forgotten, Grant, Holder, LeaseRecord, Takeover, Tenure
from tenure.process.clock import Clock
from tenure_jsonfile.document import Contents, Document, Entry, Line


class JsonLeases:
    """Leases on the boot clock of this machine, which nobody can set."""

    def __init__(self, document: Document, clock: Clock, boot: str) -> None:
        self._document = document
        self._clock = clock
        self._boot = boot
        self._wall, self._start = clock.now(), clock.monotonic()
        self._seen: dict[str, tuple[int, int, float]] = {}
        """Of leases on the clock of another boot: term, counter, and since when they are so."""

    # -- taking, keeping, giving back -------------------------------------------------------------

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
        def work(contents: Contents) -> Grant | LeaseRecord:
            entry, takeover = contents.leases.get(name), None
            if entry is not None and entry.holder is not None:
                again = entry.holder == holder.id
                if not again and self._live(name, entry, watching=True):
                    return self._record(name, entry)
                if not again:
                    silent = (self._clock.now() - _time(entry.renewed_at)).total_seconds()
                    takeover = Takeover(entry.holder, entry.host, entry.pid, silent, "expired")
                over = _time(entry.renewed_at) + timedelta(seconds=entry.ttl)
                at = None if again else min(over, self._clock.now())
                self._end(contents, name, "asked again" if again else "expired", at)
            terms = [entry.term] if entry else [x.term for x in contents.history if x.name == name]
            if entry is None:
                self._end(contents, name, DELETED)
            term, now = max(floor, contents.highest, *terms) + 1, self._now()
            contents.leases[name] = Entry(
                term=term,
                holder=holder.id,
                host=holder.host,
                pid=holder.pid,
                boot=self._boot,
                ttl=ttl,
                fenced=fenced,
                counter=0,
                acquired_at=now,
                renewed_at=now,
                expires=self._clock.monotonic() + ttl,
                info=dict(info or {}),
            )
            line = Line(name, term, holder.id, holder.host, holder.pid, now)
            contents.history.append(line)
            return Grant(name, holder.id, term, ttl, takeover)

        return await self._document.change(work)

    async def renew(self, grants: Sequence[Grant]) -> set[Grant]:
        def work(contents: Contents) -> set[Grant]:
            renewed = {grant for grant in grants if _held_by(contents, grant)}
            for grant in renewed:
                entry = contents.leases[grant.name]
                entry.counter += 1
                entry.renewed_at = self._now()
                entry.boot, entry.expires = self._boot, self._clock.monotonic() + grant.ttl
            return renewed

        return await self._document.change(work)

    async def describe(self, grant: Grant, info: Mapping[str, Any]) -> bool:
        def work(contents: Contents) -> bool:
            held = _held_by(contents, grant)
            if held:
                contents.leases[grant.name].info = dict(info)
            return held

        return await self._document.change(work)

    async def release(self, grant: Grant, reason: str = "released") -> bool:
        def work(contents: Contents) -> bool:
            held = _held_by(contents, grant)
            if held:
                self._end(contents, grant.name, reason)
            return held

        return await self._document.change(work)

    async def evict(self, name: str, reason: str, term: int | None = None) -> LeaseRecord | None:
        def work(contents: Contents) -> LeaseRecord | None:
            entry = contents.leases.get(name)
            if entry is None or entry.holder is None or term not in (None, entry.term):
                return None
            before = self._record(name, entry)
            self._end(contents, name, reason)
            entry.term += 1
            return before

        return await self._document.change(work)

    # -- looking ----------------------------------------------------------------------------------

    async def read(self, name: str) -> LeaseRecord | None:
        def look(contents: Contents) -> LeaseRecord | None:
            entry = contents.leases.get(name)
            return None if entry is None else self._record(name, entry)

        return await self._document.read(look)

    async def all(
        self, prefix: str = "", *, after: str = "", limit: int | None = None
    ) -> list[LeaseRecord]:
        def look(contents: Contents) -> list[LeaseRecord]:
            names = sorted(n for n in contents.leases if n.startswith(prefix) and n > after)
            return [self._record(name, contents.leases[name]) for name in names[:limit]]

        return await self._document.read(look)

    async def history(self, name: str | None = None, limit: int = 50) -> list[Tenure]:
        def look(contents: Contents) -> list[Tenure]:
            lines = [line for line in reversed(contents.history) if name in (None, line.name)]
            return [_tenure(line) for line in lines[:limit]]

        return await self._document.read(look)

    async def suspect(self, record: LeaseRecord, wait: float = 0.0) -> bool:
        return False  # a file does not tell who is dead: the ttl decides

    # -- forgetting -------------------------------------------------------------------------------

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
        lines = await self._forget_lines(lines_after, keep, limit, dry_run)
        expired_before = self._before(older_than)
        free_before = self._before(older_than if free_after is None else free_after)

        def work(contents: Contents) -> Forgotten:
            names = sorted(n for n in contents.leases if n.startswith(prefix) and n > after)
            old = []
            for name in names[:limit]:
                entry = contents.leases[name]
                before = free_before if entry.holder is None else expired_before
                if _time(entry.renewed_at) < before and not self._live(name, entry):
                    old.append(name)
            for name in [] if dry_run else old:
                entry = contents.leases[name]
                ran_out = _time(entry.renewed_at) + timedelta(seconds=entry.ttl)
                self._end(contents, name, "expired", min(ran_out, self._clock.now()))
                contents.highest = max(contents.highest, entry.term)
                del contents.leases[name]
            return Forgotten(len(old), names[limit - 1] if len(names) > limit else "", lines)

        return await self._document.change(work)

    async def _forget_lines(
        self, older_than: float | None, keep: int, limit: int, dry_run: bool
    ) -> int:
        if older_than is None:
            return 0
        before = self._before(older_than)

        def work(contents: Contents) -> int:
            surplus = len(contents.history) - keep
            old = [
                number
                for number, line in enumerate(contents.history)
                if not _stands(contents, line)
                and (
                    _time(line.ended_at or line.acquired_at) < before
                    or (number < surplus and not line.name.startswith(OWN))
                )
            ][:limit]
            if not dry_run:
                terms = [contents.history[number].term for number in old]
                contents.highest = max(contents.highest, *terms, 0)
                contents.history = [
                    line for number, line in enumerate(contents.history) if number not in old
                ]
            return len(old)

        return await self._document.change(work)

    # -- judging ----------------------------------------------------------------------------------

    def _live(self, name: str, entry: Entry, *, watching: bool = False) -> bool:
        """Of a lease on another clock only its counter tells: it is live until that was seen to
        stand still for a ttl."""
        if entry.holder is None:
            return False
        clock = self._clock.monotonic()
        if entry.boot == self._boot:
            return clock < entry.expires
        term, counter, since = self._seen.get(name, (0, 0, clock))
        if (term, counter) == (entry.term, entry.counter):
            return clock < since + entry.ttl
        if watching:
            self._seen[name] = (entry.term, entry.counter, clock)
        return True

    def _record(self, name: str, entry: Entry) -> LeaseRecord:
        held, ours = entry.holder is not None, entry.boot == self._boot
        left = timedelta(seconds=entry.expires - self._clock.monotonic())
        ran_out = _time(entry.renewed_at) + timedelta(seconds=entry.ttl)
        return LeaseRecord(
            name=name,
            term=entry.term,
            holder=entry.holder,
            host=entry.host if held else None,
            pid=entry.pid if held else None,
            ttl=entry.ttl,
            fenced=entry.fenced,
            counter=entry.counter,
            acquired_at=_time(entry.acquired_at) if held else None,
            renewed_at=_time(entry.renewed_at) if held else None,
            expires_at=(self._clock.now() + left if ours else ran_out) if held else None,
            live=self._live(name, entry),
            comparable=ours,
            info=entry.info,
        )

    def _end(self, contents: Contents, name: str, reason: str, at: datetime | None = None) -> None:
        """Nobody holds it; and the line that says who did is closed."""
        if name in contents.leases:
            contents.leases[name].holder = None
        for line in contents.history:
            if line.name == name and line.ended_at is None:
                line.ended_at, line.end = at.isoformat() if at else self._now(), reason

    def _now(self) -> str:
        return self._clock.now().isoformat()

    def _before(self, age: float) -> datetime:
        """What is older than this has that age, also if the wall clock was set forward."""
        passed = timedelta(seconds=self._clock.monotonic() - self._start)
        return min(self._clock.now(), self._wall + passed) - timedelta(seconds=age)


def _held_by(contents: Contents, grant: Grant) -> bool:
    entry = contents.leases.get(grant.name)
    return entry is not None and (entry.holder, entry.term) == (grant.holder, grant.term)


def _stands(contents: Contents, line: Line) -> bool:
    """Is it the line of a lease that is held?"""
    entry = contents.leases.get(line.name)
    held = entry is not None and entry.holder is not None and entry.term == line.term
    return line.ended_at is None and held


def _tenure(line: Line) -> Tenure:
    ended = None if line.ended_at is None else _time(line.ended_at)
    begun = _time(line.acquired_at)
    return Tenure(line.name, line.term, line.holder, line.host, line.pid, begun, ended, line.end)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
