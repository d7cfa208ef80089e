"""How far history reaches: what a backfill must not fire without being told twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tenure.errors import BeyondHistory


def check_covered(
    name: str, created_at: datetime, nominals: Sequence[datetime], pruned_to: datetime | None
) -> None:
    """Refuse nominal times whose runs may have been pruned.

    Whatever was pruned had ended by `pruned_to`. So a later time was not among it, nor was any of
    a schedule that did not exist then.
    """
    if pruned_to is None or created_at > pruned_to:
        return
    beyond = [nominal for nominal in nominals if nominal <= pruned_to]
    if beyond:
        raise BeyondHistory(
            f"schedule {name!r}: history reaches back to {_after(pruned_to)}. Runs that ended"
            f" before that were removed by retention, so {len(beyond):,} of these times, from"
            f" {_shown(beyond[0])} to {_shown(beyond[-1])}, may have been run already. Nothing was"
            " changed. Begin there, or insist with beyond_history=True"
            " (--beyond-history): then they are run, for the second time perhaps.",
            pruned_to,
        )


def _after(moment: datetime) -> str:
    """The next full second: what is given again is not refused."""
    return _shown(moment + timedelta(seconds=1))


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
