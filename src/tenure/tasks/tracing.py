"""The trace in which the caller's code runs, if it uses OpenTelemetry."""

from __future__ import annotations

import sys


def traceparent() -> str | None:
    """As W3C Trace Context writes it; None outside of a trace.

    Nothing is imported for it: code that is in a span has imported OpenTelemetry itself.
    """
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    span = api.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags & 0xFF:02x}"
