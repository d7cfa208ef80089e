"""`tenure run` that cannot start names the stage, the reason and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.command import tenure
from tests.support.servers import free_port

pytestmark = pytest.mark.slow

APP = "from tenure import Scheduler\nscheduler = Scheduler({arguments})\n"


def test_connect(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.format(arguments="'sqlite:///nowhere/jobs.db'"))
    said = tenure(tmp_path, "run", "app:scheduler")
    assert said.code == 1
    assert "Error: startup stopped at stage 'connect': the folder" in said.err
    assert "start.failed stage=connect" in said.err
    assert "Traceback" not in said.err


def test_connect_to_a_server_that_is_not_there(tmp_path: Path) -> None:
    url = f"postgresql://shop:secret@127.0.0.1:{free_port()}/shop"
    (tmp_path / "app.py").write_text(APP.format(arguments=repr(url)))
    said = tenure(tmp_path, "run", "app:scheduler")
    assert said.code == 1
    assert "startup stopped at stage 'connect'" in said.err
    assert "secret" not in said.err
    assert "Traceback" not in said.err


def test_migrate(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.format(arguments="'sqlite:///jobs.db', migrate=False"))
    said = tenure(tmp_path, "run", "app:scheduler")
    assert said.code == 1
    assert "startup stopped at stage 'migrate'" in said.err
    assert "tenure migrate" in said.err


def test_every_stage_is_a_line_at_debug(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        APP.format(arguments="'sqlite:///jobs.db'")
        + "import os, signal\n"
        + "scheduler.on('leader.took_office', lambda _: os.kill(os.getpid(), signal.SIGTERM))\n"
    )
    said = tenure(tmp_path, "run", "app:scheduler", "--log-level", "debug")
    assert said.code == 0, said.err
    told = [line.rpartition("=")[2] for line in said.err.splitlines() if "start.stage" in line]
    assert told == ["workers", "connect", "migrate", "check", "campaign", "serve"]
