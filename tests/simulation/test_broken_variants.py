"""The checker must catch what is broken: a checker that never complains proves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.testing.simulation import SETTINGS, Weather, check, simulate
from tests.simulation import broken_runs as r
from tests.simulation import broken_schedules as s
from tests.simulation import broken_services as n
from tests.simulation import variants as v

AT_MOST = 200
EAGER = replace(SETTINGS, hint_every=0.1, poll=0.2)
LATE = Weather(late=0.1)

VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    "renewal does not compare the term": (
        {"store": v.with_leases(v.RenewsWithoutTerm), "weather": LATE},
        "only its own",
    ),
    "renewal compares nothing": (
        {"store": v.with_leases(v.RenewsAnybody)},
        "trust",
    ),
    "terms start again after a release": (
        {"store": v.with_leases(v.TermsStartAgain)},
        "terms grow",
    ),
    "deadline counted from the reply": (
        # Others must ask often to be there in the short time between the two deadlines.
        {"build_node": v.CountsFromReply, "faults": ["partition"], "settings": EAGER},
        "trust",
    ),
    "deadline never comes": ({"build_node": v.NeverGivesUp}, "trust"),
    "fence checked outside of the transaction": (
        {"store": v.with_schedules(v.FenceBeforeTransaction), "faults": ["pause"]},
        "old term",
    ),
    "an older term takes office": (
        {"store": v.with_schedules(v.AnybodyTakesOffice), "faults": ["pause"]},
        "terms grow",
    ),
    "occurrences without a unique key": (
        {"store": v.with_schedules(v.NoUniqueOccurrence), "weather": LATE},
        "accounted once",
    ),
    "occurrences without a unique key: runs": (
        {"store": v.with_schedules(v.NoUniqueOccurrence), "weather": LATE},
        "one run",
    ),
    "backfill does not look at what was fired": (
        {"store": v.with_schedules(v.BackfillsAgain)},
        "one run",
    ),
    "removal leaves the schedule to the leader": (
        {"store": v.with_schedules(v.FiresTheRemoved)},
        "removed",
    ),
    "a fixed look-back window": ({"build_node": v.LooksBackThreeSeconds}, "accounted once"),
    "planning by the node's wall clock": ({"build_node": v.BelievesItsWallClock}, "early"),
    "recovery without burial": (
        {"build_node": v.RecoversWithoutBurial, "faults": ["pause", "partition"]},
        "buried alive",
    ),
    "finishing any attempt": (
        {"store": v.with_runs(v.FinishesAnyAttempt)},
        "only its claim",
    ),
    "lock keys ignored": ({"store": v.with_runs(v.IgnoresLockKeys)}, "lock key"),
    "what is put back goes to the end": (
        {"store": v.with_runs(v.PutsBackAtTheEnd)},
        "queue order",
    ),
    "a retry is overtaken by its queue": (
        {"store": v.with_runs(v.ForgetsWhoBegan)},
        "queue order",
    ),
    "releases of other nodes do not count": ({"build_node": v.SeesOnlyItself}, "declared"),
    "lost claims are not looked for": ({"build_node": v.ForgetsLostClaims}, "stuck"),
    "fence by term only": (
        {"store": v.with_schedules(s.FencesByTerm), "faults": ["amnesia"]},
        "one holder per term",
    ),
    "firing does not compare the version": (
        {"store": v.with_schedules(s.FiresAnyVersion), "faults": ["edit"], "weather": LATE},
        "as planned",
    ),
    "firing does not compare the plan": (
        {"store": v.with_schedules(s.FiresFromAnywhere), "weather": LATE},
        "as planned",
    ),
    "overlap never skips": ({"store": v.with_schedules(s.NeverSkips)}, "overlap"),
    "overlap always skips": ({"store": v.with_schedules(s.AlwaysSkips)}, "overlap"),
    "overlap skips what should queue": (
        {"store": v.with_schedules(s.SkipsTheQueued)},
        "overlap",
    ),
    "last in, first out": ({"store": v.with_runs(r.LastInFirstOut)}, "queue order"),
    "crashes are not counted": (
        {"store": v.with_runs(r.CountsNoCrashes), "faults": ["crash"]},
        "counts",
    ),
    "retries are not counted": ({"store": v.with_runs(r.CountsNoRetries)}, "counts"),
    "what was put back succeeded": (
        {"store": v.with_runs(r.CallsItSucceeded), "faults": ["stop"]},
        "outcome",
    ),
    "pruning what is young": ({"store": v.with_runs(r.PrunesTheYoung)}, "retention"),
    "pruning what is unfinished": (
        {"store": v.with_runs(r.PrunesTheUnfinished)},
        "retention",
    ),
    "pruning what is needed": ({"store": v.with_runs(r.PrunesWhatIsNeeded)}, "retention"),
    "claims while suspended": (
        {"build_node": n.ClaimsWhileSuspended, "faults": ["pause", "partition"]},
        "untrusted",
    ),
    "one more than the limit is caught up": ({"build_node": n.CatchesUpOneMore}, "catch-up"),
    "nothing is too late": ({"build_node": n.CatchesUpLate}, "catch-up"),
    "the first is caught up, not the latest": ({"build_node": n.CatchesUpTheFirst}, "catch-up"),
    "no hold at a jump of the clock": (
        {"build_node": n.HoldsNothing, "faults": ["store clock"]},
        "hold",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_is_caught(name: str) -> None:
    changed, invariant = VARIANTS[name]
    seen: set[str] = set()
    for seed in range(AT_MOST):
        seen |= {violation.invariant for violation in check(simulate(seed, **changed))}
        if invariant in seen:
            return
    pytest.fail(f"{AT_MOST} histories, and [{invariant}] was not among {sorted(seen)}")
