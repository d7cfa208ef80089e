"""docs/howto/apscheduler-to-schedules.md: jobs in a job store, carried over word by word."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import sys
from pathlib import Path

from tests.docs.markdown import ROOT, blocks
from tests.e2e.command import node, tenure, until

PAGE = ROOT / "docs" / "howto" / "apscheduler-to-schedules.md"
APP = """
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

jobs = BackgroundScheduler({"apscheduler.timezone": "Europe/Berlin"})
jobs.add_jobstore(SQLAlchemyJobStore("sqlite:///jobs.db"))


def digest(list_name: str) -> None:
    with open("sent", "a") as file:
        print(list_name, file=file)
"""
STORE_THEM = """
import app
app.jobs.start(paused=True)
app.jobs.add_job(app.digest, "interval", seconds=1, args=["news"], id="news")
app.jobs.add_job(app.digest, "cron", day_of_week=0, hour=9, args=["week"], id="weekly")
app.jobs.shutdown()
"""


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    subprocess.run([sys.executable, "-c", STORE_THEM], cwd=tmp_path, check=True)
    (program,) = (block.text for block in blocks(PAGE) if block.options == "compile")
    (tmp_path / "node.py").write_text(program)
    commands = [line for b in blocks(PAGE) if not b.language for line in b.text.splitlines()]
    *before, run = commands
    before_all = hashlib.sha256((tmp_path / "jobs.db").read_bytes()).hexdigest()
    said = {command: tenure(tmp_path, *shlex.split(command)[1:]) for command in before}
    assert [answer.code for answer in said.values()] == [0] * len(before), said
    (preview,) = (answer.out for command, answer in said.items() if "preview" in command)
    assert "Mon " in preview
    assert "09:00" in preview
    assert shlex.split(run) == ["tenure", "run", "node:scheduler"]
    with node(tmp_path, "node:scheduler"):
        until((tmp_path / "sent").exists, "a job as a schedule")
    assert set((tmp_path / "sent").read_text().split()) == {"news"}
    assert hashlib.sha256((tmp_path / "jobs.db").read_bytes()).hexdigest() == before_all
