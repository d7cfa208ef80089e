"""Brings what a task logs with `logging` into the log of its run."""

from __future__ import annotations

import logging

from tenure.tasks.run import current_run


class RunLogHandler(logging.Handler):
    """After `logging.getLogger().addHandler(RunLogHandler())`, what tasks log is in the logs of
    their runs. Records from outside a task are left to the other handlers.

    A thread that a task starts has no part in this, unless it is started with the task's context
    (`contextvars.copy_context().run`; `asyncio.to_thread` does that).
    """

    def emit(self, record: logging.LogRecord) -> None:
        run = current_run.get()
        if run is None:
            return
        try:
            run.log(self.format(record))
        except Exception:  # noqa: BLE001 - as every handler does
            self.handleError(record)
