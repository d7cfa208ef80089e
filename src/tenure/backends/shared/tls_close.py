"""Closing a TLS connection: both sides say goodbye, and the closing side waits for the other.

If the loop ends before that, the socket stays open and Python warns about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

PATIENCE = 1.0


async def said(writer: asyncio.StreamWriter) -> None:
    """Wait, but not for long, until a connection that is being closed has closed."""
    if writer.is_closing():
        with suppress(OSError):  # also TimeoutError: the other side is gone
            async with asyncio.timeout(PATIENCE):
                await writer.wait_closed()


async def finished(ending: Coroutine[Any, Any, None]) -> None:
    """Await it to its end, even if the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(ending)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    task.result()
