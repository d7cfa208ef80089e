"""Hand-written paths beside the plain way that they replace: what each of them buys.

Both in turns, in one process, so that a busy machine slows down both. A path that buys little goes:
see docs/adr/0034-measured-or-gone.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, make_dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, cast

import psycopg
from cronsim import CronSim
from dateutil.rrule import rrulestr
from psycopg.adapt import PyFormat, Transformer

from benchmarks.figures import Figure, Say
from benchmarks.stores import Store
from tenure import Lease, Leases, cron, rrule
from tenure.backends.postgres.columns import Moments
from tenure.leases.keeping import Keeping
from tenure.model import RunRecord
from tenure.node.keeper import Held

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
ROWS = 1_000
Path = Callable[[], object]


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    turns = 3 if quick else 40
    with _leases(store) as (threaded, here):
        pairs: dict[str, tuple[Path, Path, int]] = {
            "cron backwards: cronsim / ours": (*_backwards(), 20),
            "cron that seldom matches: cronsim / ours": (*_seldom(), 2),
            "rrule of every second: dateutil / ours": (*_dense(), 20),
            "rrule with COUNT, read: dateutil / ours": (*_counted(), 1),
            "a run's record: frozen dataclass / ours": (*_record(), 200),
            "locks: by Tenure's thread / on the caller's": (threaded, here, 20),
        }
        if store.name == "postgres":
            pairs[f"a column of {ROWS:,} times: psycopg's list / ours"] = (*_column(), 5)
        return [
            Figure(f"paths: {what}", "×", _ratios(plain, ours, times, turns, what, say))
            for what, (plain, ours, times) in pairs.items()
        ]


def _ratios(plain: Path, ours: Path, times: int, turns: int, what: str, say: Say) -> list[float]:
    plain(), ours()
    ratios = [_took(plain, times) / _took(ours, times) for _ in range(turns)]
    say(f"{what}: {sorted(ratios)[len(ratios) // 2]:.1f}")
    return ratios


def _took(path: Path, times: int) -> float:
    begun = time.perf_counter()
    for _ in range(times):
        path()
    return time.perf_counter() - begun


def _backwards() -> tuple[Path, Path]:
    expression, trigger = "*/5 9-17 * * MON-FRI", cron("*/5 9-17 * * MON-FRI")
    return lambda: next(CronSim(expression, NOW, reverse=True)), lambda: trigger.latest(NOW)


def _seldom() -> tuple[Path, Path]:
    expression, trigger = "0 0 29 2 MON", cron("0 0 29 2 MON")
    return lambda: next(CronSim(expression, NOW)), lambda: trigger.next(NOW)


def _dense() -> tuple[Path, Path]:
    """Planned six hours after it began: dateutil goes through all that lies between."""
    text, start = "FREQ=SECONDLY;INTERVAL=7;BYHOUR=9,10,11", NOW - timedelta(hours=6)
    theirs, ours = rrulestr(text, dtstart=start), rrule(text, start=start).anchored(start)
    return lambda: theirs.after(NOW), lambda: ours.next(NOW)


def _counted() -> tuple[Path, Path]:
    text = "FREQ=DAILY;COUNT=10000"
    start = NOW - timedelta(days=1)
    return (
        lambda: rrulestr(text, dtstart=start)[-1],
        lambda: rrule(text, start=start).anchored(start),
    )


def _record() -> tuple[Path, Path]:
    """Made for every run that a node claims."""
    names = [field.name for field in fields(RunRecord)]
    frozen = make_dataclass("Frozen", names, frozen=True, slots=True)
    values = cast("Any", range(len(names)))
    return lambda: frozen(*values), lambda: RunRecord(*values)


def _column() -> tuple[Path, Path]:
    moments = [NOW + timedelta(seconds=number) for number in range(ROWS)]
    adapter = Transformer.from_context(psycopg.adapters)
    ours = Moments(moments)

    def dump(column: list[datetime | None]) -> object:
        return adapter.dump_sequence([column], [PyFormat.AUTO])

    return lambda: dump(list(moments)), lambda: dump(ours)


@contextmanager
def _leases(store: Store) -> Iterator[tuple[Path, Path]]:
    with store.place() as place, Leases(place.locks) as leases:
        with leases.hold("bench", store.lock_ttl, wait=60):
            pass
        names = count()

        def here() -> None:
            lease = leases.acquire(f"bench {next(names) % 10}", store.lock_ttl)
            assert lease is not None
            assert lease.release()

        def threaded() -> None:
            runtime = leases._runtime
            keeping = Keeping(store.lock_ttl)
            held = runtime.bring(runtime.take(f"bench {next(names) % 10}", keeping, keep=False))
            assert isinstance(held, Held)
            assert Lease(runtime, held).release()

        yield threaded, here
