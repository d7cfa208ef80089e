"""The checker must catch what is broken: a checker that never complains proves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.testing.simulation import SETTINGS, Weather, check, simulate
from tests.simulation import broken_events as e
from tests.simulation import broken_limits as m
from tests.simulation import broken_relays as y
from tests.simulation import broken_runs as r
from tests.simulation import broken_schedules as s
from tests.simulation import broken_services as n
from tests.simulation import broken_tenants as t
from tests.simulation import variants as v
from tests.simulation.catching import catch

EAGER = replace(SETTINGS, hint_every=0.1, poll=0.2)
LATE = Weather(late=0.1)
CROWDED: dict[str, Any] = {
    "workload": t.crowded_tasks,
    "settings": replace(SETTINGS, concurrency=1),
}

VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    "positions by serial": ({"store": e.with_events(e.PositionsBySerial)}, "log order"),
    "positions given without a fence": (
        {"store": e.with_events(e.SequencesWithoutFence), "faults": ["pause"], "weather": LATE},
        "old term",
    ),
    "positions given in two steps": (
        {"store": e.with_events(e.SequencesInTwoSteps), "faults": ["pause"], "weather": LATE},
        "log order",
    ),
    "keys counted anew": ({"store": e.with_events(e.ForgetsKeys)}, "key order"),
    "a group is given an event twice": ({"store": e.with_events(e.GivesTwice)}, "read once"),
    "unread events deleted by their age": (
        {"store": e.with_events(e.DeletesByAge), "settings": replace(SETTINGS, retention=0.2)},
        "read once",
    ),
    "an event in a transaction of its own": (
        {"store": v.with_schedules(e.EmitsAfterwards)},
        "one event",
    ),
    "events of a result that is refused": (
        {"store": v.with_runs(e.EmitsWhatIsRefused), "faults": ["partition", "pause"]},
        "with result",
    ),
    "a task's events in a transaction of their own": (
        {"store": v.with_runs(e.EmitsAfterTheResult)},
        "with result",
    ),
    "a relay acknowledges before it sends": (
        {"build_node": y.node_with(y.HastyRelay)},
        "delivered",
    ),
    "a parked event does not hold its key": (
        {"build_node": y.node_with(y.CarelessRelay)},
        "delivery order",
    ),
    "a relay forgets what it holds": (
        {"build_node": y.node_with(y.ForgetfulRelay)},
        "delivered",
    ),
    "a former relay acknowledges": (
        {"store": y.without_fence, "faults": ["pause"], "weather": LATE},
        "old term",
    ),
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
        {"store": v.with_office(v.AnybodyTakesOffice), "faults": ["pause"]},
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
    "crashed attempts are not on record": (
        {"store": v.with_runs(r.ForgetsCrashedAttempts)},
        "attempts",
    ),
    "what never began is on record as an attempt": (
        {"store": v.with_runs(r.RecordsWhatNeverBegan)},
        "attempts",
    ),
    "reports of any claim are believed": (
        {"store": v.with_runs(r.BelievesLateReports), "workload": r.telling_tasks},
        "attempts",
    ),
    "attempts stay when their run is deleted": (
        {"store": v.with_runs(r.KeepsAttempts)},
        "attempts",
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
    "editions of other nodes do not count": ({"build_node": v.SeesOnlyItself}, "declared"),
    "lost claims are not looked for": ({"build_node": v.ForgetsLostClaims}, "stuck"),
    "fence by term only": (
        {"store": v.with_office(s.FencesByTerm), "faults": ["amnesia"]},
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
    "overlap looks at earlier transactions only": (
        {"store": v.with_schedules(s.JudgesFromBefore)},
        "overlap",
    ),
    "of one lock key the last fires": (
        {"store": v.with_schedules(s.FiresTheLast)},
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
    "enqueuing what is there": ({"store": v.with_runs(r.AddsAgain)}, "enqueued"),
    "keys of what has ended are forgotten": (
        {"store": v.with_runs(r.ForgetsKeysOfTheFinished)},
        "enqueued",
    ),
    "an enqueued run is answered and not kept": (
        {"store": v.with_runs(r.AnswersAndDoesNotKeep)},
        "enqueued",
    ),
    "an attempt that never began is counted": (
        {"store": v.with_runs(r.CountsWhatNeverBegan)},
        "enqueued",
    ),
    "pruning what is young": ({"store": v.with_runs(r.PrunesTheYoung)}, "retention"),
    "pruning what is unfinished": (
        {"store": v.with_runs(r.PrunesTheUnfinished)},
        "retention",
    ),
    "pruning what is needed": ({"store": v.with_runs(r.PrunesWhatIsNeeded)}, "retention"),
    "cancelling what is claimed": (
        {"store": v.with_runs(r.CancelsTheClaimed), "faults": ["control"]},
        "only its claim",
    ),
    "cancelling in words only": (
        {"store": v.with_runs(r.OnlySaysThatItCancels), "faults": ["control"]},
        "cancelled",
    ),
    "what was cancelled is put back": (
        {"store": v.with_runs(r.PutsBackTheCancelled), "faults": ["control", "stop"]},
        "cancelled",
    ),
    "what was cancelled is run again after a crash": (
        {"store": v.with_runs(r.RerunsTheCancelled), "faults": ["control", "crash"]},
        "counts",
    ),
    "retrying with old numbers": (
        {"store": v.with_runs(r.RetriesFromTheFirstClaim), "faults": ["control"]},
        "retried",
    ),
    "retrying what is claimed": (
        {"store": v.with_runs(r.RetriesWhateverItIs), "faults": ["control"]},
        "only its claim",
    ),
    "nobody has a turn": (
        {"store": v.with_runs(t.TakesTheOldest), **CROWDED},
        "turns",
    ),
    "whose turn it was is forgotten": (
        {"store": v.with_runs(t.BeginsWithTheFirst), **CROWDED},
        "turns",
    ),
    "a limit is ignored": (
        {"store": v.with_runs(m.IgnoresLimits), "workload": m.limited_tasks},
        "limit",
    ),
    "a limit of each claim": (
        {"store": v.with_runs(m.LimitsEachClaim), "workload": m.limited_tasks},
        "limit",
    ),
    "the dead keep their places": (
        {"store": v.with_runs(m.CountsTheDead), "workload": m.limited_tasks},
        "unfinished",
    ),
    "claims while suspended": (
        {"build_node": n.ClaimsWhileSuspended, "faults": ["pause", "partition"]},
        "untrusted",
    ),
    "a wake-up is lost between the look and the sleep": (
        # Beside others it would not be noticed: one of them is awake.
        {
            "build_node": n.LooksAndThenListens,
            "nodes": 1,
            "faults": ["edit"],
            "workload": n.close_together,
        },
        "prompt",
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
    catch(f"variant: {name}", invariant, **changed)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_tenants_take_turns_in_a_crowd(store: str) -> None:
    """What cannot be done in the time is left undone; but in turns, and in order."""
    for seed in range(4):
        seen = {violation.invariant for violation in check(simulate(seed, store=store, **CROWDED))}
        assert seen <= {"unfinished"}, seed


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_limits_are_kept_and_all_runs_executed(store: str) -> None:
    for seed in range(4):
        history = simulate(seed, store=store, workload=m.limited_tasks)
        assert not check(history), seed
