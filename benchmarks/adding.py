"""Adding: 10,000 schedules in one call of `add_many`, checked, planned and stored, all or none.

Half of them `every`, half `cron` in a time zone, each with arguments of its own.
"""

from __future__ import annotations

import time

from benchmarks.figures import Figure, Say
from benchmarks.stores import Store
from tenure import NewSchedule, Scheduler, cron, every

TARGET = 2.0


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    repetitions, count = (1, 500) if quick else (5, 10_000)
    took: list[float] = []
    with store.fresh() as url:
        scheduler = Scheduler(url)
        scheduler.task(invoice)
        scheduler.schedules()  # connected, and the tables are there
        for number in range(1, repetitions + 1):
            entries = [_entry(number, place) for place in range(count)]
            begun = time.perf_counter()
            scheduler.add_many(entries)
            took.append(time.perf_counter() - begun)
            say(f"{number} of {repetitions}: {count:,} in {took[-1]:.2f} s")
        scheduler.stop()
    return [Figure(f"adding: {count:,} schedules in one call", "s", took, TARGET, "median")]


def invoice(customer: str) -> None: ...


def _entry(number: int, place: int) -> NewSchedule:
    trigger = (
        every(seconds=60 + place)
        if place % 2
        else cron(f"{place % 60} {place // 60 % 24} * * *", tz="Europe/Berlin")
    )
    kwargs = {"customer": f"customer-{place}"}
    name = f"invoice-{number}-{place:05}"
    return NewSchedule(name, trigger, task=invoice, kwargs=kwargs, tenant=f"tenant-{place % 100}")
