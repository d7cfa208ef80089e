"""Spans for OpenTelemetry: of ticks (tick_spans.py), of runs while they are executed, and of relays
when they are over.

A run continues the trace of the tick that fired it, or of the code that enqueued it. A task runs
inside the span of its run, so its own spans are below it, and the events that it emits carry it to
their consumers. A relay's span links to the spans in which its events were made.

Only the API is used: without a tracer provider of the application's, nothing is recorded. The
semantic conventions for timers and messages are still in development, so their names are literal.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tenure.backends.base import LeaseBackend, Stores
from tenure.errors import ConfigError
from tenure.facts import EventsRelayed, Fact
from tenure.model.version import VERSION
from tenure.node.node import Node
from tenure.observe.tick_spans import TickSpans
from tenure.observe.watch import attached
from tenure.process.clock import to_micros
from tenure.scheduler.base import BaseScheduler
from tenure.scheduler.observers import Subject
from tenure.tasks.contexts import inside
from tenure.tasks.registry import Tasks
from tenure.tasks.run import Run
from tenure.triggers import Cron

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanContext, Tracer

MOST_LINKS = 128
"""What the SDK keeps of a span, unless told otherwise."""
MISSING = (
    "traces need the package opentelemetry-api, which is not installed: pip install"
    " 'tenure[traces]'."
)
Attributes = dict[str, str | int | float]
_logger = logging.getLogger("tenure.observe")


class Traces:
    """An observer that makes spans."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._subject: Subject | None = None
        self._ticks: TickSpans | None = None

    def starting(self, subject: Subject) -> None:
        self._subject = subject
        self._ticks = TickSpans(subject.around, _tracer)
        # Told on the thread for listeners: an exporter may block.
        subject.around.facts.on(EventsRelayed.name, self._relayed)

    def stores(self, stores: Stores) -> Stores:
        return stores if self._ticks is None else self._ticks.between(stores)

    def joined(self, node: Node, backends: Sequence[LeaseBackend]) -> None:
        pass

    async def leaving(self) -> None:
        pass

    def stopped(self) -> None:
        pass

    @contextmanager
    def run(self, run: Run) -> Iterator[None]:
        """The span of a run, around the task."""
        from opentelemetry.trace import SpanKind, use_span

        attributes: Attributes = {
            "faas.trigger": "other" if run.schedule is None else "timer",
            "faas.time": run.nominal.isoformat().replace("+00:00", "Z"),
            "tenure.task": run.task,
            "tenure.run": run.id,
            "tenure.attempt": run.attempt,
            "tenure.node": run.node,
        }
        if run.schedule is not None:
            attributes |= {"tenure.schedule": run.schedule, "tenure.term": run.term}
            attributes |= self._cron(run)
        try:
            span = _tracer().start_span(
                f"tenure.run {run.task}",
                context=_continued(run.traceparent),
                kind=SpanKind.CONSUMER,
                attributes=attributes,
            )
        except Exception:  # say a user's sampler: no reason not to execute it
            _logger.exception("the run %s cannot be traced", run.id)
            yield
            return
        with use_span(span, end_on_exit=True):
            yield

    def _cron(self, run: Run) -> Attributes:
        """Of a schedule that the code declares: the run itself does not say."""
        declared = run.schedule == run.task and run.task in self._tasks
        trigger = self._tasks[run.task].trigger if declared else None
        return {"faas.cron": trigger.expression} if isinstance(trigger, Cron) else {}

    def _relayed(self, fact: Fact) -> None:
        if isinstance(fact, EventsRelayed):
            from opentelemetry.trace import SpanKind

            attributes: Attributes = {
                "messaging.operation.type": "send",
                "messaging.operation.name": "relay",
                "messaging.batch.message_count": fact.count,
                "tenure.relay": fact.relay,
            }
            links = [link for each in fact.traces[:MOST_LINKS] if (link := _link(each))]
            name = f"tenure.relay {fact.relay}"
            self._past(name, fact.seconds, attributes, kind=SpanKind.PRODUCER, links=links)

    def _past(self, name: str, took: float, attributes: Attributes, **more: Any) -> None:
        """A span that ends now."""
        if self._subject is None:
            return
        end = self._subject.around.clock.now()
        begun = end - timedelta(seconds=took)
        span = _tracer().start_span(
            name, start_time=1_000 * to_micros(begun), attributes=attributes, **more
        )
        span.end(1_000 * to_micros(end))


def trace(scheduler: BaseScheduler) -> None:
    """Have spans made for this scheduler; once will do."""
    try:
        missing = find_spec("opentelemetry.trace") is None
    except ModuleNotFoundError:
        missing = True
    if missing:
        raise ConfigError(MISSING)
    observers = scheduler._runtime.observers
    if attached(observers, Traces) is None:
        traces = Traces(scheduler.tasks)
        observers.all.append(traces)
        scheduler.around(inside(traces.run))


def _tracer() -> Tracer:
    """Asked for each time: the provider may be set after the scheduler was made. It is cached."""
    from opentelemetry.trace import get_tracer

    return get_tracer("tenure", VERSION)


def _link(traceparent: str) -> Link | None:
    from opentelemetry.trace import Link

    found = _read(traceparent)
    return None if found is None else Link(found)


def _continued(traceparent: str | None) -> Context | None:
    """What the span of a run is in: the trace in which it was fired or enqueued, or none, not even
    what this thread is in by accident."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

    found = None if traceparent is None else _read(traceparent)
    return Context() if found is None else set_span_in_context(NonRecordingSpan(found), Context())


def _read(traceparent: str) -> SpanContext | None:
    from opentelemetry.trace import SpanContext, TraceFlags

    try:
        _, trace, span, flags = traceparent.split("-")[:4]
        found = SpanContext(
            int(trace, 16), int(span, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
        )
    except ValueError:  # the row was edited by hand
        return None
    return found if found.is_valid else None
