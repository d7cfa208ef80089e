"""Tasks that behave badly. The test enqueues them; `hostile.py` executes them."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from tenure import Backoff, Retry, Run, Tasks

tasks = Tasks()
isolated = Tasks()
"""Each in a process of its own."""
SHORT = 6.0
"""Longer than the start of a process takes on a busy machine."""
AT_ONCE = Backoff.constant(0)
RAISED = {
    "exit": SystemExit,
    "interrupt": KeyboardInterrupt,
    "close": GeneratorExit,
    "cancel": asyncio.CancelledError,
}


class OutOfPaper(Exception):
    """An error that only this module knows."""


class Mute(TimeoutError):
    """It cannot even say what it is."""

    def __str__(self) -> str:
        raise SystemExit("no word")


def note(folder: str, name: str, text: object = "") -> None:
    """Leave a file for the test, all of it at once."""
    path = Path(folder) / f"{name}.part"
    path.write_text(str(text))
    path.rename(path.with_suffix(""))


# -- in the node's process ------------------------------------------------------------------------


@tasks.task
def fine(number: int) -> int:
    return number + 1


@tasks.task
async def fine_coroutine(number: int) -> int:
    await asyncio.sleep(0)
    return number + 1


@tasks.task
def raises(name: str) -> NoReturn:
    raise RAISED[name](3)


@tasks.task
async def raises_in_a_coroutine(name: str) -> NoReturn:
    raises(name)


@tasks.task
def raises_what_cannot_be_shown() -> NoReturn:
    raise Mute


@tasks.task
async def ends_the_loop(name: str) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(raises_in_a_coroutine(name))


@tasks.task
def leaks_threads() -> None:
    for _ in range(50):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


@tasks.task
def prints() -> str:
    for _ in range(10_000):
        sys.stdout.write("x" * 1_023 + "\n")
    return "printed"


@tasks.task
def returns_what_is_not_json() -> object:
    return {1, 2, 3}


@tasks.task
def closes_standard_files() -> None:
    for file in range(3):
        os.close(file)


@tasks.task(timeout=0.3)
def sticks(folder: str) -> None:
    """Ends when the test says so, and listens to nothing else."""
    while not (Path(folder) / "let-go").exists():
        time.sleep(0.01)


@tasks.task(timeout=0.3)
async def ignores_its_cancellation(folder: str) -> None:
    while not (Path(folder) / "let-go").exists():
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue


@tasks.task
def ends_its_process_once(run: Run) -> int:
    if run.attempt == 1:
        os._exit(3)
    return run.attempt


# -- in a process of their own --------------------------------------------------------------------


@isolated.task(isolate=True)
def own_process(number: int, run: Run) -> dict[str, object]:
    """Says who it is, and where."""
    run.check()
    return {
        "number": number,
        "parent": os.getppid(),
        "run": run.id,
        "attempt": run.attempt,
        "nominal": run.nominal.isoformat(),
        "task": run.task,
        "cancelled": run.cancelled,
    }


@isolated.task(isolate=True)
async def own_coroutine(number: int) -> int:
    await asyncio.sleep(0)
    return number + 1


@isolated.task(isolate=True, timeout=SHORT)
def own_forever(folder: str) -> None:
    """With a process of its own that never ends either."""
    started = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    note(folder, "forever", f"{os.getpid()} {started.pid}")
    time.sleep(600)


@isolated.task(isolate=True)
def own_long(folder: str, run: Run) -> int:
    """The first attempt never ends."""
    note(folder, f"long-{run.attempt}", os.getpid())
    if run.attempt == 1:
        time.sleep(600)
    return run.attempt


@isolated.task(isolate=True)
def own_listener(folder: str, run: Run) -> None:
    note(folder, "listener", os.getpid())
    while True:
        run.check()
        time.sleep(0.01)


@isolated.task(isolate=True)
def own_exit() -> NoReturn:
    print("about to end", flush=True)  # noqa: T201
    os._exit(3)


@isolated.task(isolate=True)
def own_raises(name: str) -> NoReturn:
    raises(name)


@isolated.task(isolate=True, memory_mb=400)
def own_memory() -> int:
    return len(bytearray(1 << 30))


@isolated.task(isolate=True)
def own_prints() -> str:
    return prints()


@isolated.task(isolate=True)
def own_not_json() -> object:
    return {1, 2, 3}


@isolated.task(isolate=True)
def own_closes(first: int, last: int) -> str:
    os.closerange(first, last)
    return "closed"


@isolated.task(isolate=True)
def own_thread() -> str:
    threading.Thread(target=time.sleep, args=(600,)).start()
    return "left a thread"


@isolated.task(isolate=True)
def own_grandchild(folder: str) -> str:
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
        os._exit(0)
    note(folder, "grandchild", pid)
    return "left a child"


@isolated.task(isolate=True, retries=3, backoff=AT_ONCE, give_up_on=OutOfPaper)
def own_gives_up(run: Run) -> NoReturn:
    if run.attempt < 3:
        raise ValueError(run.attempt)
    raise OutOfPaper("no paper")


@isolated.task(isolate=True)
def own_retry(run: Run) -> int:
    if run.attempt == 1:
        raise Retry("not yet", delay=0)
    return run.attempt


@isolated.task(isolate=True)
def own_reports(run: Run) -> str:
    """What it writes and what it tells are both for the node."""
    print("written")  # noqa: T201
    print("an error", file=sys.stderr)  # noqa: T201
    logging.getLogger("app").warning("logged")
    for method, args in (("log", ("told",)), ("progress", (0.5, "half"))):
        getattr(run, method)(*args)
    return "reported"


@isolated.task(isolate=True)
def own_long_words(run: Run) -> NoReturn:
    """No line of it is short."""
    run.log("a" + 10_000_000 * "x" + "z")
    third: Any = Fraction(1, 3)
    run.progress(third, 10_000_000 * "m")
    raise ValueError(10_000_000 * "e" + "end")


@isolated.task(isolate=True)
def own_no_number(run: Run) -> None:
    run.progress("half")  # type: ignore[arg-type]


@isolated.task(isolate=True)
def own_fence(run: Run) -> None:
    run.fence(None)
