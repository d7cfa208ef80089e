"""Spans of ticks: each firing transaction is one, and what it fires carries it to its node.

The span begins before the transaction, because runs and events are stored with it. So it stands
between the ticker and its store, and only if spans are traced: otherwise nothing is in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tenure.backends.base import Stores
from tenure.facts import Fact, Ticked
from tenure.model import Fault, Fence, Fired, Firing
from tenure.node.service import Surroundings
from tenure.process.clock import to_micros
from tenure.tasks.tracing import written

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

_logger = logging.getLogger("tenure.observe")


class TickSpans:
    """Of one start of a scheduler. All of it runs on Tenure's loop, so spans end elsewhere: an
    exporter may block."""

    def __init__(self, around: Surroundings, tracer: Callable[[], Tracer]) -> None:
        self._clock, self._facts = around.clock, around.facts
        self._tracer = tracer
        self._committed: Span | None = None
        """Of a transaction whose fact is still to come, in the same turn of the loop."""
        around.facts.on(Ticked.name, self._ticked, at_once=True)

    def between(self, stores: Stores) -> Stores:
        return replace(stores, schedules=_Traced(stores.schedules, self))  # type: ignore[arg-type]

    def begin(self) -> Span | None:
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind

        try:
            return self._tracer().start_span(
                "tenure.tick",
                context=Context(),
                kind=SpanKind.PRODUCER,
                attributes={"faas.trigger": "timer"},
                start_time=self._now(),
            )
        except Exception:  # say a user's sampler: no reason to fire nothing
            _logger.exception("a tick cannot be traced")
            return None

    def committed(self, span: Span) -> None:
        self._committed = span

    def failed(self, span: Span, error: BaseException) -> None:
        """It ends nevertheless: the transaction may have been committed, and what it has fired
        says that it belongs to this span."""
        from opentelemetry.trace import Status, StatusCode

        status = Status(StatusCode.ERROR, f"{type(error).__name__}: {error}")
        self._end(span, lambda: span.set_status(status))

    def _ticked(self, fact: Fact) -> None:
        span, self._committed = self._committed, None
        if span is None or not isinstance(fact, Ticked):
            return
        if not (fact.fired or fact.skipped or fact.missed):
            return  # all was stale: nobody refers to it, and it need not end
        attributes = {
            "tenure.term": fact.term,
            "tenure.fired": fact.fired,
            "tenure.skipped": fact.skipped,
            "tenure.missed": fact.missed,
            "tenure.late": fact.late,
        }
        self._end(span, lambda: span.set_attributes(attributes))

    def _end(self, span: Span, finish: Callable[[], None]) -> None:
        at = self._now()

        def end() -> None:
            finish()
            span.end(at)

        self._facts.later(end)

    def _now(self) -> int:
        return 1_000 * to_micros(self._clock.now())


class _Traced:
    """The schedules of a store. `fire` says in which trace it is; all else is as it was."""

    def __init__(self, behind: Any, spans: TickSpans) -> None:
        self._behind = behind
        self._spans = spans

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
    ) -> Fired:
        span = self._spans.begin() if firings else None
        if span is None:
            return await self._behind.fire(fence, firings, faults, at)  # type: ignore[no-any-return]
        trace = written(span.get_span_context())
        try:
            done: Fired = await self._behind.fire(fence, firings, faults, at, traceparent=trace)
        except BaseException as error:
            self._spans.failed(span, error)
            raise
        self._spans.committed(span)
        return done
