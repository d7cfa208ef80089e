"""`tenure audit`: who changed what, from where, and what came of it."""

from __future__ import annotations

from datetime import datetime

import click

from tenure.cli.numbers import COUNT
from tenure.cli.opened import Opened
from tenure.cli.output import Page, print_json, when
from tenure.cli.store import Store, as_json, of_store
from tenure.model import AuditLine, subject_of


@click.command()
@of_store
@as_json
@click.option("--limit", default=50, show_default=True, type=COUNT, help="How many.")
@click.option("--of", "subject", help="Only about this schedule, lease or run.")
def audit(store: Store, as_json: bool, limit: int, subject: str | None) -> None:
    """List the changes that people and programs have asked for, newest first.

    They are those of the dashboard, the HTTP API and the command line.

    An outcome of "unknown" means that the change is under way, or that its process died.

    \b
    Examples:
      tenure audit
      tenure audit --of nightly-import
      tenure audit --limit 500 --json
    """

    async def look(backend: Opened) -> tuple[datetime, list[AuditLine]]:
        about = None if subject is None else subject_of(subject)
        found = await backend.audit.find(limit=limit, subject=about)
        if not found:
            await backend.tell_namespace()
        return await backend.now(), found

    now, found = store.ask(look)
    if as_json:
        print_json([_json(line) for line in found])
        return
    Page().table(
        ["AT", "WHO", "FROM", "+BY", "ACTION", "OF", "+WITH", "OUTCOME"],
        (
            [
                when(line.at, now),
                line.actor,
                line.place,
                line.via,
                line.action,
                line.subject,
                line.detail,
                line.outcome or "unknown",
            ]
            for line in found
        ),
        empty="Nobody has changed anything." if subject is None else "Nobody has changed it.",
    )


def _json(line: AuditLine) -> dict[str, object]:
    return {
        "id": line.id,
        "at": line.at,
        "actor": line.actor,
        "place": line.place,
        "via": line.via,
        "action": line.action,
        "subject": line.subject,
        "detail": line.detail,
        "outcome": line.outcome,
    }
