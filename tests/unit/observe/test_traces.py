"""Spans, as the SDK of OpenTelemetry sees them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tenure import AsyncScheduler, ConfigError, Event, Run, Scheduler, cron
from tenure.facts import EventsRelayed
from tenure.observe import trace, traces
from tests.unit.observe.observing import until

FLAGS = api.TraceFlags(api.TraceFlags.SAMPLED)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(traces, "_tracer", lambda: provider.get_tracer("tenure"))
    yield exporter
    provider.shutdown()


def _named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def test_run_is_a_span_that_its_task_and_its_events_are_in(spans: InMemorySpanExporter) -> None:
    scheduler = Scheduler("memory://")
    trace(scheduler)
    trace(scheduler)  # once will do
    inside: list[api.SpanContext] = []

    @scheduler.task(cron("* * * * * *"), name="book")
    def book(run: Run) -> None:
        inside.append(api.get_current_span().get_span_context())
        run.emit(Event("ledger", "Booked", {}))

    with scheduler:
        until(lambda: _named(spans, "tenure.run book"), "the run")
        until(lambda: _named(spans, "tenure.tick"), "the tick")
        events = until(
            lambda: scheduler._runtime.thread.call(_logged(scheduler)), "the event of the run"
        )
    [span, *_] = _named(spans, "tenure.run book")
    assert span.context is not None
    assert span.context.span_id == inside[0].span_id
    identity = f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-"
    assert str(events[0]).startswith(identity)
    assert span.kind is SpanKind.CONSUMER
    about = span.attributes or {}
    assert about["faas.trigger"] == "timer"
    assert about["faas.cron"] == "* * * * * *"
    assert str(about["faas.time"]).endswith("Z")
    assert (about["tenure.schedule"], about["tenure.attempt"]) == ("book", 1)
    tick = _named(spans, "tenure.tick")[0]
    assert (tick.attributes or {})["tenure.fired"] == 1
    assert (span.parent and span.parent.span_id) == (tick.context and tick.context.span_id)


async def _logged(scheduler: Scheduler) -> list[str | None]:
    backend = await scheduler._runtime.backend()
    return [event.traceparent for event in await backend.events.read("ledger", 0)]


async def test_coroutine_is_inside_until_its_end_and_its_error_is_told(
    spans: InMemorySpanExporter,
) -> None:
    scheduler = AsyncScheduler("memory://")
    trace(scheduler)
    inside: list[int] = []

    @scheduler.task
    async def fail() -> None:
        inside.append(api.get_current_span().get_span_context().span_id)
        raise ValueError("no such customer")

    async with scheduler:
        await scheduler.enqueue(fail)
        await asyncio.to_thread(until, lambda: _named(spans, "tenure.run fail"), "the run")
    [span] = _named(spans, "tenure.run fail")
    assert span.context is not None
    assert inside == [span.context.span_id]
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["faas.trigger"] == "other"


def test_run_that_was_enqueued_continues_the_trace(spans: InMemorySpanExporter) -> None:
    scheduler = Scheduler("memory://")
    trace(scheduler)

    @scheduler.task
    def work() -> None: ...

    outside = api.NonRecordingSpan(api.SpanContext(7, 9, is_remote=False, trace_flags=FLAGS))
    with scheduler:
        with api.use_span(outside):
            run = scheduler.enqueue(work)
        assert run.traceparent == f"00-{7:032x}-{9:016x}-01"
        until(lambda: _named(spans, "tenure.run work"), "the run")
        scheduler.enqueue(work)
        until(lambda: len(_named(spans, "tenure.run work")) == 2, "the other run")
    first, second = _named(spans, "tenure.run work")
    assert first.parent is not None
    assert (first.parent.trace_id, first.parent.span_id) == (7, 9)
    assert second.parent is None


def test_relay_is_a_span_that_links_to_those_of_its_events(spans: InMemorySpanExporter) -> None:
    scheduler = Scheduler("memory://")
    trace(scheduler)
    with scheduler:
        told = scheduler._runtime._stages._facts
        good = f"00-{7:032x}-{9:016x}-01"
        told.tell(EventsRelayed("kafka", 3, 0.5, (good, "edited by hand", f"00-{0:032x}-0-01")))
        until(lambda: _named(spans, "tenure.relay kafka"), "the relay")
    [span] = _named(spans, "tenure.relay kafka")
    assert span.kind is SpanKind.PRODUCER
    assert [(link.context.trace_id, link.context.span_id) for link in span.links] == [(7, 9)]
    assert (span.end_time or 0) - (span.start_time or 0) == 500_000_000


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    monkeypatch.setattr(traces, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'tenure\[traces\]'"):
        trace(Scheduler("memory://"))
