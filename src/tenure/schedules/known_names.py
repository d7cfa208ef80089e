"""Whether anything on record has a name. What nobody has is mistyped, most likely."""

from __future__ import annotations

from tenure.backends.base import Backend

LOOKED_AT = 10_000
"""In so many schedules a task is looked for. In a store with more it counts as known."""


async def on_record(store: Backend, *, task: str | None = None, tenant: str | None = None) -> bool:
    """Is there a run or a schedule of this task, or tenant?"""
    if await store.runs.find(task=task, tenant=tenant, limit=1):
        return True
    most = 1 if task is None else LOOKED_AT
    found = await store.schedules.find(tenant=tenant, limit=most, ended=True)
    return len(found) == most or any(each.task == task for each in found.values())
