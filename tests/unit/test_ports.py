"""Ports of servers that tests start: nobody else gets them, also while the server is stopped."""

from __future__ import annotations

import socket
import sys

import pytest

from tests.support.servers import free_port, release_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can keep a port")


def _serve_once(port: int) -> None:
    with (
        socket.create_server(("127.0.0.1", port)) as server,
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        other, _ = server.accept()
        with other:
            other.sendall(b"hello")
        assert client.recv(100) == b"hello"


def test_port_is_kept_for_a_server_that_stops_and_starts_again() -> None:
    port = free_port()
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        _serve_once(port)
    with pytest.raises(OSError, match="in use"):
        free_port(wanted=port)
    release_port(port)
