"""One HTTP request to a checked address; of the answer, the status and the headers.

Written on asyncio's streams: the address that was checked is the one that is used, no redirect is
followed, no proxy is asked, nothing is read without a limit, and a cancelled request ends at once.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

HEAD_MOST = 65_536
"""In bytes: how long status and headers of an answer may be."""
BODY_MOST = 65_536
BODY_SECONDS = 0.2
"""How much of a body is read, and for how long; nothing of it is used. Some servers complain if
nobody takes what they say."""
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: [^\r\n]*)?")


class NoAnswer(Exception):
    """What came is not an answer, or nothing came."""


@dataclass(frozen=True, slots=True)
class Request:
    """A POST, and whom it is for."""

    host: str
    """As in the URL: for the Host header and for the certificate."""
    port: int
    target: str = field(repr=False)
    """Path and query."""
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    tls: ssl.SSLContext | None

    def text(self) -> bytes:
        name = f"[{self.host}]" if ":" in self.host else self.host
        standard = 443 if self.tls else 80
        lines = [
            f"POST {self.target} HTTP/1.1",
            f"Host: {name if self.port == standard else f'{name}:{self.port}'}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
            f"Content-Length: {len(self.body)}",
            "Connection: close",
        ]
        return "\r\n".join([*lines, "", ""]).encode("ascii") + self.body


@dataclass(frozen=True, slots=True)
class Answer:
    """The status, and the headers by their names in lower case."""

    status: int
    headers: Mapping[str, str]


async def post(request: Request, addresses: Sequence[str], until: float) -> Answer:
    """Send it to the first of these that takes a connection, until that time of the loop.
    `TimeoutError`, another `OSError` or `NoAnswer` if that fails."""
    async with asyncio.timeout_at(until):
        reader, writer = await _connected(request, addresses)
    try:
        async with asyncio.timeout_at(until):
            writer.write(request.text())
            # A server may answer, and close, before it has read all.
            with suppress(ConnectionError):
                await writer.drain()
            answer = await _answer(reader)
        with suppress(OSError, asyncio.IncompleteReadError):
            async with asyncio.timeout(BODY_SECONDS):
                await reader.readexactly(_length(answer))
        return answer
    finally:
        writer.transport.abort()


async def _connected(
    request: Request, addresses: Sequence[str]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    for number, address in enumerate(addresses, 1):
        try:
            return await asyncio.open_connection(
                address,
                request.port,
                ssl=request.tls,
                server_hostname=request.host if request.tls else None,
                limit=HEAD_MOST,
            )
        except OSError:
            if number == len(addresses):
                raise
    raise OSError("it has no address")


async def _answer(reader: asyncio.StreamReader) -> Answer:
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            what = "something that is not HTTP" if error.partial else "nothing"
            raise NoAnswer(f"it answered {what} and closed the connection") from None
        except asyncio.LimitOverrunError:
            raise NoAnswer(f"its answer has more than {HEAD_MOST:,} bytes of headers") from None
        first, *lines = head[:-4].split(b"\r\n")
        status = _STATUS.fullmatch(first)
        if status is None:
            raise NoAnswer("its answer is not HTTP")
        number = int(status[1])
        if number >= 200:  # what comes before is only that it goes on
            return Answer(number, dict(map(_header, lines)))


def _header(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode("latin-1").partition(":")
    return name.strip().lower(), value.strip()


def _length(answer: Answer) -> int:
    text = answer.headers.get("content-length", "0")
    return min(int(text), BODY_MOST) if re.fullmatch("[0-9]{1,9}", text) else 0
