"""A log of events, for benchmarks that read it."""

from __future__ import annotations

import json

from benchmarks.firing import BATCH, FENCE
from benchmarks.stores import backend
from tenure.model import Content, NewEvent

TOPIC, KEYS = "ledger", 500
DATA = json.dumps({"account": 1042, "amount": "12.50", "text": "x" * 100})


async def fill(url: str, count: int) -> None:
    """With so many events that have their positions."""
    store = backend(url)
    await store.open()
    try:
        assert await store.office.take(FENCE) == FENCE
        for first in range(0, count, BATCH):
            numbers = range(first, min(count, first + BATCH))
            await store.events.append(
                [
                    NewEvent(f"e{number:08}", Content(TOPIC, "Booked", DATA, f"k{number % KEYS}"))
                    for number in numbers
                ]
            )
            while await store.events.sequence(FENCE):
                pass
    finally:
        await store.close()
