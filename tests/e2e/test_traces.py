"""A trace from the tick of one node to the run on another, its event, and the relay of a third: as
the SDK of OpenTelemetry sees it, on real stores."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from tenure import Event, NewSchedule, Relay, Run, Scheduler, Settings, every
from tenure.observe import trace, traces
from tests.e2e import command
from tests.e2e.command import until
from tests.faults.relaying import receiver, to_receiver
from tests.support.http_receiver import HttpReceiver
from tests.support.servers import PostgresServer

RUN = "tenure.run book"
Spans = Callable[[str], list[ReadableSpan]]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'traces.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database("traces")


@pytest.fixture
def sink() -> Iterator[HttpReceiver]:
    with receiver() as made:
        yield made


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(traces, "_tracer", lambda: provider.get_tracer("tenure"))
    yield lambda name: [span for span in exporter.get_finished_spans() if span.name == name]
    provider.shutdown()


def node(url: str, **options: Any) -> Scheduler:
    scheduler = Scheduler(url, **options)
    trace(scheduler)

    @scheduler.task(name="book")
    def book(run: Run) -> None:
        run.emit(Event("ledger", "Booked", {}))

    return scheduler


def of(traceparent: str) -> tuple[int, int]:
    _, trace_id, span_id, _ = traceparent.split("-")
    return int(trace_id, 16), int(span_id, 16)


def here(context: api.SpanContext | None) -> tuple[int, int]:
    assert context is not None
    return context.trace_id, context.span_id


def test_trace_goes_from_the_tick_to_the_run_to_the_event_to_the_relay(
    url: str, sink: HttpReceiver, spans: Spans
) -> None:
    leader = node(url, concurrency=0)
    executor = node(url, leads=False)
    out = Relay(**to_receiver(sink, name="out"))
    role = Settings(leads=False, concurrency=0, idle_poll=0.5)
    relay = node(url, relays=[out], settings=role)
    with ExitStack() as stack:
        for each in (leader, executor, relay):
            stack.enter_context(each)
        due = every(hours=1, immediately=True)
        closing = NewSchedule("closing", due, emit=Event("ledger", "Closed", {}))
        leader.add_many([NewSchedule("booking", due, task="book"), closing])
        assert sink.has_received(2)
        [run] = until(lambda: spans("tenure.run book"), "the run")
        sent = until(lambda: _linked(spans, 2), "the deliveries")
        executes = executor._runtime.node
        assert executes is not None
    # The leader ticks; the run goes on in its trace, on the other node.
    ticks = {here(span.context): span for span in spans("tenure.tick")}
    assert run.parent is not None
    assert run.parent.is_remote
    tick = ticks[here(run.parent)]
    assert tick.parent is None
    assert tick.kind is SpanKind.PRODUCER
    assert (tick.end_time or 0) >= (tick.start_time or 0) > 1.7e18
    assert (tick.attributes or {})["faas.trigger"] == "timer"
    assert (tick.attributes or {})["tenure.term"] == 1
    fired: list[Any] = [(span.attributes or {})["tenure.fired"] for span in ticks.values()]
    assert sum(fired) == 2
    assert (run.attributes or {})["tenure.node"] == executes.id
    # The run's event has the run's span; what a schedule emits by itself has the tick's.
    arrived = {each.attributes["type"]: each.attributes["traceparent"] for each in sink.received}
    assert of(arrived["Booked"]) == here(run.context)
    assert of(arrived["Closed"]) in ticks
    # The relay belongs to no trace, and links to where its events were made.
    assert {span.parent for span in spans("tenure.relay out")} == {None}
    assert sent == {of(each) for each in arrived.values()}


def _linked(spans: Spans, count: int) -> set[tuple[int, int]] | None:
    links = {here(link.context) for span in spans("tenure.relay out") for link in span.links}
    return links if len(links) == count else None


ISOLATED = """
import json
import os

from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from tenure import Scheduler, every
from tenure.observe import trace


def line(span):
    parent = None if span.parent is None else span.parent.span_id
    told = span.name, os.getpid(), span.context.trace_id, span.context.span_id, parent
    return json.dumps(told) + "\\n"


exporter = ConsoleSpanExporter(out=open("spans", "a"), formatter=line)
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
api.set_tracer_provider(provider)
scheduler = Scheduler("sqlite:///jobs.db", ttl=5)
trace(scheduler)


@scheduler.task(every(seconds=1), isolate=True)
def book():
    with api.get_tracer("books").start_as_current_span("inside"):
        pass
"""


def test_isolated_task_continues_the_trace_in_its_own_process(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(ISOLATED)
    exported = tmp_path / "spans"

    def whole_trace() -> list[list[Any]] | None:
        """Inside, run and tick of the first trace that has all of them."""
        lines = exported.read_text().splitlines(keepends=True) if exported.exists() else []
        told = [json.loads(line) for line in lines if line.endswith("\n")]
        named = {(name, trace_id): span for span in told for name, _, trace_id, *_ in [span]}
        for name, trace_id in named:
            trace = [named.get((each, trace_id)) for each in ("inside", RUN, "tenure.tick")]
            if name == "inside" and None not in trace:
                return trace  # type: ignore[return-value]
        return None

    with command.node(tmp_path) as running:
        inside, run, tick = until(whole_trace, "a trace")
    assert (inside[-1], run[-1], tick[-1]) == (run[-2], tick[-2], None)
    assert tick[1] == running.pid
    assert run[1] == inside[1] != running.pid


def test_untraced_leader_stores_no_trace(url: str, spans: Spans) -> None:
    leader = Scheduler(url, concurrency=0)
    leader.task(name="book")(lambda: None)
    with leader, node(url, leads=False) as executor:
        leader.add("booking", every(hours=1, immediately=True), task="book")
        [run] = until(lambda: spans("tenure.run book"), "the run")
        [record] = executor.runs("booking")
    assert run.parent is None
    assert record.traceparent is None
    assert spans("tenure.tick") == []
