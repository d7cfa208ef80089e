"""A sink of another package, as its author has it: built, installed into an environment where
Tenure is a package like any other, put under the public contract, and delivered to by its URL."""

from __future__ import annotations

import json
import signal
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tenure import Event, Scheduler
from tests.docs.markdown import ROOT, blocks
from tests.e2e.command import until
from tests.e2e.elsewhere import PATIENCE, Environment, installed, pass_contract

EXAMPLE = ROOT / "examples" / "sink"
STORE = ("--url", "sqlite:///jobs.db")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed(tmp_path_factory.mktemp("elsewhere"), EXAMPLE)


class LinesServer(socketserver.ThreadingTCPServer):
    """Takes lines, and says ok to each."""

    daemon_threads = True

    def __init__(self) -> None:
        self.lines: list[Any] = []
        super().__init__(("127.0.0.1", 0), _Connection)


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, LinesServer)
        for line in self.rfile:
            self.server.lines.append(json.loads(line))
            self.wfile.write(b"ok\n")


@pytest.fixture
def server() -> Iterator[LinesServer]:
    with LinesServer() as made:
        threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
        yield made
        made.shutdown()


@pytest.mark.slow
def test_it_passes_the_public_contract(environment: Environment) -> None:
    answer = pass_contract(environment, EXAMPLE)
    assert "12 passed, 1 skipped" in answer.out, answer  # it answers to all or to nobody


@pytest.mark.slow
def test_relay_delivers_to_it(environment: Environment, server: LinesServer) -> None:
    environment.run("tenure", "migrate", *STORE)
    scheduler = Scheduler(f"sqlite:///{environment.folder / 'jobs.db'}")
    for n in range(5):
        sent = Event("ledger", "Said", n, key="a", headers={"region": "north"})
        scheduler.emit(sent, id=f"id-{n}")
    scheduler.stop()
    url = f"lines://127.0.0.1:{server.server_address[1]}"
    refused = environment.run("tenure", "relay", "--to", "lines://nowhere", *STORE, code=2)
    assert "has a host and a port" in refused.err
    process = subprocess.Popen(
        [environment.programs / "tenure", "relay", "--to", url, *STORE], cwd=environment.folder
    )
    try:
        until(lambda: len(server.lines) >= 5, "all events")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait(PATIENCE)
    assert [line["event"]["id"] for line in server.lines] == [f"id-{n}" for n in range(5)]
    assert {line["headers"]["region"] for line in server.lines} == {"north"}
    [relay] = environment.run("tenure", "events", "relays", *STORE, "--json").json
    assert (relay["relay"], relay["sink"], relay["position"]) == ("lines", url, 5)


def test_page_shows_the_scheme_and_the_harness_that_are_tested() -> None:
    shown = [block.text for block in blocks(ROOT / "docs" / "sinks.md")]
    assert (EXAMPLE / "tenure_lines" / "__init__.py").read_text() in shown
    assert (EXAMPLE / "test_lines.py").read_text() in shown
