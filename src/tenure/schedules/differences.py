"""What an edit changes about a schedule, from what to what, in the words of the options: one line
for the audit, whichever way the edit came."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from tenure import triggers
from tenure.errors import InvalidTrigger
from tenure.model import ScheduleSpec

NOTHING = "nothing differs"
_SECRET = {"kwargs": "other arguments", "data": "other data", "headers": "other headers"}
"""They may be secret, so that they differ has to do."""


def difference(old: ScheduleSpec, new: ScheduleSpec) -> str:
    """Such as `trigger: every 10m → every 5m; retries: 0 → 3`."""
    found = list(_of_trigger(old.trigger, new.trigger))
    found += pairs(_shown(old), _shown(new))
    before, after = _hidden(old), _hidden(new)
    found += [text for name, text in _SECRET.items() if before.get(name) != after.get(name)]
    return "; ".join(found) or NOTHING


def pairs(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """What is not the same in both."""
    names = [*before, *(name for name in after if name not in before)]
    both = [(name, before.get(name, "none"), after.get(name, "none")) for name in names]
    return tuple(f"{name}: {old} → {new}" for name, old, new in both if old != new)


def _of_trigger(old: str, new: str) -> tuple[str, ...]:
    if old == new:
        return ()
    before, after = _rule(old), _rule(new)
    if before == after:
        return (f"trigger: {after}, with another start",)
    return (f"trigger: {before} → {after}",)


def _rule(trigger: str) -> str:
    with suppress(InvalidTrigger, ValueError, OverflowError):
        return str(triggers.load(trigger))
    return "unreadable"


def _shown(spec: ScheduleSpec) -> dict[str, str]:
    event = spec.event
    found = {"name": spec.name, "tenant": spec.tenant or "none"}
    if event is None:
        found["task"] = spec.task
    else:
        found |= {"topic": event.topic, "type": event.type, "key": event.key or "none"}
    found |= {
        "catch_up": str(spec.catch_up),
        "catch_up_limit": str(spec.catch_up_limit),
        "catch_up_grace": f"{spec.catch_up_grace:g}",
    }
    if event is None:  # the others play no part
        found |= {
            "overlap": str(spec.overlap),
            "lock": spec.lock_rule or "none",
            "priority": str(spec.priority),
            "timeout": "none" if spec.timeout is None else f"{spec.timeout:g}",
            "retries": str(spec.retries),
            "on_crash": str(spec.on_crash),
        }
    return found


def _hidden(spec: ScheduleSpec) -> dict[str, str]:
    if spec.event is None:
        return {"kwargs": spec.kwargs}
    return {"data": spec.event.data, "headers": spec.event.headers}
