"""scripts/torture exactly-once: transactional tasks, and nodes that are killed, frozen and cut off.

Each run writes a bill through the connection of its transaction; one of the nodes lends that from
an SQLAlchemy engine. Nodes are killed, frozen until others have their runs, and, on PostgreSQL, cut
off at random moments until all runs have succeeded; then there is one bill for each, no more and no
less.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.faults.exactly_once import NODES, Shop
from tests.support.servers import PostgresServer

STORES = ("sqlite", "postgres")
WAYS = ("transactional", "engine")
RESTS = 0.1
MANY = 1_000
"""So many runs last long enough for some to be taken from a frozen node."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    print(f"seed {options.seed}", file=sys.stderr, flush=True)
    broken = False
    for store in STORES if options.store == "all" else [options.store]:
        with (
            tempfile.TemporaryDirectory(prefix="tenure-torture-") as folder,
            _url(store, Path(folder)) as url,
        ):
            broken = not _torture(store, url, options.runs, options.seed) or broken
    return int(broken)


def _torture(store: str, url: str, runs: int, seed: int) -> bool:
    shop = Shop(url, WAYS, RESTS)
    shop.enqueue(runs)
    begun = time.monotonic()
    shop.harm_nodes(random.Random(seed), runs)
    took = time.monotonic() - begun
    attempts = shop.ask(f"SELECT sum(attempt) FROM {shop.run}")
    wrong = shop.wrong()
    verdict = ", ".join(f"{what}: {n}" for what, n in wrong.items()) or "each exactly once"
    harm = ", ".join(f"{what} {n} times" for what, n in shop.harm.items())
    print(
        f"{store}: {runs:,} runs on {NODES} nodes in {took:.1f} s, {attempts:,} attempts; nodes"
        f" {harm}, {shop.taken} claims taken from frozen ones; {shop.bills:,} bills: {verdict}",
        flush=True,
    )
    frozen_enough = shop.taken > 0 or runs < MANY
    return not wrong and shop.bills == runs and frozen_enough


@contextmanager
def _url(store: str, folder: Path) -> Iterator[str]:
    if store == "sqlite":
        yield f"sqlite:///{folder}/shop.db"
        return
    server = PostgresServer()
    try:
        server.start()
        yield server.create_database("shop")
    finally:
        server.close()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/torture exactly-once", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="for each store: 10000")
    parser.add_argument("--store", choices=[*STORES, "all"], default="all")
    parser.add_argument("--seed", type=int, help="of the order and the moments of the harms")
    options = parser.parse_args(arguments)
    if options.seed is None:
        options.seed = time.time_ns() % 1_000_000
    return options
