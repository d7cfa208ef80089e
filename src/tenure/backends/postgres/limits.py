"""Tasks of which only so many runs may be claimed at a time, by all nodes together.

A claim looks only at tasks without a limit, and says if one with a limit has room for a run that
is due. Only then runs are chosen from such tasks: no more than there is room for, and tenants take
turns. Some more follow, in case others have locked those. Nothing is locked for that. The claim
that follows locks the rules of these tasks, counts again, and takes what was chosen in the order of
all runs. So a task without room costs other claims
nothing but that look, and a cluster without limits does not get here.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from tenure.backends.postgres.statements import Transactions
from tenure.backends.shared.claim_turns import NEAR, ClaimTurns, most_asked
from tenure.model import RunRecord

_SPARE = 50
"""How many more are chosen than there is room for: other transactions may have locked some."""


class Limits:
    """Chooses runs of tasks with a limit."""

    def __init__(self, database: Transactions) -> None:
        self._database = database
        self._sql = database.statements("sql/runs.sql")
        self._turns: defaultdict[str, ClaimTurns] = defaultdict(ClaimTurns)
        """Whose turn it is, of each task."""

    async def choose(self, claim: dict[str, Any]) -> dict[str, Any]:
        """Which tasks have room, and the runs that a claim of these values may take of them."""
        rows = await self._database.one(self._sql["rooms"], claim)
        most = claim["limit"] + claim["ahead"]
        rooms = {row["name"]: min(row["room"], most) for row in rows if row["room"] > 0}
        chosen: list[int] = []
        wanted = 0
        for task, room in rooms.items():
            ids = await self._of(task, room, claim)
            chosen += ids
            wanted += min(room, len(ids))
        return {"only": list(rooms), "chosen": chosen, "wanted": wanted}

    async def _of(self, task: str, room: int, claim: dict[str, Any]) -> list[int]:
        turns = self._turns[task]
        values = {
            **claim,
            "only": [task],
            "limit": room,
            "ahead": 0,
            "asked": most_asked(room),
            "near": NEAR,
            "spare": _SPARE,
            "after": json.dumps(turns.after),
        }
        row = await self._chosen(values)
        if row["short"]:
            # It read only runs behind others of their lock key, which need not be ready.
            await self._database.one(self._sql["tidy_limited"], values)
            row = await self._chosen(values)
        if row["edge"] is not None:
            turns.turn_after(row["edge"], row["after"])
        return list(dict.fromkeys(row["ids"]))[: room + _SPARE]

    async def _chosen(self, values: dict[str, Any]) -> Any:
        [row] = await self._database.one(self._sql["choose"], values)
        return row


def left_over(runs: Iterable[RunRecord], chosen: Sequence[int], wanted: int) -> bool:
    """Has the claim taken fewer than so many of those that were chosen?"""
    return len({run.id for run in runs}.intersection(chosen)) < wanted
