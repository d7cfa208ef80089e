"""scripts/torture copy: a cluster under load is moved from SQLite to PostgreSQL, or back.

The copier is killed at every step, a leader is frozen before the handover and thawed after it.
Each nominal time must be accounted for once across both stores.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.faults.accounting import Audit, audit
from tests.faults.moving import KILLS, Move
from tests.faults.postgres import PostgresCluster
from tests.faults.support import Cluster, Store
from tests.support.servers import PostgresServer

SHOWN = 20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/torture copy", description=__doc__)
    parser.add_argument("--schedules", type=int, default=200, help="of a second each: 200")
    parser.add_argument("--back", action="store_true", help="from PostgreSQL to a file")
    options = parser.parse_args(arguments)
    begun, server = time.monotonic(), PostgresServer()
    with tempfile.TemporaryDirectory(prefix="tenure-torture-") as name:
        folder = Path(name)
        try:
            server.start()
            found = (_back if options.back else _there)(folder, server, options.schedules)
        finally:
            server.close()
    counts = ", ".join(f"{number:,} {what}" for what, number in sorted(found.occurrences.items()))
    print(
        f"{options.schedules} schedules in {time.monotonic() - begun:.1f} s, copier killed {KILLS}"
        f" times: {counts}; {len(found.complaints)} complaints",
        flush=True,
    )
    for _, text in found.complaints[:SHOWN]:
        print(text, flush=True)
    return int(bool(found.complaints))


def _there(folder: Path, server: PostgresServer, schedules: int) -> Audit:
    cluster = Cluster(folder)
    try:
        target = PostgresCluster(folder, server)
        Move(cluster, target.url, schedules).through()
        return audit(cluster.journal, target.copy())
    finally:
        cluster.end()


def _back(folder: Path, server: PostgresServer, schedules: int) -> Audit:
    cluster, file = PostgresCluster(folder, server), folder / "new.db"
    try:
        Move(cluster, f"sqlite:///{file}", schedules).through()
        return audit(cluster.journal, Store(file))
    finally:
        cluster.end()
