"""Where the code of a task is at this moment, as text: the end of its stack, without Tenure's part.

Any thread may ask. What a thread does goes on meanwhile, so this is a look, not a proof.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Coroutine, Iterator
from itertools import dropwhile
from pathlib import Path
from types import FrameType
from typing import Any

FRAMES = 12
LENGTH = 1_500
"""How many characters are shown at most: the end, where it waits."""
UNKNOWN = "where it is cannot be seen"
_CALLER = str(Path(__file__).with_name("executor.py"))
"""What calls a task: all before that is not the user's concern."""
_OURS = str(Path(__file__).parents[1])


def of_thread(ident: int) -> str:
    """What this thread executes."""
    frame = sys._current_frames().get(ident)
    return UNKNOWN if frame is None else _shown(reversed(list(traceback.walk_stack(frame))))


def of_coroutine(running: asyncio.Task[Any], ident: int) -> str:
    """Where it waits; or, if it blocks its loop, what the loop's thread executes."""
    if asyncio.current_task(running.get_loop()) is running:
        return of_thread(ident)
    return _shown(_awaited(running.get_coro()))


def _awaited(waiting: Any) -> Iterator[tuple[FrameType, int]]:
    """From the outermost coroutine to the one that waits for something else."""
    while isinstance(waiting, Coroutine) and (frame := getattr(waiting, "cr_frame", None)):
        yield frame, frame.f_lineno
        waiting = getattr(waiting, "cr_await", None)


def _shown(frames: Iterator[tuple[FrameType, int]]) -> str:
    files = [(frame.f_code.co_filename, frame, line) for frame, line in frames]
    calls = [n for n, (file, _, _) in enumerate(files) if file == _CALLER]
    called = files[calls[-1] + 1 :] if calls else files
    users = list(dropwhile(lambda at: at[0].startswith(_OURS), called))  # what is around the task
    shown = ((frame, line) for _, frame, line in users[-FRAMES:])
    lines = traceback.StackSummary.extract(shown).format()
    return "".join(lines)[-LENGTH:].strip("\n") or UNKNOWN
