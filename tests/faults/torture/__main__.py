"""scripts/torture: the command line."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from tests.faults.torture import beat, copying, exactly_once, rows, times
from tests.faults.torture.arena import STORES
from tests.faults.torture.progress import Progress
from tests.faults.torture.report import Report, Tally, report, table
from tests.faults.torture.run import Torture

INTERRUPTED = 130
OTHERS = {
    "beat": beat.main,
    "copy": copying.main,
    "exactly-once": exactly_once.main,
    "rows": rows.main,
    "times": times.main,
}
SHOWN = 20
DESCRIPTION = """\
Three nodes, 200 schedules a second: leaders are killed, frozen and cut off, servers are restarted
and emptied. Exits with 1 if an occurrence was fired twice, was early, or is not accounted for.
Progress goes to standard error, the table to standard output.
"""
EXAMPLES = """\
examples:
  scripts/torture                          a minute on each store
  scripts/torture 10 --store sqlite        ten seconds on one
  scripts/torture 3600 --json hour.json    an hour on each, and all figures in a file
  scripts/torture --store redis --seed 7   the harms in the order of an earlier run
  scripts/torture exactly-once             10,000 transactional runs on SQLite and PostgreSQL
  scripts/torture copy                     a cluster moved to PostgreSQL, the copier killed
  scripts/torture beat                     three celery beats and a worker
  scripts/torture rows 300                 nonsense in every table and key, on each store
  scripts/torture times 300                no faults: triggers against brute force, in all zones

Each store gets every harm at least once, however few seconds are given. Ctrl-C stops the nodes
and the servers, and shows what was done until then. docs/testing.md says how to read the table.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in OTHERS:
        return OTHERS[given[0]](given[1:])
    options = _parse(arguments)
    print(f"seed {options.seed}", file=sys.stderr, flush=True)
    reports: list[Report] = []
    logs: list[Path] = []
    for store in options.stores:
        folder = Path(tempfile.mkdtemp(prefix=f"tenure-torture-{store}-"))
        made = torture(store, folder, options.seconds, options.seed)
        reports.append(made)
        if made.broken or options.keep:
            logs.append(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        if options.json is not None:  # after each store: what was found is not lost any more
            _write(options.json, options.seed, options.seconds, reports)
        if not made.judged and not made.broken:
            break
    print(f"\n{table(reports)}")
    for made in reports:
        if made.latest:
            print(f"\nlatest on {made.store}")
            print("\n".join(f"  {line}" for line in made.latest))
    return _verdict(reports, logs)


def torture(store: str, folder: Path, seconds: float, seed: int) -> Report:
    """One store, from the first node to the verdict. Nothing of it runs on when this returns."""
    begun = time.monotonic()
    broken: list[str] = []
    found = tally = None
    try:
        with STORES[store](folder) as arena:
            tally = Tally(arena.cluster.journal)
            with Progress(store, tally, sys.stderr):
                Torture(arena, seconds, seed).run()
            found = arena.audit()
    except KeyboardInterrupt:
        pass
    except Exception as error:
        broken.append(f"{type(error).__name__}: {error}")
        (folder / "torture.log").write_text(traceback.format_exc())
    took = time.monotonic() - begun
    if tally is None:
        made = Report(store, seed, round(took, 1), {}, 0, broken=broken)
        return replace(made, judged=False)
    return report(store, seed, took, tally, found, broken)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Once: what stops the servers is not to be interrupted."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _verdict(reports: Sequence[Report], logs: Sequence[Path]) -> int:
    for made in reports:
        for text in made.broken[:SHOWN]:
            print(f"BROKEN on {made.store}: {text}", file=sys.stderr)
        if len(made.broken) > SHOWN:
            print(f"… and {len(made.broken) - SHOWN} more on {made.store}", file=sys.stderr)
    for folder in logs:
        print(f"logs, journal and database: {folder}", file=sys.stderr)
    if any(made.broken for made in reports):
        return 1
    if not all(made.judged for made in reports):
        print("stopped before the end: the last store was not judged", file=sys.stderr)
        return INTERRUPTED
    return 0


def _write(path: Path, seed: int, seconds: float, reports: Sequence[Report]) -> None:
    content = {
        "seed": seed,
        "seconds": seconds,
        "kept": all(made.verdict == "kept" for made in reports),
        "stores": {made.store: made.to_json() for made in reports},
    }
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/torture",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "seconds", nargs="?", type=_seconds, default=60.0, help="for each store: 60"
    )
    parser.add_argument("--store", choices=[*STORES, "all"], default="all")
    parser.add_argument("--seed", type=int, help="of the order and the moments of the harms")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there")
    parser.add_argument("--keep", action="store_true", help="keep the logs, whatever comes of it")
    options = parser.parse_args(arguments)
    options.stores = list(STORES) if options.store == "all" else [options.store]
    if options.seed is None:
        options.seed = time.time_ns() % 1_000_000
    if options.json is not None and not options.json.absolute().parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.absolute().parent}")
    return options


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError("from 0 to 86400, a day")
    return value


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    sys.exit(main())
