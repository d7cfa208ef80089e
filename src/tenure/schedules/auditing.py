"""A change with its line in the audit: written before, completed after."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from tenure.backends.base import AuditStore
from tenure.errors import StoreError, TenureError
from tenure.model import DONE, NewAction, audited

_logger = logging.getLogger("tenure.audit")


class Ask(Protocol):
    """Asks the audit of the store something, on whichever thread has it open."""

    async def __call__(self, question: Callable[[AuditStore], Awaitable[Any]], /) -> Any: ...


@asynccontextmanager
async def on_record(ask: Ask, action: NewAction, *refusals: type[Exception]) -> AsyncIterator[None]:
    """Without a line there is no change: if it cannot be written, the store's error is raised.
    Errors of these types, and our own, are told in the line; of others only that they occurred."""
    line: int = await ask(lambda audit: audit.begin(action))

    async def end(outcome: str) -> None:
        try:
            await ask(lambda audit: audit.end(line, audited(outcome)))
        except StoreError as error:  # the change itself stands
            _logger.warning("audit.incomplete line=%d error=%s", line, audited(str(error)))

    try:
        yield
    except StoreError:
        raise  # whether it was made is unknown
    except Exception as error:
        told = isinstance(error, (TenureError, *refusals))
        await end(f"refused: {error}" if told else f"failed: {type(error).__name__}")
        raise
    await end(DONE)
