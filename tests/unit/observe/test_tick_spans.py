"""What tracing must not do to ticks and runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler
from opentelemetry.trace import StatusCode, TraceFlags

from tenure import Scheduler, every
from tenure.backends.base import Stores
from tenure.errors import StoreUnavailable
from tenure.observe import trace, traces
from tests.unit.observe.observing import Outage, until


class Exporter(SpanExporter):
    """Keeps spans, and says where it was called for ticks; blocks these while it is told to."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        self.threads: set[str] = set()
        self.flows = threading.Event()
        self.flows.set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if spans[0].name == "tenure.tick":
            self.flows.wait(60)
            self.threads.add(threading.current_thread().name)
        self.spans += spans
        return SpanExportResult.SUCCESS

    def ticks(self, status: StatusCode = StatusCode.UNSET) -> list[ReadableSpan]:
        ticks = [span for span in self.spans if span.name == "tenure.tick"]
        return [span for span in ticks if span.status.status_code is status]


class Raises(Sampler):
    def should_sample(self, *args: Any, **given: Any) -> Any:
        raise RuntimeError("no configuration")

    def get_description(self) -> str:
        return "raises"


@pytest.fixture
def exporter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Exporter]:
    exporter = Exporter()
    provider = TracerProvider(sampler=getattr(request, "param", None))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(traces, "_tracer", lambda: provider.get_tracer("tenure"))
    yield exporter
    exporter.flows.set()
    provider.shutdown()


@pytest.fixture
def scheduler() -> Scheduler:
    scheduler = Scheduler("memory://")
    scheduler.task(every(seconds=0.05), name="tick")(lambda: None)
    trace(scheduler)
    return scheduler


def _ran(scheduler: Scheduler, count: int = 1) -> bool:
    return len([run for run in scheduler.runs("tick") if run.finished_at is not None]) >= count


def test_exporter_that_blocks_holds_up_no_tick(exporter: Exporter, scheduler: Scheduler) -> None:
    with scheduler:
        until(exporter.ticks, "a tick")
        exporter.flows.clear()
        ticks = len(scheduler.runs("tick"))
        until(lambda: len(scheduler.runs("tick")) >= ticks + 5, "ticks that nobody exports")
        exporter.flows.set()
        until(lambda: len(exporter.ticks()) >= ticks + 5, "their spans")
    assert exporter.threads == {"tenure-facts"}


@pytest.mark.parametrize("exporter", [Raises()], indirect=True)
def test_tracer_that_raises_costs_only_the_trace(
    exporter: Exporter, scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    with scheduler:
        until(lambda: _ran(scheduler), "a run")
        run = min(scheduler.runs("tick"), key=lambda run: run.nominal)
    assert (run.state, run.traceparent) == ("succeeded", None)
    assert "a tick cannot be traced" in caplog.text
    assert f"the run {run.id} cannot be traced" in caplog.text


@pytest.mark.parametrize("exporter", [ALWAYS_OFF], indirect=True)
def test_trace_that_is_not_sampled_says_so_to_its_runs(
    exporter: Exporter, scheduler: Scheduler
) -> None:
    with scheduler:
        until(lambda: _ran(scheduler), "a run")
        [run, *_] = scheduler.runs("tick")
    assert run.traceparent is not None
    assert int(run.traceparent[-2:], 16) & TraceFlags.SAMPLED == 0
    assert exporter.spans == []


class LosesReplies(Outage):
    """Commits the first firing, and does not say so."""

    def stores(self, stores: Stores) -> Stores:
        schedules: Any = _Silent(stores.schedules)
        return replace(stores, schedules=schedules)


class _Silent:
    def __init__(self, behind: Any) -> None:
        self._behind, self._lost = behind, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    async def fire(self, *args: Any, **given: Any) -> Any:
        done = await self._behind.fire(*args, **given)
        if not self._lost and done.fired:
            self._lost = True
            raise StoreUnavailable("no reply")
        return done


def test_tick_whose_reply_was_lost_is_there_for_what_it_fired(
    exporter: Exporter, scheduler: Scheduler
) -> None:
    LosesReplies(scheduler)
    with scheduler:
        until(lambda: exporter.ticks(StatusCode.ERROR), "the tick that failed")
        until(lambda: _ran(scheduler, 2), "what it fired")
        first = min(scheduler.runs("tick"), key=lambda run: run.nominal)
    [failed] = exporter.ticks(StatusCode.ERROR)
    assert failed.context is not None
    assert first.traceparent is not None
    assert f"{failed.context.span_id:016x}" in first.traceparent
    assert "no reply" in (failed.status.description or "")
