"""How far back history reaches: what a backfill refuses unless `beyond_history` is given."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tenure.errors import BeyondHistory


def check_covered(
    name: str, created_at: datetime, nominals: Sequence[datetime], pruned_to: datetime | None
) -> None:
    """Refuse nominal times whose runs may have been pruned.

    Every pruned run had ended by `pruned_to`. So a later nominal time was not pruned, and neither
    was any of a schedule that did not exist by then.
    """
    if pruned_to is None or created_at > pruned_to:
        return
    beyond = [nominal for nominal in nominals if nominal <= pruned_to]
    if beyond:
        raise BeyondHistory(
            f"schedule {name!r}: history reaches back to {_after(pruned_to)}. Runs that ended"
            f" before that were removed by retention, so {len(beyond):,} of these times, from"
            f" {_shown(beyond[0])} to {_shown(beyond[-1])}, may have been run already. Nothing was"
            " changed. Begin there, or give beyond_history=True (--beyond-history): then they are"
            " run, perhaps for the second time.",
            pruned_to,
        )


def _after(moment: datetime) -> str:
    """The next full second, so that giving the shown time is not refused again."""
    return _shown(moment + timedelta(seconds=1))


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
