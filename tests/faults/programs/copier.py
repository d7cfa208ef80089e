"""`tenure copy`, again and again, each time in a process of its own.

source, target   their URLs
drain            how long to wait for claimed runs
lives            for each: the step at which it is killed, or None, and whether it is to abort. A
                 step may be "batch": after the first rows were copied
"""

from __future__ import annotations

import asyncio
import os
import signal

from tenure.backends.base import Backend, Copies, CopySide
from tenure.backends.registry import parse
from tenure.copying.copier import Copier
from tenure.process.clock import SystemClock
from tests.faults.programs.common import Options, start

BATCH = "batch"


def main(options: Options) -> None:
    for die_at, abort in options["lives"]:
        child = os.fork()  # all is imported by now, and nothing is open
        if child == 0:
            _copy(options, die_at, abort)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        options.write("died", step=die_at, abort=abort, code=code)
        if code != (-signal.SIGKILL if die_at else 0):
            raise SystemExit(f"{die_at}: it ended with {code}")


def _copy(options: Options, die_at: str | None, abort: bool) -> None:
    def told(step: str) -> None:
        if step == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    copier = Copier(
        _side(options["source"], migrate=False),
        _side(options["target"], migrate=True),
        drain=options["drain"],
        told=told,
        stepped=lambda rows: told(BATCH),
    )
    if abort:
        copier.abort()
    else:
        copier.run()


def _side(url: str, *, migrate: bool) -> CopySide:
    backend: Backend = parse(url, "default", SystemClock())()

    async def prepare() -> None:
        await backend.open(migrate=migrate)
        await backend.close()

    asyncio.run(prepare())
    assert isinstance(backend, Copies)
    return backend.copy_side()


if __name__ == "__main__":
    start(main)
