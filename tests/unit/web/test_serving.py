"""The server of the dashboard: when it stops, and its clients are slow."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection

import pytest

from tenure import AsyncScheduler
from tenure.web import client_timeouts, dashboard
from tenure.web.security import forms
from tenure.web.serving import beside, listen

TOKEN = "correct horse battery"


def test_stop_lets_open_pages_go_without_an_error(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = AsyncScheduler("memory://")
    listener = listen("127.0.0.1", 0)
    page = HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=60)
    with caplog.at_level(logging.WARNING), beside(dashboard(scheduler), listener, scheduler):
        page.request("GET", "/live")
        answer = page.getresponse()
        assert answer.readline() == b"retry: 1000\n"
    answer.read()  # to its proper end: else this raises
    page.close()
    assert [record.getMessage() for record in caplog.records] == []


@contextmanager
def serving(token: str | None = TOKEN) -> Iterator[tuple[str, int]]:
    scheduler = AsyncScheduler("memory://")
    listener = listen("127.0.0.1", 0)
    with beside(dashboard(scheduler, token=token), listener, scheduler):
        yield listener.getsockname()


def answered(place: tuple[str, int]) -> int:
    page = HTTPConnection(*place, timeout=60)
    page.request("GET", "/login")
    status = page.getresponse().status
    page.close()
    return status


def refused(client: socket.socket) -> bool:
    try:
        return client.recv(12) in (b"", b"HTTP/1.1 408")
    except ConnectionResetError:
        return True


HEAD = b"POST /login HTTP/1.1\r\nHost: localhost\r\n"
FORM = HEAD + b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 50\r\n\r\ntoken="
UNUSED = HEAD.replace(b"POST", b"GET") + b"Content-Length: 50\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "answer"),
    [(b"", b""), (HEAD, b"HTTP/1.1 408 "), (FORM, b"HTTP/1.1 408 "), (UNUSED, b"HTTP/1.1 200 ")],
    ids=["nothing", "head", "form", "body that nobody asks for"],
)
def test_request_that_does_not_arrive_is_not_waited_for(
    sent: bytes, answer: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client_timeouts, "ARRIVE_WITHIN", 0.5)
    with (
        caplog.at_level(logging.WARNING),
        serving() as place,
        socket.create_connection(place, 60) as slow,
    ):
        slow.sendall(sent)
        assert answered(place) == 200  # meanwhile
        told = b""
        while part := slow.recv(65_536):  # until it is closed
            told += part
        assert told.startswith(answer)
        assert bool(told) == bool(answer)
    assert [record.getMessage() for record in caplog.records] == []


def test_form_that_does_not_arrive_is_refused_by_any_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forms, "ARRIVE_WITHIN", 0.1)
    with serving() as place, socket.create_connection(place, 60) as slow:
        slow.sendall(FORM)
        assert b"did not arrive within" in slow.makefile("rb").read(100_000)


def test_who_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_timeouts, "READ_WITHIN", 0.5)
    page = b"GET /static/tenure.css HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving() as place, socket.socket() as idle:
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        idle.connect(place)
        idle.settimeout(60)
        try:
            while True:  # asks for more than all buffers hold, and reads nothing
                idle.sendall(page)
                assert answered(place) == 200
        except (ConnectionResetError, BrokenPipeError):
            pass


def test_many_slow_clients_keep_nobody_out() -> None:
    """The one that has kept us waiting for longest has to go."""
    many = client_timeouts.MOST_CONNECTIONS + 50
    with ExitStack() as stack, serving() as place:
        slow = [stack.enter_context(socket.create_connection(place, 60)) for _ in range(many)]
        for client in slow:
            with suppress(OSError):
                client.sendall(HEAD)
        assert answered(place) == 200
        assert refused(slow[0])


@pytest.mark.parametrize("token", [None, TOKEN], ids=["open", "with a token"])
def test_tricks_with_paths_lead_to_nothing_else(token: str | None) -> None:
    """As they are: a client would tidy them up."""
    tricks = (
        "/static/../app.py",
        "/static/..%2f..%2fsettings.py",
        "/static/%2e%2e/app.py",
        "/static/..\\app.py",
        "/static//etc/passwd",
        "//etc/passwd",
        "/static/%00",
        "/login/../api/status" if token else "/static/../../../../etc/passwd",
        "/static/../audit",
        "/login%2f..%2faudit",
    )
    with serving(token) as place:
        for trick in tricks:
            with socket.create_connection(place, 60) as client:
                request = f"GET {trick} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                client.sendall(request.encode())
                told = client.makefile("rb").read()
            head, _, body = told.partition(b"\r\n\r\n")
            status = int(head.split()[1])
            assert status in ((303, 400, 401, 404) if token else (400, 404)), (trick, status)
            assert b"import" not in body, trick
            assert b"root:" not in body, trick
            assert b"Who asked for a change" not in body, trick
