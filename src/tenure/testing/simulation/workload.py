"""What a simulated cluster has to do: tasks with schedules, people who edit them, and people who
enqueue runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from tenure.errors import Conflict, InvalidSchedule, NotFound, Retry, StoreError
from tenure.model import Event
from tenure.schedules.drafts import Drafts, NewSchedule
from tenure.schedules.editor import Editor
from tenure.settings import Settings
from tenure.tasks.registry import Tasks
from tenure.tasks.run import Run
from tenure.testing.simulation.history import CUSTOMER, EDITOR, EPOCH, FAULT, History
from tenure.testing.simulation.loop import Process, SimulationLoop
from tenure.testing.simulation.network import Link, Network
from tenure.triggers import Trigger, cron, every

INTERVALS = (1, 1.5, 2, 3, 5)
WORKED = "worked"
"""The topic of what tasks emit."""
EDITS = ("pause", "pause", "trigger", "policy", "run_now", "run_now", "add", "add", "backfill")

Workload = Callable[[Random], Tasks | Sequence[Tasks]]
"""Makes the tasks of a history; those with a trigger are scheduled. The source is the history's.

Several: editions of the code, rolled out one after the other, and again from the first."""


def random_editions(source: Random) -> list[Tasks]:
    """The workload unless you give your own: tasks, and now and then another edition of them."""
    first = random_tasks(source)
    if source.random() < 0.65:
        return [first]
    second = Tasks()
    changed, dropped = source.sample(sorted(task.name for task in first), 2)
    for task in first:
        if task.name == changed:
            second._put(replace(task, trigger=_trigger(source, source.choice(INTERVALS))))
        elif task.name != dropped or source.random() < 0.4:
            second._put(task)
    if source.random() < 0.4:
        second.declare(_task(source, longest=0.3), trigger=every(seconds=2), name="new")
    return [first, second]


def random_tasks(source: Random) -> Tasks:
    """A few short tasks with various policies: the workload unless you give your own."""
    tasks = Tasks()
    # A source of its own: the histories of all other seeds stay as they are.
    limits = Random(str(source.getstate()))
    for number in range(source.randint(2, 4)):
        interval = source.choice(INTERVALS)
        overlap = source.choice(["skip", "queue", "allow"])
        tasks.declare(
            _task(source, longest=interval * source.choice([0.05, 0.2, 0.4])),
            trigger=_trigger(source, interval),
            name=f"task{number + 1}",
            max_running=limits.choice([None, None, None, None, 1, 2]),
            policy={
                "overlap": overlap,
                "catch_up": source.choice(["latest", "latest", "all", "none"]),
                "catch_up_limit": source.choice([2, 5]),
                "catch_up_grace": source.choice([0.5, 3.0]),
                "lock": "shared" if source.random() < 0.2 and overlap != "allow" else None,
                "on_crash": source.choice(["rerun", "rerun", "abandon"]),
                "retries": source.choice([0, 0, 2]),
                "timeout": source.choice([None, None, 0.5]),
            },
        )
    return tasks


def _trigger(source: Random, interval: float, jitter: float = 0) -> Trigger:
    """Counted from when it was stored; or by the calendar, where different ones often agree on
    the next time."""
    if interval != int(interval) or source.random() < 0.65:
        return every(seconds=interval, jitter=jitter)
    return cron(f"*/{interval} * * * * *", jitter=jitter)


def _task(source: Random, longest: float) -> Callable[..., object]:
    failing = source.choice([0.0, 0.0, 0.1])

    async def work(run: Run) -> None:
        await asyncio.sleep(source.uniform(0.0, longest))  # noqa: TID251 - virtual
        chance = source.random()
        run.emit(Event(WORKED, "Worked", run.id, f"{run.id % 3}"))
        if chance < failing:
            raise Retry(delay=0.1) if chance < failing / 4 else ValueError("it failed")

    return work


class Operator:
    """Adds, pauses, resumes, replans, runs, backfills and removes, through the real editor."""

    def __init__(
        self,
        loop: SimulationLoop,
        network: Network,
        history: History,
        editions: Sequence[Tasks],
        settings: Settings,
        source: Random,
    ) -> None:
        self._loop = loop
        self._history = history
        self._settings = settings
        self._source = source
        scheduled = [task.name for tasks in editions for task in tasks if task.trigger is not None]
        self._names = list(dict.fromkeys(scheduled))
        self._tasks = [task.name for task in editions[0]]
        self._process = Process(EDITOR)
        link = Link(self._process)
        self._leases = network.leases(link)
        drafts = Drafts(editions[0], settings)
        self._editor = Editor(network.joined(link), drafts)
        self._count = 0

    def edit(self, what: str | None = None) -> None:
        """A few at once: people do not wait for each other."""
        for _ in range(self._source.randint(1, 3)):
            self._loop.spawn(self._process, self._edit(what or self._source.choice(EDITS)))

    def evict(self, name: str) -> None:
        """What an operator may do."""
        self._loop.spawn(self._process, self._guarded(self._leases.evict(name, "evicted")))

    async def _edit(self, what: str) -> None:
        source, editor = self._source, self._editor
        name = source.choice(self._names)
        self._history.add(self._loop.now, EDITOR, FAULT, what, name)
        self._count += 1
        if what == "run_now":
            await self._guarded(editor.run_now(name, f"key {self._count // 2}"))
        elif what == "trigger":
            trigger = _trigger(source, source.choice([1, 2, 2.5, 4]))
            await self._guarded(editor.update(name, trigger=trigger))
        elif what == "policy":
            await self._guarded(editor.update(name, priority=source.randint(0, 3)))
        elif what == "add":
            await self._add(f"added{self._count}")
        elif what == "backfill":
            await self._backfill(name)
        else:
            await self._pause(name)

    async def _pause(self, name: str) -> None:
        catch_up = self._source.random() < 0.4
        await self._guarded(self._editor.pause(name))
        await asyncio.sleep(self._source.uniform(0.0, 3.0))  # noqa: TID251 - virtual
        for _ in range(50):
            if await self._guarded(self._editor.resume(name, catch_up=catch_up)):
                break
            await asyncio.sleep(0.2)  # noqa: TID251 - virtual
        if self._source.random() < 0.5:
            await self._backfill(name)

    async def _add(self, name: str) -> None:
        """One that no code declares; some are removed again. Each has a name of its own: whoever
        adds a name anew begins a new account."""
        source = self._source
        trigger = _trigger(source, source.choice([1.5, 3]), source.choice([0, 0, 1.2]))
        overlap = source.choice(["skip", "queue", "allow"])
        catch_up = source.choice(["latest", "all", "none"])
        task = source.choice(self._tasks)
        new = NewSchedule(name, trigger, task=task, overlap=overlap, catch_up=catch_up)
        await self._guarded(self._editor.add(new))
        self._names.append(name)
        await asyncio.sleep(source.uniform(0.0, 6.0))  # noqa: TID251 - virtual
        if self._count % 2:
            name = await self._rename(name)
        if source.random() < 0.5:
            self._history.add(self._loop.now, EDITOR, FAULT, "remove", name)
            await self._guarded(self._editor.remove(name))

    async def _rename(self, name: str) -> str:
        """What is on record must stay with it. If the answer is lost, it may have either name."""
        to = f"{name}, renamed"
        self._history.add(self._loop.now, EDITOR, FAULT, "rename", name)
        done = await self._guarded(self._editor.rename(name, to))
        self._names.append(to)
        return to if done else name

    async def _backfill(self, name: str) -> None:
        """The last seconds, twice: the second time finds it done, unless the first was lost."""
        start = EPOCH + timedelta(seconds=self._loop.now - self._source.uniform(1.0, 6.0))
        end = start + timedelta(hours=1)
        for _ in range(2):
            await self._guarded(self._editor.backfill(name, start, end))

    async def _guarded(self, doing: object) -> bool:
        return await _guarded(doing, self._settings.ttl)


class Customer:
    """Enqueues runs, now and then, through the real editor."""

    def __init__(
        self,
        loop: SimulationLoop,
        network: Network,
        history: History,
        tasks: Tasks,
        settings: Settings,
        source: Random,
    ) -> None:
        self._loop = loop
        self._history = history
        self._settings = settings
        self._source = source
        self._tasks = [task.name for task in tasks]
        self._drafts = Drafts(tasks, settings)
        self._process = Process(CUSTOMER)
        self._editor = Editor(network.joined(Link(self._process)), self._drafts)
        self._count = 0

    def begin(self, until: float) -> None:
        self._loop.spawn(self._process, self._enqueue(until))

    async def _enqueue(self, until: float) -> None:
        while self._loop.now < until:
            await asyncio.sleep(self._source.uniform(0.0, 4.0))  # noqa: TID251 - virtual
            for _ in range(self._source.choice([1, 1, 3])):
                self._loop.spawn(self._process, self._ask())

    async def _ask(self) -> None:
        """Mostly twice, as one does who has had no answer; and others use the same key."""
        source = self._source
        at = EPOCH + timedelta(seconds=self._loop.now + source.uniform(-3.0, 3.0))
        times: list[dict[str, Any]] = [{}, {}, {"at": at}, {"delay": source.uniform(0.0, 2.0)}]
        self._count += source.choice([0, 1, 1])
        new = self._drafts.run(
            source.choice(self._tasks),
            key=f"key {self._count}",
            lock=source.choice([None, "shared"]),
            priority=source.choice([0, 0, 2]),
            **source.choice(times),
        )
        for _ in range(source.choice([1, 2, 2])):
            self._history.add(self._loop.now, CUSTOMER, FAULT, "enqueue", new.key)
            await _guarded(self._editor.enqueue(new), self._settings.ttl)
            await asyncio.sleep(source.uniform(0.0, 3.0))  # noqa: TID251 - virtual


async def _guarded(doing: Any, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await doing
    except (StoreError, Conflict, InvalidSchedule, NotFound, TimeoutError):
        return False
    return True
