"""How long a client may take. uvicorn by itself waits for ever: for the rest of a request, and for
a client that does not read the answer."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

ARRIVE_WITHIN = 15.0
"""Seconds for a whole request, from the connection or its first byte."""
READ_WITHIN = 60.0
"""Seconds for reading what is ready."""
MOST_CONNECTIONS = 300
_INCOMPLETE = (h11.IDLE, h11.SEND_BODY)
_UNANSWERED = (h11.IDLE, h11.SEND_RESPONSE)
_LATE = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: 40\r\n\r\n"
    b"The request did not arrive soon enough.\n"
)
_arrivals = count()


class PunctualProtocol(H11Protocol):
    """Refuses those who are slow. When there are too many connections, the one that has been
    without a whole request for longest has to go, so that slow clients cannot keep others out."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._late: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._begun = False
        self._arrival = next(_arrivals)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # we are told of all that is not read
        self._await_request()
        if len(self.connections) > MOST_CONNECTIONS:
            others = (each for each in self.connections if isinstance(each, PunctualProtocol))
            waiting = (each for each in others if each.incomplete)
            if last := min(waiting, key=lambda each: each._arrival, default=None):
                last.refuse()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._begun = self.incomplete
        if not self._begun:
            self._forget_late()
        elif self._late is None:
            self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_late()
        self._forget_unread()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(READ_WITHIN, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_unread()

    @property
    def incomplete(self) -> bool:
        """Is more of a request to come, or all of it?"""
        return self.conn.their_state in _INCOMPLETE and not self.transport.is_closing()

    def refuse(self) -> None:
        self._forget_late()
        if not self.transport.is_closing():
            if self._begun and self.conn.our_state in _UNANSWERED:
                self.transport.write(_LATE)
            self.transport.close()

    def _await_request(self) -> None:
        self._arrival = next(_arrivals)
        self._late = self.loop.call_later(ARRIVE_WITHIN, self.refuse)

    def _forget_late(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
