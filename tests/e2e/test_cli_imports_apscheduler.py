"""`tenure import apscheduler` of jobs that APScheduler keeps in Redis."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from click.testing import CliRunner

from tenure.cli import main
from tests.support.servers import ValkeyServer

PROGRAM = """
from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.schedulers.background import BackgroundScheduler

def send(to): ...

store = RedisJobStore(host="127.0.0.1", port={port})
jobs = BackgroundScheduler(jobstores={{"default": store}}, timezone="UTC")
"""


@pytest.mark.slow
def test_jobs_in_redis_are_carried_over_and_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    server = ValkeyServer()
    server.settings["enable-debug-command"] = "local"
    try:
        server.start()
        (tmp_path / "app_in_redis.py").write_text(PROGRAM.format(port=server.port))
        store = RedisJobStore(host="127.0.0.1", port=server.port)
        jobs = BackgroundScheduler(jobstores={"default": store}, timezone="UTC")
        call = "app_in_redis:send"
        jobs.add_job(call, "interval", hours=6, kwargs={"to": "ann"}, id="interval")
        jobs.add_job(call, "cron", hour=7, kwargs={"to": "bob"}, id="cron")
        jobs.start(paused=True)
        jobs.shutdown()
        server.command("HSET", store.jobs_key, "gone", "no pickle")
        before = server.command("DEBUG", "DIGEST")
        result = CliRunner().invoke(main, ["import", "apscheduler", "app_in_redis:jobs"])
        assert server.command("DEBUG", "DIGEST") == before
    finally:
        server.close()
    found = {told["name"]: told for told in map(json.loads, result.stdout.splitlines())}
    assert found.keys() == {"interval", "cron"}
    assert found["cron"]["trigger"]["expression"].startswith("0 7 ")
    assert found["cron"]["kwargs"] == {"to": "bob"}
    assert "left out: gone: its row cannot be read" in result.stderr
