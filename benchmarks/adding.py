"""Adding: 10,000 schedules in one call of `add_many`, checked, planned and stored, all or none.

Half of them `every`, half `cron` in a time zone, each with arguments of its own. Beside it, in
turns, as many copies of one schedule by a single statement: what the store can do at best.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from benchmarks.figures import Figure, Say
from benchmarks.stores import Store
from tenure import NewSchedule, Scheduler, cron, every, triggers

LEAST = 5_000.0


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    repetitions, count = (1, 500) if quick else (5, 10_000)
    ours: list[float] = []
    bare: list[float] = []
    for number in range(1, repetitions + 1):
        ours.append(count / _ours(store, count))
        bare.append(count / _bare(store, count))
        said = f"{ours[-1]:,.0f} added a second, {bare[-1]:,.0f} bare"
        say(f"{number} of {repetitions}, {count:,} schedules: {said}")
    ratios = [most / mine for mine, most in zip(ours, bare, strict=True)]
    what = f"adding: {count:,} schedules in one call"
    return [
        Figure(what, "/s", ours, LEAST, "median", least=True),
        Figure("adding: bare copies by one statement", "/s", bare),
        Figure("adding: time / bare time", "×", ratios),
    ]


def _ours(store: Store, count: int) -> float:
    entries = [_entry(place) for place in range(count)]
    with store.fresh() as url:
        scheduler = Scheduler(url)
        scheduler.task(invoice)
        try:
            scheduler.schedules()  # connected, and the tables are there
            begun = time.perf_counter()
            added = scheduler.add_many(entries)
            took = time.perf_counter() - begun
        finally:
            scheduler.stop()
    assert len(added) == count
    return took


def _bare(store: Store, count: int) -> float:
    with store.fresh() as url:
        scheduler = Scheduler(url)
        scheduler.task(invoice)
        try:
            scheduler.add_many([_entry(0)])
        finally:
            scheduler.stop()
        now = datetime.now(UTC)
        plans = [(triggers.dump(every(days=1, start=now)), now)]
        begun = time.perf_counter()
        store.multiply(url, plans, count)
        return time.perf_counter() - begun


def invoice(customer: str) -> None: ...


def _entry(place: int) -> NewSchedule:
    trigger = (
        every(seconds=60 + place)
        if place % 2
        else cron(f"{place % 60} {place // 60 % 24} * * *", tz="Europe/Berlin")
    )
    kwargs = {"customer": f"customer-{place}"}
    tenant = f"tenant-{place % 100}"
    return NewSchedule(f"invoice-{place:05}", trigger, task=invoice, kwargs=kwargs, tenant=tenant)
