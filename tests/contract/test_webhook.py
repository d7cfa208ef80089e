"""How the webhook sink reads answers, guards its requests and uses its time."""

from __future__ import annotations

import asyncio
import base64
import socket
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tenure.events.sinks import addresses
from tenure.events.sinks.base import Outcome, SinkPlace, Verdict
from tenure.events.sinks.registry import parse
from tenure.events.sinks.webhook import WebhookSink
from tenure.process.clock import SystemClock
from tenure.testing.sinks import event, outgoing, verdicts
from tests.docs.markdown import ROOT, blocks
from tests.support.http_receiver import HttpReceiver

OLD = "whsec_" + base64.b64encode(b"o" * 32).decode()
NEW = "whsec_" + base64.b64encode(b"n" * 32).decode()


@pytest.fixture
def server() -> Iterator[HttpReceiver]:
    receiver = HttpReceiver([NEW])
    try:
        yield receiver.start()
    finally:
        receiver.close()


async def send(
    server: HttpReceiver,
    keys: str = "a",
    *,
    options: str = f"secret={NEW}",
    host: str = "127.0.0.1",
    private: bool = True,
    seconds: float = 10.0,
) -> list[Outcome]:
    url = f"webhook+http://{host}:{server.port}/hook?x=1#{options}"
    place = SinkPlace(url, SystemClock(), allow_http=True, allow_private=private)
    async with opened_at(place) as sink:
        sent = [event(number, key) for number, key in enumerate(keys, 1)]
        return await sink.send(outgoing(sent), seconds)


@asynccontextmanager
async def opened_at(place: SinkPlace) -> AsyncIterator[WebhookSink]:
    sink = parse(place)()
    assert isinstance(sink, WebhookSink)
    await sink.open()
    try:
        yield sink
    finally:
        await sink.close()


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        *((code, Verdict.DELIVERED) for code in (200, 201, 202, 204)),
        *((code, Verdict.RETRY) for code in (301, 302, 307, 400, 401, 404, 413, 500)),
        *((code, Verdict.DOWN) for code in (502, 503, 504)),
        (410, Verdict.ENDED),
        (429, Verdict.PAUSE),
    ],
)
async def test_each_status_has_its_verdict(
    server: HttpReceiver, status: int, verdict: Verdict
) -> None:
    server.answers["*"] = (status, {"location": f"http://127.0.0.1:{server.port}/elsewhere"})
    [outcome] = await send(server)
    assert outcome.verdict is verdict
    assert verdict is Verdict.DELIVERED or str(status) in outcome.reason
    assert [path for path, _, _ in server.requests] == ["/hook?x=1"], "no redirect is followed"


async def test_retry_after_is_told_in_seconds_or_as_a_date(server: HttpReceiver) -> None:
    server.answers["*"] = (503, {"retry-after": "120"})
    [outcome] = await send(server)
    assert (outcome.verdict, outcome.after) == (Verdict.PAUSE, 120.0)
    later = datetime.now(UTC) + timedelta(seconds=300)
    server.answers["*"] = (500, {"retry-after": format_datetime(later, usegmt=True)})
    [outcome] = await send(server)
    assert outcome.verdict is Verdict.RETRY
    assert outcome.after == pytest.approx(300, abs=10)
    server.answers["*"] = (500, {"retry-after": "soon"})
    [outcome] = await send(server)
    assert outcome.after is None


@pytest.mark.parametrize("status", [410, 429])
async def test_a_server_that_wants_no_more_gets_no_more(server: HttpReceiver, status: int) -> None:
    server.answers["*"] = (status, {})
    outcomes = await send(server, "abcdef", options=f"secret={NEW}&at_once=1")
    assert len(server.requests) == 1
    assert verdicts(outcomes)[1:] == [Verdict.UNTRIED] * 5


async def test_the_secret_is_replaced_without_a_gap(server: HttpReceiver) -> None:
    server.secrets = [OLD]
    assert verdicts(await send(server, options=f"secret={NEW}&secret={OLD}")) == ["delivered"]
    server.secrets = [NEW]
    assert verdicts(await send(server, options=f"secret={NEW}&secret={OLD}")) == ["delivered"]
    assert verdicts(await send(server, options=f"secret={OLD}")) == [Verdict.RETRY]


async def test_no_dot_in_an_id_moves_the_parts_of_what_is_signed(server: HttpReceiver) -> None:
    """`a.b` with a time and a body would have the signature of `a`, with the time `b`."""
    url = f"webhook+http://127.0.0.1:{server.port}/hook#secret={NEW}"
    place = SinkPlace(url, SystemClock(), allow_http=True, allow_private=True)
    async with opened_at(place) as sink:
        sent = outgoing([event(1, id="order.1042.é")])
        assert verdicts(await sink.send(sent, 10)) == [Verdict.DELIVERED]
    [(_, headers, _)] = server.requests
    assert headers["webhook-id"] == "order%2E1042%2E%C3%A9"
    assert [each.id for each in server.received] == ["order.1042.é"]


async def test_the_receiver_on_the_page_takes_each_event_once(server: HttpReceiver) -> None:
    [shown] = [b for b in blocks(ROOT / "docs" / "webhooks.md") if b.language == "python"]
    booked: list[Any] = []
    page: dict[str, Any] = {"book": lambda _, event: booked.append(event["data"])}
    exec(compile(shown.text, shown.place, "exec"), page)
    await send(server, "aa", options=f"secret={page['SECRET']}&secret={NEW}")
    connection = sqlite3.connect(":memory:")
    with closing(connection):
        connection.execute("CREATE TABLE seen (source, id, PRIMARY KEY (source, id))")
        for _ in range(2):
            for _, headers, body in server.requests:
                assert page["receive"](headers, body, connection) == 204
        assert booked == [{"number": 1}, {"number": 2}]
        [(_, headers, body), _] = server.requests
        assert page["receive"](headers, body + b" ", connection) == 401


async def test_what_follows_the_hash_is_not_sent(server: HttpReceiver) -> None:
    await send(server)
    [(path, headers, body)] = server.requests
    assert "whsec" not in f"{path}{headers}{body!r}"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_private_address_is_refused_before_anything_is_sent(
    server: HttpReceiver, host: str
) -> None:
    [outcome] = await send(server, host=host, private=False)
    assert outcome.verdict is Verdict.DOWN
    assert "not a public address" in outcome.reason
    assert not server.requests


async def test_a_name_that_changes_after_the_check_gains_nothing(
    server: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resolved once: the first answer is checked, and the connection goes there."""
    asked = []
    real = socket.getaddrinfo

    def resolve(host: object, *args: object, **options: object) -> object:
        if host == "rebinding.example":
            asked.append(host)
            address = "192.0.2.1" if len(asked) == 1 else "127.0.0.1"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, server.port))]
        return real(host, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(addresses, "is_public", lambda text: text == "192.0.2.1")
    [outcome] = await send(server, host="rebinding.example", private=False, seconds=1.0)
    assert outcome.verdict is Verdict.DOWN
    assert len(asked) == 1
    assert not server.requests


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (b"", "nothing"),
        (b"hello\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 100_000 + b"\r\n\r\n", "bytes of headers"),
    ],
)
async def test_nonsense_is_not_an_answer(server: HttpReceiver, raw: bytes, complaint: str) -> None:
    server.raw = raw
    [outcome] = await send(server)
    assert outcome.verdict is Verdict.DOWN
    assert complaint in outcome.reason


async def test_an_endless_body_is_not_waited_for(server: HttpReceiver) -> None:
    server.raw = b"HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n" + b"x" * 1_000_000
    begun = time.monotonic()
    assert verdicts(await send(server)) == [Verdict.DELIVERED]
    assert time.monotonic() - begun < 5


async def test_what_goes_before_the_answer_is_passed_over(server: HttpReceiver) -> None:
    server.raw = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
    assert verdicts(await send(server)) == [Verdict.DELIVERED]


async def test_a_slow_key_does_not_hold_up_the_others(server: HttpReceiver) -> None:
    server.slow = {"event-1"}
    server.flowing.clear()
    sending = asyncio.create_task(send(server, "abb", seconds=30))
    assert await asyncio.to_thread(server.has_received, 2)
    assert [each.id for each in server.received] == ["event-2", "event-3"]
    server.flowing.set()
    assert verdicts(await sending) == [Verdict.DELIVERED] * 3


async def test_no_request_begins_that_would_be_cut_off(server: HttpReceiver) -> None:
    """Each takes 1 s of 4 s: the last would arrive, and nobody would hear that it has."""
    server.seconds = 1.0
    outcomes = await send(server, "aaaaa", seconds=4.0)
    delivered = len(server.received)
    assert 1 <= delivered < 5
    assert verdicts(outcomes) == [Verdict.DELIVERED] * delivered + [Verdict.UNTRIED] * (
        5 - delivered
    )
    assert len(server.requests) == delivered


async def test_a_request_has_a_limit_of_its_own(server: HttpReceiver) -> None:
    server.flowing.clear()
    begun = time.monotonic()
    [outcome] = await send(server, options=f"secret={NEW}&timeout=1", seconds=60)
    assert outcome.verdict is Verdict.DOWN
    assert time.monotonic() - begun < 5


async def test_a_certificate_that_is_not_trusted_is_told_with_the_remedy(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    receiver = HttpReceiver([NEW], tmp_path_factory.mktemp("tls")).start()
    url = f"webhook+https://localhost:{receiver.port}#secret={NEW}"
    sink = parse(SinkPlace(url, SystemClock(), allow_private=True))()
    await sink.open()
    try:
        [outcome] = await sink.send(outgoing([event(1)]), 10)
    finally:
        await sink.close()
        receiver.close()
    assert outcome.verdict is Verdict.DOWN
    assert "#ca=" in outcome.reason
    assert not receiver.received
