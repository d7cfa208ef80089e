"""The process of an isolated task: it imports the application, executes one run, replies and ends.

It never outlives the node that started it: the kernel kills it with its parent, where there is such
a service, and the end of the socket tells it everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import inspect
import json
import logging
import os
import runpy
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from types import ModuleType
from typing import Any, BinaryIO

from tenure.errors import Cancelled, ConfigError, Retry, UnknownTask
from tenure.model import Event, Kind
from tenure.process.child_process import WORD
from tenure.tasks.executor import Wrapper, called
from tenure.tasks.outcomes import ERROR_LENGTH, render, shown, text_of
from tenure.tasks.registry import Tasks
from tenure.tasks.results import keep
from tenure.tasks.run import Run, current_run
from tenure.tasks.run_log import MESSAGE_LENGTH, pieces, share
from tenure.tasks.task import Task, is_async

MAIN = "__mp_main__"
"""The name of the main module here: the one that Python's own spawned processes give it."""
_PDEATHSIG = 1


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[-1]))
    channel.set_inheritable(False)
    words = channel.makefile("rb")
    request = json.loads(words.readline())
    _die_with(request["parent"])
    sys.argv = request["argv"]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    run = _run(request["run"], channel)
    execution = Execution(run, request["result_limit"])
    threading.Thread(target=_listen, args=(words, execution), daemon=True).start()
    execution.lift = _limit_memory(request["memory_mb"])
    reply = execution.reply(lambda: _find(request))
    run.say(json.dumps(reply).encode())


class Execution:
    """One run, from finding its task to what is replied."""

    def __init__(self, run: Run, result_limit: int) -> None:
        self._run = run
        self._result_limit = result_limit
        self.lift: Callable[[], None] = lambda: None
        """Lifts the limit of memory: to report that it ran out takes some."""
        self._guard = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None

    def cancel(self) -> None:
        """Called on another thread."""
        with self._guard:
            self._run.cancelled = True
            if self._running is not None:
                loop, task = self._running
                with contextlib.suppress(RuntimeError):  # it is over
                    loop.call_soon_threadsafe(task.cancel)

    def reply(self, find: Callable[[], tuple[Task, Sequence[Wrapper]]]) -> dict[str, Any]:
        task: Task | None = None
        current_run.set(self._run)
        try:
            task, wrappers = find()
            self._run.check()
            kept = keep(
                self._execute(task, wrappers),
                self._result_limit,
                wanted=task.options.keep_result,
            )
        except Retry as error:
            return {"kind": "retry", "text": _end_of(text_of(error)), "delay": error.delay}
        except Cancelled as error:
            return {"kind": "cancelled", "text": _end_of(text_of(error))}
        except BaseException as error:  # noqa: BLE001 - a task may raise anything
            if isinstance(error, asyncio.CancelledError) and self._run.cancelled:
                return {"kind": "cut off"}
            self.lift()
            render(error, self._run)
            refusal = None if task is None else task.options.retrying.refusal(error)
            return {"kind": "raised", "text": _end_of(shown(error)), "refusal": refusal}
        return {"kind": "returned", "kept": kept and [kept.text, kept.reason]}

    def _execute(self, task: Task, wrappers: Sequence[Wrapper]) -> object:
        if task.is_async or any(map(is_async, wrappers)):
            return asyncio.run(self._await(lambda: called(task, self._run, wrappers)))
        result = called(task, self._run, wrappers)
        return asyncio.run(self._await(lambda: result)) if inspect.isawaitable(result) else result

    async def _await(self, call: Callable[[], object]) -> object:
        current = asyncio.current_task()
        assert current is not None
        with self._guard:
            self._running = asyncio.get_running_loop(), current
        self._run.check()
        result = call()
        return await result if inspect.isawaitable(result) else result


def _end_of(text: str) -> str:
    """As much as a run keeps: an error may say anything, and the reply has a limit."""
    return text[-ERROR_LENGTH:]


class NoClaims:
    """What a run in a process of its own has in place of a store."""

    def confirm(self, run: Run, connection: object) -> Any:
        raise ConfigError(
            "run.fence and run.complete do not work in an isolated task: its process has no store."
            " Do the work without isolate=True, or make it safe to repeat."
        )

    complete = confirm


class ChildRun(Run):
    """What it tells is told to the node, in whose memory the run's log and progress are."""

    channel: socket.socket
    guard: threading.Lock

    def log(self, text: object) -> None:
        for piece in pieces(str(text)):
            self.say(WORD + json.dumps({"log": piece}).encode())

    def progress(self, fraction: float | None, message: object = "") -> None:
        told = [share(fraction), str(message)[:MESSAGE_LENGTH]]
        self.say(WORD + json.dumps({"progress": told}).encode())

    def emit(self, event: Event) -> None:
        raise ConfigError(
            "run.emit does not work in an isolated task: its process has no store. Emit with"
            " scheduler.emit(…), or do the work without isolate=True."
        )

    def say(self, line: bytes) -> None:
        """From any thread. If the task has closed the socket, its exit is all that we can tell."""
        with self.guard, contextlib.suppress(OSError):
            self.channel.sendall(line + b"\n")


def _run(given: dict[str, Any], channel: socket.socket) -> ChildRun:
    given["nominal"] = datetime.fromisoformat(given["nominal"])
    given["kind"] = Kind(given["kind"])
    run = ChildRun(**given, claims=NoClaims())
    run.channel, run.guard = channel, threading.Lock()
    return run


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent's thread ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has died already
        os._exit(1)


def _listen(words: BinaryIO, execution: Execution) -> None:
    """Until the node is gone: then nothing of this is wanted any more."""
    while words.readline():
        execution.cancel()
    os.killpg(0, signal.SIGKILL)


def _limit_memory(megabytes: int | None) -> Callable[[], None]:
    """Returns what lifts the limit again."""
    if megabytes is None:
        return lambda: None
    import resource  # not everywhere

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = megabytes << 20
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _find(request: dict[str, Any]) -> tuple[Task, Sequence[Wrapper]]:
    """The task, in the application as it is imported here, and what is around it."""
    module, _, attribute = request["home"].partition(":")
    enabled = os.environ.get("TENURE_ENABLED")
    os.environ["TENURE_ENABLED"] = "0"  # an application that starts a scheduler when imported
    try:
        # The scheduler first: asked for, that of a Django project sets up what its modules need.
        found = attrgetter(attribute)(_import(module, request["main"]))
        _import(request["module"], request["main"])
    except MemoryError as error:
        if (given := request["memory_mb"]) is None:
            raise
        raise MemoryError(
            f"memory_mb={given} is too little to import the application, before its task can begin:"
            " give it more."
        ) from error
    finally:
        del os.environ["TENURE_ENABLED"]
        if enabled is not None:
            os.environ["TENURE_ENABLED"] = enabled
    if not logging.getLogger().handlers:
        logging.basicConfig(level=request["level"], format="%(levelname)s %(name)s: %(message)s")
    tasks: Tasks = found if isinstance(found, Tasks) else found.tasks
    name = request["run"]["task"]
    if name not in tasks:
        raise UnknownTask(
            f"task {name!r} is isolated: its process has imported {module!r} and"
            f" {request['module']!r}, which did not declare it. Declare it when its module is"
            " imported, not in a function that is called later."
        )
    if len(tasks.wrappers) != request["wrappers"]:
        raise ConfigError(
            f"{request['home']} has {len(tasks.wrappers)} functions around its tasks in the process"
            f" of an isolated task, and {request['wrappers']} in its node. Call around() when the"
            " module is imported, not in a function that is called later."
        )
    return tasks[name], tasks.wrappers


def _import(name: str, main: dict[str, Any]) -> ModuleType:
    if name not in ("__main__", MAIN):
        return importlib.import_module(name)
    return _main_again(main["name"], main["file"])


@cache
def _main_again(name: str | None, file: str) -> ModuleType:
    """Run the main module of the node: `python -m package` names it, a script has a file."""
    module = ModuleType(MAIN)
    if name is not None:
        content = runpy.run_module(name, run_name=MAIN, alter_sys=True)
    else:
        content = runpy.run_path(file, run_name=MAIN)
    module.__dict__.update(content)
    sys.modules["__main__"] = sys.modules[MAIN] = module
    return module
