"""`tenure events`: what was emitted, who has read it, and what was delivered."""

from __future__ import annotations

import click

from tenure.cli.events.groups import groups, replay
from tenure.cli.events.listing import list_events, show, tail
from tenure.cli.events.parked import parked
from tenure.cli.events.relays import relays


@click.group()
def events() -> None:
    """List events, follow them, and see how far their readers have come.

    \b
    Examples:
      tenure events list --topic ledger        the latest
      tenure events tail ledger                what comes, until Ctrl+C
      tenure events groups                     who reads what, and what is unread
      tenure events replay ledger --group billing --since 2026-01-31
      tenure events relays                     how far events are delivered
      tenure events parked                     what could not be delivered
    """


for command in (list_events, show, tail, groups, replay, relays, parked):
    events.add_command(command)
