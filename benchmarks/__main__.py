"""python -m benchmarks [names]: measure, show a table, say which targets were met."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import (
    adding,
    backlog,
    beat,
    beside,
    cost,
    crowd,
    document,
    events,
    executed,
    firing,
    handover,
    idle,
    lateness,
    locks,
    many,
    memory,
    observe,
    outage,
    pages,
    paths,
    processors,
    report,
    restart,
    startup,
    steady,
    takeover,
    transactional,
    weekend,
)
from benchmarks.figures import Figure, Run, Say
from benchmarks.stores import STORES, Store
from tenure.errors import ConfigError

BENCHMARKS: dict[str, Run] = {
    "takeover": takeover.run,
    "restart": restart.run,
    "freeze": outage.freeze,
    "cut": outage.cut,
    "handover": handover.run,
    "beat": beat.run,
    "lateness": lateness.run,
    "locks": locks.run,
    "idle": idle.run,
    "firing": firing.run,
    "many": many.run,
    "weekend": weekend.run,
    "adding": adding.run,
    "backlog": backlog.run,
    "cost": cost.run,
    "crowd": crowd.run,
    "executed": executed.run,
    "transactional": transactional.run,
    "events": events.run,
    "observe": observe.run,
    "memory": memory.run,
    "steady": steady.run,
    "pages": pages.run,
    "paths": paths.run,
    "startup": startup.run,
    "beside": beside.run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    begun = time.monotonic()
    written: dict[str, Any] = {}
    failed: list[str] = []
    missed = False
    for name in options.stores:
        with STORES[name](options.directory) as store:
            facts, stretch = report.machine(store, options.quick), processors.Stretch()
            _check_facts(options, name, facts)
            figures, used, broken = _measure(store, options, begun, facts)
            facts |= processors.stolen(stretch.shares(), used)
        every = [figure for found in figures.values() for figure in found]
        missed = missed or any(figure.met is False for figure in every)
        failed += [f"{name} {benchmark}" for benchmark in broken]
        written[name] = report.to_json(figures, facts)
        if options.json is not None:  # after each store: what is measured is not lost any more
            options.json.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
        shown = report.markdown if options.markdown else report.text
        print(f"{name}\n\n{shown(report.rows(every), facts)}\n", flush=True)
    if failed:
        print(f"FAILED, and not in the tables: {'; '.join(failed)}", file=sys.stderr)
    return int(bool(failed) or (options.strict and missed))


def _check_facts(options: argparse.Namespace, store: str, facts: Mapping[str, str]) -> None:
    """A part is not put beside what was measured with something else."""
    if options.update is None or not options.names:
        return
    if others := document.differs(options.update, store, facts):
        sys.exit(
            f"The table of {store} was measured with another {', '.join(others)}:"
            " leave the names out, and all of it is measured."
        )


def _measure(
    store: Store, options: argparse.Namespace, begun: float, facts: Mapping[str, str]
) -> tuple[dict[str, list[Figure]], dict[str, processors.Shares | None], list[str]]:
    """All that were asked for, and how the processors were used meanwhile. One that breaks takes
    none of the others with it."""
    figures: dict[str, list[Figure]] = {}
    used: dict[str, processors.Shares | None] = {}
    broken: list[str] = []
    for name in options.names or BENCHMARKS:
        say = _progress(f"{store.name} {name}", begun)
        if name in store.skips:
            say(f"left out: {store.skips[name]}")
            continue
        if name == "beside" and options.beside is None:
            say("left out: --beside says with what")
            continue
        stretch = processors.Stretch()
        try:
            run = BENCHMARKS[name]
            if run is steady.run:
                run = partial(steady.run, minutes=options.minutes)
            elif run is beside.run:
                run = partial(beside.run, before=options.beside)
            if not options.quick:
                store.wear_in()  # each time: a server removes files in quiet hours
            figures[name] = run(store, options.quick, say)
        except Exception:  # noqa: BLE001 - whatever it is, it is told
            say(f"FAILED\n{traceback.format_exc()}")
            broken.append(name)
        used[name] = stretch.shares()
        if options.update is not None and name in figures:  # at once: it may take hours to the end
            of_this = {**facts, **processors.stolen(used[name], {name: used[name]})}
            known = [each for each in BENCHMARKS if each not in store.skips]
            rows = {name: report.rows(figures[name])}
            document.update(options.update, store.name, rows, of_this, known)
    return figures, used, broken


def _progress(name: str, begun: float) -> Say:
    def say(line: str) -> None:
        passed = time.monotonic() - begun
        print(f"[{passed:6.1f} s] {name}: {line}", file=sys.stderr, flush=True)

    return say


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure Tenure on this machine. Progress goes to standard error, the tables"
        " to standard output. All of it takes an hour and more for a store.",
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--store", choices=[*STORES, "all"], default="sqlite")
    parser.add_argument("--directory", type=Path, help="where files are put; a temporary folder")
    parser.add_argument("--quick", action="store_true", help="see that it works; no real figures")
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="of the long stretch of `steady`; 0: none"
    )
    parser.add_argument(
        "--beside", type=Path, metavar="CHECKOUT", help="an older one, for `beside`"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--update", type=Path, metavar="FILE", help="renew the rows in FILE")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a target is missed")
    options = parser.parse_args(arguments)
    options.stores = list(STORES) if options.store == "all" else [options.store]
    if unknown := sorted(set(options.names) - set(BENCHMARKS)):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    if options.beside is not None and not (options.beside / "src" / "tenure").is_dir():
        parser.error(f"{options.beside} is no checkout of Tenure: it has no src/tenure")
    if options.update is not None:
        try:
            for store in options.stores:
                document.check(options.update, store)
        except ConfigError as error:
            parser.error(str(error))
    return options


if __name__ == "__main__":
    # Ended from outside, servers and nodes are stopped as with Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    sys.exit(main())
