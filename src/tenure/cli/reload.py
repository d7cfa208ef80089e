"""`tenure run --reload`: for development, a new process whenever a file has changed.

This process imports none of your code: it watches the files and starts the command once more as a
child. A child that is replaced hands over first, as at any other stop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tenure.cli.output import say

LOOK_EVERY = 0.5
_LEFT_OUT = {"__pycache__", "node_modules", "site-packages"}
Stamps = dict[Path, tuple[int, int]]
"""Of each file, when it was changed and how long it is."""


def run_again_and_again(
    arguments: Sequence[str], folder: Path, command: Sequence[str] | None = None
) -> int:
    """Until a signal ends it; the exit code of the last child. `command` is the whole command with
    its arguments, if it is not `tenure`."""
    whole = command or [sys.executable, "-m", "tenure.cli", *arguments]
    return asyncio.run(_supervise([word for word in whole if word != "--reload"], folder))


async def _supervise(command: Sequence[str], folder: Path) -> int:
    asked: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.put_nowait, number)
    seen, child = stamps(folder), _start(command)
    say(f"  reload  when a .py file below {folder} changes", err=True)
    told = ending = False
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY):
                ending = bool(await asked.get())
        if ending:
            return await _end(child, asked)
        found = stamps(folder)
        if found != seen:
            say(f"{_changed(seen, found, folder)} changed: starting again.", err=True)
            await _end(child, asked)
            seen, child, told = found, _start(command), False
        elif child.poll() is not None and not told:
            told = True
            say(f"It ended with exit code {child.returncode}; waiting for a change.", err=True)


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    # In a group of its own: Ctrl+C is for this process, which tells the child once.
    return subprocess.Popen(command, process_group=0)


async def _end(child: subprocess.Popen[bytes], asked: asyncio.Queue[int]) -> int:
    """Let it hand over; another signal ends it at once."""
    child.terminate()
    waiting = asyncio.ensure_future(asyncio.to_thread(child.wait))
    while not waiting.done():
        insisting = asyncio.ensure_future(asked.get())
        await asyncio.wait({waiting, insisting}, return_when=asyncio.FIRST_COMPLETED)
        if insisting.done():
            child.terminate()
        insisting.cancel()
    return max(waiting.result(), 0)


def stamps(folder: Path) -> Stamps:
    """All Python files below the folder, as they are now."""
    found: Stamps = {}
    for path in _files(folder):
        with suppress(OSError):  # it was deleted just now
            state = path.stat()
            found[path] = state.st_mtime_ns, state.st_size
    return found


def _files(folder: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in _LEFT_OUT
            and not Path(here, name, "pyvenv.cfg").exists()
        ]
        yield from (Path(here, name) for name in files if name.endswith(".py"))


def _changed(before: Stamps, after: Stamps, folder: Path) -> str:
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    first = min(changed).relative_to(folder)
    return str(first) if len(changed) == 1 else f"{first} and {len(changed) - 1} more"
