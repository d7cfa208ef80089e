"""The end of a connection with TLS: both sides say goodbye, and who closes it waits for the other.

A loop that ends earlier leaves the socket open, and Python warns of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

PATIENCE = 1.0


async def said(writer: asyncio.StreamWriter) -> None:
    """Wait until a connection that was closed is, for a while."""
    if writer.is_closing():
        with suppress(OSError):  # also TimeoutError: the other side is gone
            async with asyncio.timeout(PATIENCE):
                await writer.wait_closed()


async def finished(ending: Coroutine[Any, Any, None]) -> None:
    """Await it to its end, however often the caller is cancelled meanwhile."""
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
