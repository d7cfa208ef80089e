"""scripts/torture copy: a cluster under load is moved from SQLite to PostgreSQL.

The copier is killed at every step, a leader is frozen before the handover and thawed after it.
Each nominal time must be accounted for once across both stores.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.faults.accounting import audit
from tests.faults.moving import AFTER, BEFORE, Move
from tests.faults.postgres import PostgresCluster
from tests.faults.support import Cluster
from tests.support.servers import PostgresServer

SHOWN = 20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/torture copy", description=__doc__)
    parser.add_argument("--schedules", type=int, default=200, help="of a second each: 200")
    schedules: int = parser.parse_args(arguments).schedules
    begun, server = time.monotonic(), PostgresServer()
    with tempfile.TemporaryDirectory(prefix="tenure-torture-") as name:
        cluster = Cluster(Path(name))
        try:
            target = PostgresCluster(Path(name), server.start())
            Move(cluster, target.url, schedules).through()
            found = audit(cluster.journal, target.copy())
        finally:
            cluster.end()
            server.close()
    counts = ", ".join(f"{number:,} {what}" for what, number in sorted(found.occurrences.items()))
    kills = len(BEFORE) + len(AFTER) + 3  # and on the way to an abort
    print(
        f"{schedules} schedules in {time.monotonic() - begun:.1f} s, copier killed {kills} times:"
        f" {counts}; {len(found.complaints)} complaints",
        flush=True,
    )
    for _, text in found.complaints[:SHOWN]:
        print(text, flush=True)
    return int(bool(found.complaints))
