"""A node that dies while it executes nothing: no run of its own tells that it is dead."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tenure import Scheduler, Settings
from tenure.cli import main
from tenure.node import reaper
from tenure.node.presence import PRESENCE
from tests.faults.support import until
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

TTL = 2.0
_IDLE = """
import sys, threading
from tenure import Scheduler
scheduler = Scheduler(sys.argv[1], ttl=float(sys.argv[2]))
scheduler.start()
print(scheduler.node, flush=True)
threading.Event().wait()
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database("idle")


def test_idle_node_that_was_killed_is_buried(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaper, "PRUNE_EVERY", 0.2)
    settings = Settings(ttl=TTL, reap_every=0.1, jump_hold=0.5)
    with Scheduler(url, settings=settings) as leader:
        until(lambda: leader.is_leader, "it leads")
        command = [sys.executable, "-c", _IDLE, url, str(TTL)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
            try:
                assert node.stdout is not None
                presence = PRESENCE + node.stdout.readline().strip()
                until(lambda: _ends(url, presence) == [None], "it is present")
            finally:
                node.kill()
        until(lambda: _ends(url, presence)[0] == "buried", "it is buried")
        [_, end] = _ends(url, presence)
        assert end is not None


def _ends(url: str, name: str) -> list[str | None]:
    """How its terms ended, the newest first."""
    told = CliRunner().invoke(main, ["leases", "history", name, "--url", url, "--json"])
    return [line["end"] for line in json.loads(told.stdout)]
