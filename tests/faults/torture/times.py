"""scripts/torture times: triggers at random against brute force, in all zones."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, available_timezones

from tests.unit.contrib.celery_years import check_year
from tests.unit.triggers.random_triggers import Cases, changes, check_days, in_minutes

SHOWN = 20
CELERY_EACH = 16
"""One turn in so many also compares a year with Celery, which takes longer than all else in it."""
EACH = 4
"""So many triggers around each change; then comes the next zone."""
DESCRIPTION = """\
Triggers at random around the changes of the clocks, and rules of weeks, months and years, against
brute force minute by minute; and Celery's schedules, over a year, against Celery itself. Zones with
the same clocks count as one. Each zone has its turn before one comes again. Exits with 1 if there
is a difference.
"""


class Tally:
    """What was compared."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.zones: set[str] = set()
        self.changes: set[tuple[str, datetime]] = set()
        self.minutes = self.refused = self.celerys = 0
        self.broken: list[str] = []

    def __str__(self) -> str:
        return (
            f"{sum(self.kinds.values()):,} triggers, {self.minutes:,} minutes,"
            f" {len(self.zones)} zones, {len(self.changes)} changes,"
            f" {len(self.broken)} differences"
        )


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    print(f"seed {options.seed}", file=sys.stderr, flush=True)
    zones = _distinct(options.zone or sorted(available_timezones()), *options.years)
    tally, begun = Tally(), time.monotonic()
    said = begun
    try:
        for seed, (zone, change) in enumerate(_turns(zones, options.seed), options.seed):
            _look(tally, zone, change, seed)
            now = time.monotonic()
            if now - said >= 5:
                print(f"[{now - begun:6.0f} s] {tally}", file=sys.stderr, flush=True)
                said = now
            if now - begun >= options.seconds or len(tally.broken) >= SHOWN:
                break
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    for text in tally.broken:
        print(f"DIFFERENT {text}", file=sys.stderr)
    _show(tally, zones, time.monotonic() - begun)
    return 1 if tally.broken else 0


def _look(tally: Tally, zone: str, change: datetime, seed: int) -> None:
    cases = Cases(zone, change, seed)
    for _ in range(EACH):
        case = cases.case()
        tally.kinds[case.said.partition("(")[0]] += 1
        try:
            looked_at = case.check()
        except Exception as error:
            tally.broken.append(f"{change} {type(error).__name__}: {case.said} {error}"[:1_000])
        else:
            tally.minutes += looked_at
            tally.refused += not looked_at
    tally.kinds["days of rules"] += 1
    try:
        check_days(seed)
    except Exception as error:
        tally.broken.append(f"days {seed}: {type(error).__name__}: {error}"[:1_000])
    if seed % CELERY_EACH == 0:
        tally.kinds["years of Celery's"] += 1
        try:
            tally.celerys += check_year(zone, change.year, seed)
        except Exception as error:
            tally.broken.append(f"Celery {seed}: {type(error).__name__}: {error}"[:1_000])
    tally.zones.add(zone)
    tally.changes.add((zone, change))


def _distinct(names: Sequence[str], first: int, last: int) -> dict[str, list[datetime]]:
    """One of the zones that have the same clocks in these years, with their changes."""
    found: dict[object, tuple[str, list[datetime]]] = {}
    begin = datetime(first, 1, 1, tzinfo=UTC)
    for zone in names:
        there, moments = ZoneInfo(zone), changes(zone, first, last)
        if not moments and not in_minutes(zone, begin):
            continue
        offsets = [moment.astimezone(there).utcoffset() for moment in (begin, *moments)]
        found.setdefault((*moments, *offsets), (zone, moments or [begin]))
    return dict(found.values())


def _turns(zones: dict[str, list[datetime]], seed: int) -> Iterator[tuple[str, datetime]]:
    """Zone after zone, for ever, each with a change of its own."""
    chance = random.Random(seed)
    while True:
        for zone in chance.sample(sorted(zones), len(zones)):
            yield zone, chance.choice(zones[zone])


def _show(tally: Tally, zones: dict[str, list[datetime]], took: float) -> None:
    rows = {
        "seconds": f"{took:.0f}",
        **{kind: f"{times:,}" for kind, times in sorted(tally.kinds.items())},
        "refused": f"{tally.refused:,}",
        "minutes compared": f"{tally.minutes:,}",
        "occurrences compared with Celery": f"{tally.celerys:,}",
        "zones with clocks of their own": f"{len(tally.zones)} of {len(zones)}",
        "changes": f"{len(tally.changes)} of {sum(map(len, zones.values()))}",
        "differences": f"{len(tally.broken)}",
    }
    print("\n" + "\n".join(f"{name:<34}{value:>14}" for name, value in rows.items()))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/torture times",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("seconds", nargs="?", type=float, default=60.0, help="60")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument(
        "--zone", action="append", metavar="NAME", help="instead of all; repeatable"
    )
    parser.add_argument(
        "--years", nargs=2, type=int, default=(2024, 2030), metavar=("FIRST", "LAST")
    )
    return parser.parse_args(arguments)
