"""Tasks in processes of their own: `isolate=True`.

The child is spawned: a fresh interpreter that imports the application, as this process did, and
looks the task up by its name (tasks/child.py). JSON goes in and comes out. Its timeout is a hard
limit: the process is killed, with all that it has started. It hears of a cancellation first, and
killed if it does not end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tenure.errors import Cancelled, ProcessDied, Retry
from tenure.process.child_process import WORD, Child, Ending
from tenure.process.children import Children
from tenure.tasks.outcomes import RaisedElsewhere
from tenure.tasks.results import Kept
from tenure.tasks.run import Run
from tenure.tasks.task import Task

CANCEL = b"cancel\n"
CANCEL_GRACE = 5.0
"""How many seconds a child that was told to end has, before it is killed."""
_START = "import sys; sys.path[:] = {path!r}; from tenure.tasks.child import main; main()"

Ended = Callable[[BaseException | None, Kept | None], None]


class Isolation:
    """Executes isolated tasks of one node."""

    def __init__(self, homes: Mapping[str, str], result_limit: int, wrappers: int) -> None:
        """`homes` says for each task where a child finds the scheduler or `Tasks` that has it, as
        MODULE:ATTR; `wrappers`, how many the scheduler has around its tasks."""
        self._homes = homes
        self._result_limit = result_limit
        self._wrappers = wrappers
        self._children = Children()

    def begin(
        self, task: Task, run: Run, timeout: float | None, ended: Ended
    ) -> Callable[[], None]:
        """As an executor does; but `ended` is called on another thread."""
        request = json.dumps(self._request(task, run)).encode() + b"\n"
        child = self._children.spawn(
            _command(),
            request,
            timeout,
            run.log,
            lambda word: _heard(run, word),
            lambda ending: ended(*_outcome(ending, timeout)),
        )
        return _Cancel(child)

    def close(self) -> None:
        self._children.close()

    def _request(self, task: Task, run: Run) -> dict[str, Any]:
        return {
            "parent": os.getpid(),
            "home": self._homes[task.name],
            "module": task.function.__module__,
            "main": _main(),
            "argv": sys.argv,
            "wrappers": self._wrappers,
            "result_limit": self._result_limit,
            "memory_mb": task.options.memory_mb,
            "level": logging.getLogger().level,
            "run": {
                "id": run.id,
                "schedule": run.schedule,
                "task": run.task,
                "nominal": run.nominal.isoformat(),
                "attempt": run.attempt,
                "term": run.term,
                "node": run.node,
                "kwargs": dict(run.kwargs),
                "claim": run.claim,
                "kind": run.kind,
                "traceparent": run.traceparent,
            },
        }


class _Cancel:
    """Told first; killed at the second call, or if it does not listen."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._told = False

    def __call__(self) -> None:
        if self._told:
            self._child.kill()
        else:
            self._told = True
            self._child.tell(CANCEL, CANCEL_GRACE)


def _command() -> list[str]:
    import multiprocessing.spawn

    path = [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100
    executable = os.fsdecode(multiprocessing.spawn.get_executable())
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [executable, *flags, "-c", _START.format(path=path)]


def _main() -> dict[str, str | None]:
    """How a child can run this process's main module once more."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    return {
        # A folder that is run has a module of this name, which only Python itself can find.
        "name": None if spec is None or spec.name == "__main__" else spec.name,
        "file": None if file is None else os.path.abspath(file),  # noqa: PTH100
    }


def _heard(run: Run, word: bytes) -> None:
    """What the task tells about itself while it runs."""
    with suppress(Exception):  # the task may have written to our socket
        said = json.loads(word.removeprefix(WORD))
        if "log" in said:
            run.log(said["log"])
        else:
            run.progress(*said["progress"])


def _outcome(ending: Ending, timeout: float | None) -> tuple[BaseException | None, Kept | None]:
    if ending.reply is not None:
        return _replied(ending.reply)
    if ending.error is not None:
        return ProcessDied(f"its process could not be started or watched: {ending.error}"), None
    if ending.killed == "timeout":
        return TimeoutError(
            f"ran longer than its timeout of {timeout:g} s; its process was killed"
        ), None
    if ending.killed == "reply":
        return ProcessDied("its process was killed: it wrote to a socket that is Tenure's"), None
    if ending.killed is not None:
        return asyncio.CancelledError(), None
    said = f"its last output was\n{ending.tail.rstrip()}\n" if ending.tail.strip() else ""
    return ProcessDied(f"{said}its process {_how(ending.code)} before the task was done"), None


def _replied(reply: bytes) -> tuple[BaseException | None, Kept | None]:
    try:
        said = json.loads(reply)
        match said["kind"]:
            case "returned":
                return None, None if said["kept"] is None else Kept(*said["kept"])
            case "retry":
                return Retry(said["text"], said["delay"]), None
            case "cancelled":
                return Cancelled(said["text"]), None
            case "cut off":
                return asyncio.CancelledError(), None
            case _:
                return RaisedElsewhere(said["text"], said["refusal"]), None
    except Exception as error:  # noqa: BLE001 - the task may have written to our socket
        return ProcessDied(f"its process replied what cannot be read: {error!r}"), None


def _how(code: int | None) -> str:
    if code is None:
        return "ended"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (the kernel does that when memory runs out)" if code == -signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
