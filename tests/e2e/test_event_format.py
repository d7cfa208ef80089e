"""Events of every origin are CloudEvents, as the CloudEvents library reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from tenure import Event, Run, Scheduler
from tenure.events.cloudevents import STRUCTURED, structured
from tenure.process.clock import to_micros
from tests.e2e.test_events import now, read
from tests.e2e.test_events import scheduler as scheduler  # noqa: PLC0414 - a fixture
from tests.e2e.test_events import url as url  # noqa: PLC0414 - a fixture
from tests.e2e.test_joining import postgres_url as postgres_url  # noqa: PLC0414 - a fixture
from tests.e2e.test_joining import sqlite_url as sqlite_url  # noqa: PLC0414 - a fixture

TRACE, SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def span() -> Callable[[], Any]:
    """Begins a span, as an instrumented application does."""
    context = SpanContext(TRACE, SPAN, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return lambda: use_span(NonRecordingSpan(context))


def test_attributes_say_where_an_event_comes_from(
    scheduler: Scheduler, span: Callable[[], Any]
) -> None:
    @scheduler.task
    def close(run: Run) -> None:
        with span():
            run.emit(Event("ledger", "Closed", 1, key="books"))

    with scheduler:
        added = scheduler.add("month-end", now(), emit=Event("ledger", "Ended", 2, key="books"))
        scheduler.enqueue(close)
        with span():
            identity = scheduler.emit(Event("ledger", "Opened", 3, key="books"))
        scheduler.emit(Event("ledger", "Untraced"), id="mine")
        found = sorted(read(scheduler, count=4), key=lambda event: event.position)
    sent = {
        event.type: from_http_event(HTTPMessage({"content-type": STRUCTURED}, structured(event)))
        for event in found
    }
    said = {kind: event.get_attributes() for kind, event in sent.items()}
    assert {event["source"] for event in said.values()} == {f"/tenure/{scheduler.namespace}"}

    nominal = added.next_nominal
    assert nominal is not None
    ended = said["Ended"]
    assert ended["id"] == f"{added.uid}/planned/{to_micros(nominal)}"
    assert (ended["subject"], ended["time"], ended["partitionkey"]) == (
        "month-end",
        nominal,
        "books",
    )
    assert said["Opened"]["id"] == identity
    assert said["Untraced"]["id"] == "mine"
    assert {kind: event.get("traceparent") for kind, event in said.items()} == {
        "Opened": PARENT,
        "Closed": PARENT,
        "Ended": None,
        "Untraced": None,
    }

    sequence = [said[event.type]["sequence"] for event in found]
    assert [int(text) for text in sequence] == [event.position for event in found]
    assert {len(text) for text in sequence} == {20}  # so it is in order as text, too
    keyed = [int(said[event.type]["keynumber"]) for event in found if event.key]
    assert keyed == list(range(keyed[0], keyed[0] + 3))
    assert "keynumber" not in said["Untraced"]
    said_of: dict[str, Any] = {"Closed": 1, "Ended": 2, "Opened": 3, "Untraced": None}
    for kind, data in said_of.items():
        assert sent[kind].get_data() == data, kind
