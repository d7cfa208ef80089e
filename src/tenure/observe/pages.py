"""What is answered under which path, whoever serves it: our own server, or an ASGI server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from tenure.observe import health
from tenure.observe.watch import Watch

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
METHODS = ("GET", "HEAD")
PATHS = ("/healthz", "/readyz", "/leader", "/metrics")

Expose = Callable[[str], tuple[str, bytes]]
"""Given an Accept header: the metrics, and their content type."""


class Page(NamedTuple):
    status: int
    kind: str
    body: bytes
    allow: str | None = None


class Pages:
    """The pages of one scheduler."""

    def __init__(self, watch: Watch, expose: Expose | None = None) -> None:
        self._expose = expose
        self._questions = {
            "/healthz": lambda: health.alive(watch),
            "/readyz": lambda: health.ready(watch),
            "/leader": lambda: health.leads(watch),
        }

    def __call__(self, method: str, path: str, accept: str = "") -> Page:
        path = path.partition("?")[0].rstrip("/")
        question = self._questions.get(path)
        if question is None and path != "/metrics":
            return Page(404, TEXT, f"There are {', '.join(PATHS)}.\n".encode())
        if method not in METHODS:
            return Page(405, TEXT, b"Only GET and HEAD.\n", ", ".join(METHODS))
        if question is not None:
            answer = question()
            body = json.dumps(answer.as_json()).encode() + b"\n"
            return Page(200 if answer else 503, JSON, body)
        if self._expose is None:
            return Page(501, TEXT, b"Metrics need a package: pip install 'tenure[metrics]'\n")
        kind, body = self._expose(accept)
        return Page(200, kind, body)
