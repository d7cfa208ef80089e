"""python -m benchmarks [names]: measure, show a table, say which targets were met."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import firing, handover, idle, lateness, locks, report, takeover
from benchmarks.figures import Figure, Run, Say
from benchmarks.stores import STORES
from tenure.errors import ConfigError

BENCHMARKS: dict[str, Run] = {
    "takeover": takeover.run,
    "handover": handover.run,
    "lateness": lateness.run,
    "locks": locks.run,
    "idle": idle.run,
    "firing": firing.run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    store = STORES[options.store](options.directory)
    begun = time.monotonic()
    figures: dict[str, list[Figure]] = {}
    for name in options.names or BENCHMARKS:
        figures[name] = BENCHMARKS[name](store, options.quick, _progress(name, begun))
    every = [figure for found in figures.values() for figure in found]
    facts = report.machine(store)
    if options.json is not None:
        content = json.dumps(report.to_json(figures, facts), indent=2)
        options.json.write_text(content + "\n", encoding="utf-8")
    if options.update is not None:
        report.update(options.update, report.markdown(every, facts))
    print(report.markdown(every, facts) if options.markdown else report.text(every, facts))
    return int(options.strict and any(figure.met is False for figure in every))


def _progress(name: str, begun: float) -> Say:
    def say(line: str) -> None:
        passed = time.monotonic() - begun
        print(f"[{passed:6.1f} s] {name}: {line}", file=sys.stderr, flush=True)

    return say


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure Tenure on this machine. Progress goes to standard error, the table"
        " to standard output. All of it takes about six minutes.",
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--directory", type=Path, help="where files are put; a temporary folder")
    parser.add_argument("--quick", action="store_true", help="see that it works; no real figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--update", type=Path, metavar="FILE", help="renew the table in FILE")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a target is missed")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(BENCHMARKS)):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    if options.update is not None:
        try:
            report.check_document(options.update)
        except ConfigError as error:
            parser.error(str(error))
    return options


if __name__ == "__main__":
    sys.exit(main())
