"""The HTTP API behind a real server: encoded slashes, slow clients, large bodies."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
import uvicorn

from tenure import AsyncScheduler, Leases
from tenure.web.api import handling
from tests.e2e.command import PATIENCE, until
from tests.e2e.http_api import application

SLOW = 0.3


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'tenure.db'}"


@pytest.fixture
def port(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(handling, "BODY_WITHIN", SLOW)
    scheduler = AsyncScheduler(url)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application(scheduler, actor="ann", may_write=True), log_config=None, lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    until(lambda: server.started, "the server")
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()
        scheduler._runtime.thread.call(scheduler._runtime.close())
        scheduler._runtime.thread.close()


def _get(port: int, path: str) -> tuple[int, object]:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path)
    answer = connection.getresponse()
    status, told = answer.status, json.loads(answer.read())
    connection.close()
    return status, told


def test_server_and_its_clients(port: int, url: str) -> None:
    assert _get(port, "/api/leases?limit=1")[0] == 200
    with Leases(url) as leases:
        leases.acquire("nightly/import", ttl=60)
    status, told = _get(port, "/api/leases/nightly%2Fimport")
    assert isinstance(told, dict)
    assert (status, told["name"]) == (200, "nightly/import")
    assert _get(port, "/api/leases/nightly/import")[0] == 404
    head = "POST /api/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as slow:
        slow.sendall(f"{head}Content-Length: 50\r\n\r\n{{".encode())
        assert _get(port, "/api/nodes")[0] == 200  # meanwhile
        answer = slow.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"application/problem+json" in answer
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as large:
        large.sendall(f"{head}Content-Length: 10000000\r\n\r\n".encode())
        assert large.recv(65_536).startswith(b"HTTP/1.1 413 ")
    assert _get(port, "/api/nodes")[0] == 200
