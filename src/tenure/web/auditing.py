"""Who asks for a change, and from where, for its line in the audit."""

from __future__ import annotations

from starlette.requests import Request

_OPEN = "unknown"


def who(request: Request) -> str:
    """As the guard has found out; in another application, as that says."""
    state = request.scope.get("state", {})
    return str(state.get("who") or state.get("actor") or "someone unknown")


def place(request: Request) -> str:
    """From where they ask."""
    state = request.scope.get("state", {})
    return str(state.get("place") or (request.client.host if request.client else _OPEN))
