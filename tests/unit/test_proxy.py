"""The proxy of the fault tests does what it says."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.proxy import Proxy


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """In front of a server that sends everything back."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_echo, args=(server,), daemon=True).start()
        with Proxy(server.getsockname()[1]) as proxy:
            yield proxy


def _echo(server: socket.socket) -> None:
    while True:
        try:
            line, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_send_back, args=(line,), daemon=True).start()


def _send_back(line: socket.socket) -> None:
    with line:
        try:
            while data := line.recv(1000):
                line.sendall(data)
        except OSError:
            pass


def _connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=30)


def _listen_to_a_new_line(proxy: Proxy) -> bytes:
    with _connect(proxy) as line:
        return line.recv(100)


def test_passes_everything_on(proxy: Proxy) -> None:
    with _connect(proxy) as line:
        line.sendall(b"hello")
        assert line.recv(100) == b"hello"
        line.shutdown(socket.SHUT_WR)
        assert line.recv(100) == b""


def test_slow_line_delays_both_ways_and_keeps_its_width(proxy: Proxy) -> None:
    proxy.become("slow", 0.2)
    with _connect(proxy) as line:
        begun = time.monotonic()
        for _ in range(20):
            line.sendall(b"x")
            time.sleep(0.005)
        received = b""
        while len(received) < 20:
            received += line.recv(100)
        assert 0.4 <= time.monotonic() - begun < 7  # one by one it would be 8


def test_trickle(proxy: Proxy) -> None:
    with _connect(proxy) as line:
        proxy.become("trickle", 0.02)
        begun = time.monotonic()
        line.sendall(b"hello")
        received = b""
        while len(received) < 5:
            received += line.recv(1)
        assert received == b"hello"
        assert time.monotonic() - begun >= 4 * 0.02


def test_half_open_line_says_nothing_and_stays_dead(proxy: Proxy) -> None:
    with _connect(proxy) as line:
        line.sendall(b"hello")
        assert line.recv(100) == b"hello"
        proxy.become("half-open")
        line.sendall(b"lost")
        line.settimeout(0.1)
        with pytest.raises(TimeoutError):
            line.recv(100)
        proxy.become("pass")
        line.sendall(b"still lost")
        with pytest.raises(TimeoutError):
            line.recv(100)
    with _connect(proxy) as fresh:
        fresh.sendall(b"again")
        assert fresh.recv(100) == b"again"


def test_mute_line_carries_questions_and_no_answers() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Proxy(server.getsockname()[1]) as proxy,
        _connect(proxy) as line,
        server.accept()[0] as other,
    ):
        proxy.become("mute")
        line.sendall(b"question")
        assert other.recv(100) == b"question"
        other.sendall(b"answer")
        line.settimeout(0.1)
        with pytest.raises(TimeoutError):
            line.recv(100)
        proxy.become("pass")
        other.sendall(b"another answer")
        with pytest.raises(TimeoutError):
            line.recv(100)


def test_cut_lines_are_reset(proxy: Proxy) -> None:
    with _connect(proxy) as line:
        line.sendall(b"hello")
        assert line.recv(100) == b"hello"
        proxy.become("cut")
        with pytest.raises(ConnectionResetError):
            line.recv(100)
    with pytest.raises(ConnectionResetError):  # already while it connects, or after it has
        _listen_to_a_new_line(proxy)
    proxy.become("pass")
    with _connect(proxy) as line:
        line.sendall(b"hello")
        assert line.recv(100) == b"hello"


def test_turns_are_those_of_the_client(proxy: Proxy) -> None:
    with _connect(proxy) as line:
        line.sendall(b"hello")
        assert line.recv(100) == b"hello"
        proxy.become("slow", 0.2)
        for words in ((b"one", b"two"), (b"three",)):  # the second before there is an answer
            for word in words:
                line.sendall(word)
            received = b""
            while len(received) < len(b"".join(words)):
                received += line.recv(100)
        assert proxy.turns == [2]


def test_what_was_swallowed_is_known(proxy: Proxy) -> None:
    with _connect(proxy) as line:
        line.sendall(b"hello")
        assert line.recv(100) == b"hello"
        proxy.become("half-open")
        assert not proxy.swallowed
        line.sendall(b"lost")
        deadline = time.monotonic() + 30
        while not proxy.swallowed:
            assert time.monotonic() < deadline
            time.sleep(0.005)
