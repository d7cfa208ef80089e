"""The server, and those who wish it ill."""

from __future__ import annotations

import http.client
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from tenure import Scheduler
from tenure.observe import alive, ready
from tenure.observe import server as serving
from tests.support.open_files import allow_many
from tests.unit.observe.observing import ANYWHERE, address, ask, status

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler("memory://", health=ANYWHERE)
    with made:
        yield made


def test_other_paths_and_methods_are_refused(scheduler: Scheduler) -> None:
    assert ask(scheduler, "/")[0] == 404
    assert ask(scheduler, "/healthz/../../etc/passwd")[0] == 404
    assert ask(scheduler, "/healthz", "POST")[0] == 405
    assert ask(scheduler, "/healthz", "BREW")[0] == 501
    assert ask(scheduler, "/healthz/?verbose=1")[0] == 200


def test_one_request_for_each_connection(scheduler: Scheduler) -> None:
    with socket.create_connection(address(scheduler), timeout=30) as client:
        client.sendall((REQUEST + b"Connection: keep-alive\r\n\r\n") * 3)
        got = b""
        with suppress(ConnectionResetError):  # the rest was never read
            while more := client.recv(65_536):
                got += more
    assert got.count(b"HTTP/1.0 200") == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"x" * 10_000_000 + b" HTTP/1.1\r\n\r\n",
        REQUEST + b"X: " + b"x" * 10_000_000 + b"\r\n\r\n",
        REQUEST + b"X: x\r\n" * 1_000_000 + b"\r\n",
        b"\0" * 1_000_000,
    ],
    ids=["path", "header", "headers", "zeros"],
)
def test_large_requests_are_not_read(scheduler: Scheduler, sent: bytes) -> None:
    with (
        socket.create_connection(address(scheduler), timeout=30) as client,
        suppress(ConnectionResetError, BrokenPipeError),
    ):
        client.sendall(sent)
        while client.recv(65_536):
            pass
    assert status(scheduler, "/healthz") == 200


def test_a_thousand_idle_connections_keep_no_probe_away(scheduler: Scheduler) -> None:
    allow_many()
    with ExitStack() as stack:
        for _ in range(1_000):
            stack.enter_context(socket.create_connection(address(scheduler), timeout=30))
        assert status(scheduler, "/healthz") == 200
        server = next(iter(serving._live))
        assert len(server._open) <= serving.MOST_CONNECTIONS


def test_whoever_sends_or_reads_nothing_is_closed_in_time(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "SECONDS", 0.3)
    with (
        socket.create_connection(address(scheduler), timeout=30) as silent,
        socket.create_connection(address(scheduler), timeout=30) as slow,
    ):
        slow.sendall(b"GET /metr")
        assert silent.recv(1) == b""
        assert slow.recv(1) == b""


def test_the_stop_waits_for_no_client() -> None:
    scheduler = Scheduler("memory://", health=ANYWHERE)
    scheduler.start()
    with socket.create_connection(address(scheduler), timeout=30) as client:
        client.sendall(b"GET /metr")
        scheduler.stop()
        with suppress(ConnectionResetError):  # closed before it had read what was sent
            assert client.recv(1) == b""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_keep_the_port(scheduler: Scheduler) -> None:
    at = address(scheduler)
    read, write = os.pipe()
    go_on, leave = os.pipe()
    child = os.fork()
    if child == 0:
        # The node is the parent's, so nothing hangs here.
        own = alive(scheduler).ok and ready(scheduler).reasons == ("not started",)
        os.write(write, b"x" if own else b"-")
        os.read(go_on, 1)
        os._exit(0)
    try:
        assert os.read(read, 1) == b"x"
        scheduler.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(at, timeout=30)
    finally:
        os.write(leave, b"x")
        os.waitpid(child, 0)
        for each in (read, write, go_on, leave):
            os.close(each)


def test_without_the_package_health_works_and_metrics_say_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.setattr("tenure.observe.metrics.find_spec", lambda name: None)
    with Scheduler("memory://", health=ANYWHERE) as scheduler:
        assert status(scheduler, "/healthz") == 200
        assert ask(scheduler, "/metrics") == (
            501,
            "Metrics need a package: pip install 'tenure[metrics]'\n",
        )


def test_a_scraper_gets_the_format_that_it_asks_for(scheduler: Scheduler) -> None:
    connection = http.client.HTTPConnection(*address(scheduler), timeout=30)
    connection.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text"})
    answer = connection.getresponse()
    assert "openmetrics" in str(answer.headers["Content-Type"])
    assert answer.read().endswith(b"# EOF\n")
    connection.close()
