"""scripts/torture beat: three `celery beat -S tenure` and a worker, on Valkey.

Beats are killed 10 to 80 ms after they fired and at random moments, frozen past their ttl, and cut
off from their broker. In the end each occurrence was executed, with the guard of the workers none
was executed twice, and what was due around a kill came within a second.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.faults.beats import AIM, Beats


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    print(f"seed {options.seed}", file=sys.stderr, flush=True)
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="tenure-torture-beat-"))
    given = {"schedules": options.schedules, "ttl": options.ttl, "store": options.store}
    with Beats(folder, **given) as beats:
        beats.until_executed(2)
        _harm(beats, options.kills, options.away, random.Random(options.seed))
        beats.stop()
        wrong, gap = beats.wrong(), beats.gap()
        if gap > options.gap:
            wrong["late"] = beats.late(options.gap)
        harm = ", ".join(f"{what} {times}" for what, times in beats.harm.items())
        verdict = ", ".join(f"{what}: {names}" for what, names in wrong.items())
        print(
            f"{len(beats.executed()):,} occurrences in {time.monotonic() - begun:.0f} s; {harm};"
            f" {beats.ignored()} repeated messages ignored; at most {gap:.2f} s late after"
            f" {len(beats.kills)} kills:"
            f" {verdict or 'each executed once'}",
            flush=True,
        )
    if wrong:
        print(f"logs, journal and database: {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return int(bool(wrong))


def _harm(beats: Beats, kills: int, away: float, source: random.Random) -> None:
    """Of four kills, three are aimed; a beat is frozen before every tenth."""
    for number in range(kills):
        if number % 10 == 0:
            beats.freeze()
        if number == kills // 2:
            with beats.broker_away():
                time.sleep(away)
        if number % 4 == 3:
            beats.kill_any(source)
        else:
            beats.kill(source.uniform(*AIM))
        beats.until_executed(2)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/torture beat", description=__doc__)
    parser.add_argument("--kills", type=int, default=40, help="how many: 40")
    parser.add_argument("--schedules", type=int, default=20, help="of each second: 20")
    parser.add_argument("--away", type=float, default=10.0, help="seconds without the broker: 10")
    parser.add_argument("--gap", type=float, default=1.0, help="the most that a kill may delay: 1")
    parser.add_argument("--ttl", type=float, default=2.0, help="of the leader's lease: 2")
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--seed", type=int, help="of the moments of the harms")
    options = parser.parse_args(arguments)
    if options.seed is None:
        options.seed = time.time_ns() % 1_000_000
    return options
