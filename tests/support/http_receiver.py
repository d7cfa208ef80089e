"""A web service that takes webhooks, checks them with other people's libraries, and misbehaves."""

from __future__ import annotations

import ssl
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import trustme
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks import Webhook

from tenure.testing.sinks import Received
from tests.support.servers import free_port

PATIENCE = 60.0


class HttpReceiver:
    """Answers 204 to what is signed with one of `secrets`, 401 to all else."""

    def __init__(self, secrets: list[str], folder: Path | None = None) -> None:
        self.secrets = secrets
        self.port = free_port()
        self.received: list[Received] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: dict[str, tuple[int, dict[str, str]]] = {}
        """What to answer to an event of this id, instead of 204; `*` is all of them."""
        self.raw: bytes | None = None
        """What to answer to everything, byte for byte."""
        self.slow: set[str] | None = None
        """The ids that wait while it is not flowing; None: all of them."""
        self.seconds = 0.0
        """How long it takes to answer."""
        self.flowing = threading.Event()
        self.flowing.set()
        self._arrived = threading.Condition()
        self.ca: Path | None = None
        self._context: ssl.SSLContext | None = None
        self._server: ThreadingHTTPServer | None = None
        if folder is not None:
            authority = trustme.CA()
            self.ca = folder / "ca.pem"
            authority.cert_pem.write_to_path(self.ca)
            self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            authority.issue_cert("localhost").configure_cert(self._context)

    def start(self) -> Self:
        server = _Server(("127.0.0.1", self.port), type("Handler", (_Handler,), {"owner": self}))
        if self._context is not None:
            server.socket = self._context.wrap_socket(server.socket, server_side=True)
        self._server = server
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def close(self) -> None:
        self.flowing.set()
        self.stop()

    def has_received(self, count: int) -> bool:
        """Wait until it has so many."""
        with self._arrived:
            return self._arrived.wait_for(lambda: len(self.received) >= count, PATIENCE)

    def take(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str]]:
        if not any(_is_signed(secret, headers, body) for secret in self.secrets):
            return 401, {}
        event = from_http_event(HTTPMessage(headers, body))
        attributes = {**event.get_attributes()}
        attributes.pop("datacontenttype")
        attributes["time"] = attributes["time"].isoformat().replace("+00:00", "Z")
        answer = self.answers.get(attributes["id"], self.answers.get("*", (204, {})))
        if answer[0] < 300:
            prefix = "x-event-"
            given = {
                name[len(prefix) :]: unquote(value)
                for name, value in headers.items()
                if name.startswith(prefix)
            }
            with self._arrived:
                self.received.append(Received(attributes, event.get_data(), given))
                self._arrived.notify_all()
        return answer


def _is_signed(secret: str, headers: dict[str, str], body: bytes) -> bool:
    with suppress(Exception):
        Webhook(secret).verify(body, headers)
        return True
    return False


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up, or does not trust us: the tests cause that on purpose."""


class _Handler(BaseHTTPRequestHandler):
    owner: HttpReceiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = dict(self.headers.items())
        self.owner.requests.append((self.path, headers, body))
        if self.owner.slow is None or headers["webhook-id"] in self.owner.slow:
            assert self.owner.flowing.wait(PATIENCE)
        time.sleep(self.owner.seconds)
        if self.owner.raw is not None:
            self.wfile.write(self.owner.raw)
            return
        status, more = self.owner.take(headers, body)
        self.send_response(status)
        for name, value in more.items():
            self.send_header(name, value)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing: what matters is in `requests`."""
