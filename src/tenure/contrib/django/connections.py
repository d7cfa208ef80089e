"""Tasks with database connections that work: `scheduler.around(fresh_connections)`.

Django does this for each request, and a task is none: without it a connection that the server has
closed, over night or in a failover, fails the next task of its thread, and every one after it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.core import mail
from django.db import connections

from tenure.tasks.run import Run


def fresh_connections(call: Callable[[], Any], run: Run) -> Any:
    """A wrapper: connections that no longer work, or are older than `CONN_MAX_AGE`, are closed
    before a task and after it."""
    if asyncio._get_running_loop() is not None:
        return _on_a_loop(call)
    _close_old()
    try:
        return call()
    finally:
        _close_old()


async def _on_a_loop(call: Callable[[], Any]) -> Any:
    # The connections of coroutines belong to the thread on which Django has their queries executed.
    close = sync_to_async(_close_old)
    await close()
    try:
        result = call()
        return await result if inspect.isawaitable(result) else result
    finally:
        await close()


def _close_old() -> None:
    """What Django's `close_old_connections` does, except to a transaction that is under way: that
    is a test's, which executes the task inside of it. A node in a test closes all others, even if
    they may be kept: one that is open would keep the test database from being dropped."""
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            continue
        if hasattr(mail, "outbox") and threading.current_thread() is not threading.main_thread():
            connection.close()
        else:
            connection.close_if_unusable_or_obsolete()
