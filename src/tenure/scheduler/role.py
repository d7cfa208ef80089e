"""Is there anything for this process to do? Checked when it starts: all its tasks are declared."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.errors import ConfigError
from tenure.events.relay import Relay
from tenure.settings import Settings
from tenure.tasks.registry import Tasks


def check_role(settings: Settings, tasks: Tasks, relays: Sequence[Relay] = ()) -> None:
    """Refuse a node that would wait for ever for something to do."""
    if not settings.concurrency and not settings.leads and not relays:
        raise ConfigError(
            "this node neither schedules nor executes: it has concurrency=0 and leads=False"
            " (--concurrency 0, --no-lead). Leave out one of them; or do not start it, which"
            " add(), enqueue() and other calls do not need."
        )
    known = sorted({task.options.queue for task in tasks})
    unknown = [name for name in settings.queues if name not in known]
    if unknown:
        others = f"This code has: {', '.join(known)}." if known else "This code has no tasks."
        raise ConfigError(f"no task has the queue {unknown[0]!r}. {others}")
