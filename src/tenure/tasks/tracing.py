"""The trace in which the caller's code runs, if it uses OpenTelemetry."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext


def traceparent() -> str | None:
    """As W3C Trace Context writes it; None outside of a trace.

    Nothing is imported for it: code that is in a span has imported OpenTelemetry itself.
    """
    api = sys.modules.get("opentelemetry.trace")
    return None if api is None else written(api.get_current_span().get_span_context())


def written(span: SpanContext) -> str | None:
    """The same for a span; None if it is none, as without a tracer provider."""
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags & 0xFF:02x}"
