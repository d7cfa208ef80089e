"""The checker must catch what is broken: a checker that never complains proves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.testing.simulation import SETTINGS, Weather, check, simulate
from tests.simulation import variants as v

AT_MOST = 200
EAGER = replace(SETTINGS, hint_every=0.1, poll=0.2)
LATE = Weather(late=0.1)

VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    "renewal does not compare the term": (
        {"build_backend": v.with_leases(v.RenewsWithoutTerm), "weather": LATE},
        "only its own",
    ),
    "renewal compares nothing": (
        {"build_backend": v.with_leases(v.RenewsAnybody)},
        "trust",
    ),
    "terms start again after a release": (
        {"build_backend": v.with_leases(v.TermsStartAgain)},
        "terms grow",
    ),
    "deadline counted from the reply": (
        # Others must ask often to be there in the short time between the two deadlines.
        {"build_node": v.CountsFromReply, "faults": ["partition"], "settings": EAGER},
        "trust",
    ),
    "deadline never comes": ({"build_node": v.NeverGivesUp}, "trust"),
    "fence checked outside of the transaction": (
        {"build_backend": v.with_schedules(v.FenceBeforeTransaction), "faults": ["pause"]},
        "old term",
    ),
    "an older term takes office": (
        {"build_backend": v.with_schedules(v.AnybodyTakesOffice), "faults": ["pause"]},
        "terms grow",
    ),
    "occurrences without a unique key": (
        {"build_backend": v.with_schedules(v.NoUniqueOccurrence), "weather": LATE},
        "accounted once",
    ),
    "occurrences without a unique key: runs": (
        {"build_backend": v.with_schedules(v.NoUniqueOccurrence), "weather": LATE},
        "one run",
    ),
    "backfill does not look at what was fired": (
        {"build_backend": v.with_schedules(v.BackfillsAgain)},
        "one run",
    ),
    "removal leaves the schedule to the leader": (
        {"build_backend": v.with_schedules(v.FiresTheRemoved)},
        "removed",
    ),
    "a fixed look-back window": ({"build_node": v.LooksBackThreeSeconds}, "accounted once"),
    "planning by the node's wall clock": ({"build_node": v.BelievesItsWallClock}, "early"),
    "recovery without burial": (
        {"build_node": v.RecoversWithoutBurial, "faults": ["pause", "partition"]},
        "buried alive",
    ),
    "finishing any attempt": (
        {"build_backend": v.with_runs(v.FinishesAnyAttempt)},
        "only its claim",
    ),
    "lock keys ignored": ({"build_backend": v.with_runs(v.IgnoresLockKeys)}, "lock key"),
    "what is put back goes to the end": (
        {"build_backend": v.with_runs(v.PutsBackAtTheEnd)},
        "in order",
    ),
    "a retry is overtaken by its queue": (
        {"build_backend": v.with_runs(v.ForgetsWhoBegan)},
        "in order",
    ),
    "releases of other nodes do not count": ({"build_node": v.SeesOnlyItself}, "declared"),
    "lost claims are not looked for": ({"build_node": v.ForgetsLostClaims}, "stuck"),
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
