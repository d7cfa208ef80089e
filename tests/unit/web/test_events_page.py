"""The page of events: how many wait behind a parked one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tenure import AsyncScheduler
from tenure.backends.memory import relays as memory
from tenure.model import Acknowledgement, Content, Fence, HeldLane, Lane, NewEvent
from tenure.model import relays as model
from tenure.web import dashboard
from tenure.web.reading import Reader, Store


@pytest.fixture
def client() -> Iterator[TestClient]:
    """A relay that has parked the first event of "a", and the first of "b"."""
    scheduler = AsyncScheduler("memory://")

    async def work(store: Store) -> None:
        fence = Fence("test", 1, "ann")
        assert await store.backend.office.take(fence) == fence
        said = [Content("ledger", "Paid", key=key) for key in "abaa"]
        await store.events.append([NewEvent(str(n), each) for n, each in enumerate(said)])
        await store.events.sequence(fence)
        relay = await store.relays.resume(fence, "hook", "webhook+https://host")
        held = [HeldLane(Lane("ledger", "ab"[n]), n + 1, 9, 0.0, "no", True) for n in (0, 1)]
        told = Acknowledgement(4, tuple(held))
        assert await store.relays.acknowledge(fence, "hook", relay.revision, told)

    asyncio.run(Reader(scheduler).ask(work))
    with TestClient(dashboard(scheduler), "http://localhost", client=("127.0.0.1", 1)) as made:
        yield made
    asyncio.run(scheduler.stop())


def test_parked_event_tells_what_waits_behind_it(client: TestClient) -> None:
    page = client.get("/events").text
    assert "2 events behind it" in page
    assert page.count("holds up its key") == 1  # nothing waits behind the other


def test_count_ends(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (memory, model):
        monkeypatch.setattr(module, "WAITING_COUNTED", 2)
    assert "2+ events behind it" in client.get("/events").text
