"""The audit: who changed what, from where, and what came of it."""

from __future__ import annotations

from tenure.model import AuditLine, subject_of
from tenure.web.api import cursors
from tenure.web.api.access import Opened
from tenure.web.api.table import Call, Operation
from tenure.web.api.values import Answer, Asked, Cursor, Limit, Moment, Wanted, iso


class AuditAnswer(Answer):
    """A line of the audit."""

    id: int
    at: Moment
    actor: str
    place: str
    """The address or host they asked from."""
    via: str
    """What they used: dashboard, api or cli."""
    action: str
    subject: str
    detail: str
    outcome: str | None
    """`done`, or why not; null: it is under way, or its process died."""


class AuditPage(Answer):
    """The newest first."""

    items: list[AuditAnswer]
    next: str | None


class ListAudit(Asked):
    """How many, and about what."""

    limit: Limit = 50
    cursor: Cursor | None = None
    subject: Wanted | None = None
    """The name of a schedule or lease, or the number of a run."""


def answer(line: AuditLine) -> AuditAnswer:
    return AuditAnswer(
        id=line.id,
        at=iso(line.at),
        actor=line.actor,
        place=line.place,
        via=line.via,
        action=line.action,
        subject=line.subject,
        detail=line.detail,
        outcome=line.outcome,
    )


async def list_audit(opened: Opened, call: Call) -> AuditPage:
    asked: ListAudit = call.query
    below = cursors.number("audit", asked.cursor)
    subject = None if asked.subject is None else subject_of(asked.subject)
    audit = opened.backend.audit
    found = await audit.find(limit=asked.limit + 1, below=below, subject=subject)
    shown = found[: asked.limit]
    following = cursors.encode("audit", shown[-1].id) if len(found) > asked.limit else None
    return AuditPage(items=[answer(line) for line in shown], next=following)


OPERATIONS = (
    Operation(
        "GET",
        "/audit",
        "listAudit",
        "List who changed what, from where, and what came of it.",
        list_audit,
        AuditPage,
        query=ListAudit,
    ),
)
