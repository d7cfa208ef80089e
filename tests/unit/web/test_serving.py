"""The server of the dashboard, when it stops."""

from __future__ import annotations

import logging
from http.client import HTTPConnection

import pytest

from tenure import AsyncScheduler
from tenure.web import dashboard
from tenure.web.serving import beside, listen


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
