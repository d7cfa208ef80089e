"""Floods a channel with notifications, as anybody who can connect could: until it is ended.

Usage: flood.py postgres|redis URL CHANNEL PAYLOAD RATE
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import psycopg
import redis

EACH = 0.005


def main() -> None:
    kind, url, channel, payload, rate = sys.argv[1:]
    number = int(int(rate) * EACH)
    send = (_on_postgres if kind == "postgres" else _on_redis)(url, channel, payload, number)
    print("begun", flush=True)  # noqa: T201
    due = time.monotonic()
    while True:
        send()
        due += EACH
        time.sleep(max(0.0, due - time.monotonic()))


def _on_postgres(url: str, channel: str, payload: str, number: int) -> Callable[[], object]:
    line = psycopg.connect(url, autocommit=True)
    # Equal ones count once in a transaction: ours one by one, and many that mean nothing.
    order = f"""
        DO $$ BEGIN
            PERFORM pg_notify('{channel}', md5(i::text)) FROM generate_series(1, {number}) AS i;
            FOR i IN 1..{max(number // 4, 1)} LOOP
                PERFORM pg_notify('{channel}', '{payload}');
                COMMIT;
            END LOOP;
        END $$
    """
    return lambda: line.execute(order)


def _on_redis(url: str, channel: str, payload: str, number: int) -> Callable[[], object]:
    line = redis.Redis.from_url(url)
    pipe = line.pipeline(transaction=False)

    def send() -> None:
        for _ in range(number):
            pipe.publish(channel, payload)
        pipe.execute()

    return send


if __name__ == "__main__":
    main()
