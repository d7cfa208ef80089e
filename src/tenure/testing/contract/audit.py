"""Clauses of `AuditStore`: a line for each change, never without one."""

from __future__ import annotations

import pytest

from tenure.errors import Fenced
from tenure.model import DONE, Fence, NewAction
from tenure.testing.contract.harness import SCOPE, Harness


class AuditContract:
    """Lines are begun, ended, found and pruned."""

    async def test_line_has_no_outcome_until_it_is_ended_and_then_keeps_it(
        self, harness: Harness
    ) -> None:
        audit, before = harness.backend.audit, await harness.backend.now()
        asked = NewAction("ann", "10.0.0.7", "dashboard", "pause", "digest", "reason=holiday")
        first = await audit.begin(asked)
        second = await audit.begin(NewAction("bob", "host", "cli", "evict", "tenure/leader"))
        assert second > first
        assert [line.outcome for line in await audit.find()] == [None, None]
        await audit.end(first, DONE)
        await audit.end(first, "too late")
        newest, oldest = await audit.find()
        assert (newest.id, oldest.id) == (second, first)
        assert before <= oldest.at <= newest.at
        assert (oldest.actor, oldest.place, oldest.via) == ("ann", "10.0.0.7", "dashboard")
        assert (oldest.action, oldest.subject) == ("pause", "digest")
        assert (oldest.detail, oldest.outcome) == ("reason=holiday", DONE)
        assert newest.outcome is None

    async def test_lines_are_read_page_by_page(self, harness: Harness) -> None:
        audit = harness.backend.audit
        lines = [await audit.begin(NewAction("ann", "here", "cli", str(n))) for n in range(3)]
        first = await audit.find(limit=2)
        rest = await audit.find(below=first[-1].id)
        assert [line.id for line in (*first, *rest)] == lines[::-1]

    async def test_lines_about_one_thing_are_found(self, harness: Harness) -> None:
        audit = harness.backend.audit
        about = [
            await audit.begin(NewAction("ann", "here", "cli", "pause", subject))
            for subject in ("digest", "report", "digest", "digest")
        ]
        newest = await audit.find(subject="digest", limit=2)
        assert [line.id for line in newest] == [about[3], about[2]]
        rest = await audit.find(subject="digest", below=newest[-1].id)
        assert [line.id for line in rest] == [about[0]]
        assert await audit.find(subject="dig") == []

    async def test_old_lines_are_pruned_by_the_term_in_office(self, harness: Harness) -> None:
        audit, fence = harness.backend.audit, await harness.in_office()
        for n in range(3):
            await audit.begin(NewAction("ann", "here", "cli", str(n)))
        await harness.advance(harness.ttl)
        last = await audit.begin(NewAction("ann", "here", "cli", "new"))
        with pytest.raises(Fenced):
            await audit.prune(Fence(SCOPE, 9, "bob"), 0.0, 10)
        assert await audit.prune(fence, harness.ttl / 2, 2) == 2
        assert await audit.prune(fence, harness.ttl / 2, 10) == 1
        assert await audit.prune(fence, harness.ttl / 2, 10) == 0
        assert [line.id for line in await audit.find()] == [last]
