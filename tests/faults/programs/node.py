"""A scheduler in a process of its own. Executes its tasks, and journals all that it does."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tenure import Relay, Run, Scheduler, Settings, every
from tenure.facts import Fact
from tenure.triggers import Every, stored_form
from tests.faults.programs.common import Options, start


def main(options: Options) -> None:
    scheduler = make(options)
    gate = options.get("gate")
    options.write("imported")
    while gate and not Path(gate).exists():
        time.sleep(0.0005)
    scheduler.run()
    options.write("ended")


def make(options: Options) -> Scheduler:
    """A scheduler as the options say.

    ttl, settings: its numbers. leases: where they are, if not in the store. app: of its tasks.
    relays: what `Relay` is given, for each. health: where it serves its health,
        and survey: how often it looks at the store for that, while it leads.
    patience: how many seconds a loop or all slots may hang before its health fails.
    hangs: told this word, its loop hangs.
    triggers: names of types that only this code knows; they are read as `every`.
    tasks: a list of
        name; seconds: its interval
        work: how many seconds an execution takes; `again`: its attempts after the first
        until: a word of the test; a first attempt lasts until the node was told it
        coroutine: whether it is one
        on_crash, overlap, …: as they are
    """
    for name in options.get("triggers", []):
        stored_form._TYPES[name], stored_form.KNOWN[name] = Every, (1,)
    if options.get("survey"):
        from tenure.observe import survey

        survey.EVERY = options["survey"]
    if options.get("patience"):
        from tenure.observe import health

        health.LOOP_HUNG = health.SLOTS_HUNG = options["patience"]
        health.TTLS = 0
    numbers = {"ttl": options["ttl"], "reap_every": 0.5, **options.get("settings", {})}
    scheduler = Scheduler(
        options["url"],
        leases=options.get("leases"),
        app=options.get("app", "default"),
        migrate=options.get("migrate", True),
        settings=Settings(**numbers),
        relays=[Relay(**relay) for relay in options.get("relays", [])],
        health=options.get("health"),
    )
    for spec in options.get("tasks", []):
        declare(scheduler, options, **spec)
    scheduler.on("*", listener(options))
    if options.get("hangs"):
        threading.Thread(target=_hang, args=(scheduler, options), daemon=True).start()
    return scheduler


def _hang(scheduler: Scheduler, options: Options) -> None:
    word = options.journal.path.with_name(f"{options.who}.{options['hangs']}")
    while not word.exists():
        time.sleep(0.01)
    word.unlink()  # its successor is well
    scheduler._runtime.thread.loop.call_soon_threadsafe(threading.Event().wait)


def declare(
    scheduler: Scheduler,
    options: Options,
    *,
    name: str,
    seconds: float,
    work: float = 0.0,
    again: float | None = None,
    until: str | None = None,
    coroutine: bool = False,
    **policy: Any,
) -> None:
    def begin(run: Run) -> float:
        """Returns how long to work."""
        options.write("begin", **_about(run))
        return work if run.attempt == 1 or again is None else again

    def end(run: Run) -> None:
        options.write("end", **_about(run), cancelled=run.cancelled)

    def plain(run: Run) -> None:
        time.sleep(begin(run))
        word = options.journal.path.with_name(f"{options.who}.{until}")
        while until is not None and run.attempt == 1 and not word.exists():
            time.sleep(0.01)
        end(run)

    async def awaited(run: Run) -> None:
        await asyncio.sleep(begin(run))
        end(run)

    function: Callable[[Run], Any] = awaited if coroutine else plain
    scheduler.task(every(seconds=seconds), name=name, **policy)(function)


def listener(options: Options) -> Callable[[Fact], None]:
    def tell(fact: Fact) -> None:
        options.write("fact", name=fact.name, **_plain(fact))

    return tell


def _plain(fact: Fact) -> dict[str, object]:
    return {key: value for key, value in fact.values().items() if key != "name"}


def _about(run: Run) -> dict[str, object]:
    return {
        "run": run.id,
        "schedule": run.schedule,
        "nominal": round(run.nominal.timestamp() * 1_000_000),
        "attempt": run.attempt,
    }


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    start(main)
