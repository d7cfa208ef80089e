"""Where the code of a task is, seen from another thread."""

from __future__ import annotations

import asyncio
import threading

from tenure.process.threads import Threads
from tenure.tasks.executor import Executor
from tenure.tasks.registry import Tasks
from tenure.tasks.run import Run
from tenure.tasks.stacks import LENGTH, UNKNOWN, of_thread
from tests.unit.tasks.test_executor import Execution, a_run


def waits_in_a_helper(go_on: threading.Event, begun: threading.Event) -> None:
    begun.set()
    go_on.wait(timeout=30)


async def test_stack_of_a_function_begins_with_the_users_code() -> None:
    go_on, begun = threading.Event(), threading.Event()

    def job() -> None:
        waits_in_a_helper(go_on, begun)

    tasks = Tasks()
    tasks.task(job)
    run = a_run("job")
    execution = Execution(
        tasks["job"], run, None, Executor(Threads("test"), asyncio.get_event_loop)
    )
    assert await asyncio.to_thread(begun.wait, 10)
    assert run.stack is not None
    stack = run.stack()
    go_on.set()
    await execution.end()
    lines = stack.splitlines()
    assert lines[0].endswith("in job")
    assert "in waits_in_a_helper" in stack
    assert "executor.py" not in stack
    assert of_thread(-1) == UNKNOWN


async def test_stack_of_a_coroutine_shows_where_it_waits() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def helper() -> None:
        begun.set()
        await go_on.wait()

    async def job(run: Run) -> None:
        await helper()

    tasks = Tasks()
    tasks.task(job)
    run = a_run("job")
    execution = Execution(tasks["job"], run, None)
    await begun.wait()
    assert run.stack is not None
    stack = run.stack()
    go_on.set()
    await execution.end()
    assert stack.splitlines()[0].endswith("in job")
    assert "in helper" in stack


async def test_coroutine_that_blocks_its_loop_is_seen_through_the_loops_thread() -> None:
    found: list[str] = []

    def looks(run: Run) -> None:
        assert run.stack is not None
        found.append(run.stack())

    async def job(run: Run) -> None:
        watcher = threading.Thread(target=looks, args=(run,))
        watcher.start()
        watcher.join(timeout=10)  # blocks the loop meanwhile

    tasks = Tasks()
    tasks.task(job)
    execution = Execution(tasks["job"], a_run("job"), None)
    await execution.end()
    assert "    watcher." in found[0]  # what the thread executes, not where a task waits


def test_only_the_end_of_a_deep_stack_is_shown() -> None:
    def deep(levels: int) -> str:
        return deep(levels - 1) if levels else of_thread(threading.get_ident())

    stack = deep(100)
    assert len(stack) <= LENGTH
    assert "in deep" in stack
