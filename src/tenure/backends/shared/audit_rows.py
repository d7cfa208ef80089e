"""The audit from rows of a SQL store. The stores differ only in how they store a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tenure.backends.shared.event_rows import as_moment, as_number, as_text
from tenure.backends.shared.relay_rows import optional
from tenure.model import AuditLine, NewAction
from tenure.process.clock import EPOCH

if TYPE_CHECKING:
    from tenure.backends.shared.rows import Row, When


def line(row: Row, when: When) -> AuditLine:
    return AuditLine(
        id=as_number(row["id"]),
        at=as_moment(row["at"], when) or EPOCH,
        actor=as_text(row["actor"]),
        place=as_text(row["place"]),
        via=as_text(row["via"]),
        action=as_text(row["action"]),
        subject=as_text(row["subject"]),
        detail=as_text(row["detail"]),
        outcome=optional(row["outcome"]),
    )


def values(action: NewAction) -> dict[str, Any]:
    """The columns of a new line."""
    names = ("actor", "place", "via", "action", "subject", "detail")
    return {name: getattr(action, name) for name in names}
