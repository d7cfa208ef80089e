"""What a source has: schedules to be, each a line of JSON, or the reason why it cannot be one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tenure.errors import ConfigError
from tenure.schedules.drafts import Drafts, new_schedule
from tenure.triggers import dump

FOR_REVIEW = "imported, not reviewed yet"


@dataclass(frozen=True, slots=True)
class Found:
    """One entry of the source."""

    source: str
    """How the source calls it: an id, a line number."""
    entry: dict[str, Any] | None = None
    """The arguments of `Scheduler.add`; None if it cannot be carried over."""
    reason: str | None = None
    """Why it cannot."""
    notes: tuple[str, ...] = ()
    """What is not quite as it was."""

    def as_line(self) -> str:
        """For `tenure schedules add --file`."""
        assert self.entry is not None
        trigger = self.entry["trigger"]
        if not isinstance(trigger, str):
            trigger = json.loads(dump(trigger))
        return json.dumps(self.entry | {"trigger": trigger}, ensure_ascii=False)

    def as_json(self) -> dict[str, Any]:
        entry = None if self.entry is None else json.loads(self.as_line())
        return {
            "source": self.source,
            "schedule": entry,
            "reason": self.reason,
            "notes": list(self.notes),
        }


def checked(found: Iterable[Found], now: datetime) -> list[Found]:
    """The same; one that could not be added, or whose name is taken, gets the reason."""
    drafts, names, all_of_it = Drafts(), dict[str, str](), list[Found]()
    for one in found:
        checked_one = one
        if one.entry is not None:
            try:
                drafts.addition(new_schedule(one.entry), now)
                if (name := one.entry["name"]) in names:
                    raise ConfigError(f"{names[name]} has the same name {name!r}.")
                names[name] = one.source
            except ConfigError as error:
                checked_one = replace(one, entry=None, reason=str(error))
        all_of_it.append(checked_one)
    return all_of_it
