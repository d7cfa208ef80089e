"""A consumer that books every event: what it reads and what it writes commit together."""

from __future__ import annotations

import sys

from tenure import Scheduler


def main(url: str) -> None:
    scheduler = Scheduler(url)
    with scheduler.consumer("ledger", group="billing", limit=7) as consumer:
        for batch in consumer:
            with batch.transaction() as connection:
                for event in batch:
                    row = f"('{event.key}', {event.data}, {event.key_number})"
                    connection.execute(f"INSERT INTO booked (key, n, number) VALUES {row}")


if __name__ == "__main__":
    main(sys.argv[1])
