"""The fixture `tenure_world`, as pytest finds it in an environment with Tenure installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import asyncio
import sys

import pytest

def test_nothing_is_imported_for_a_test_that_does_not_ask():
    assert "pytest_tenure" in sys.modules
    assert [name for name in sys.modules if name.split(".")[0] == "tenure"] == []

@pytest.fixture
def scheduler():
    from tenure import Scheduler, every
    scheduler = Scheduler("sqlite:///never.db")
    scheduler.task(every(hours=2), name="sweep")(lambda: None)
    return scheduler

def test_sweep(tenure_world, scheduler):
    world = tenure_world(scheduler)
    world.advance(hours=6)
    assert world.ran("sweep") == 3

def test_nodes(tenure_world, scheduler):
    world = tenure_world(scheduler, nodes=2)
    world.kill_during("sweep")
    world.advance(hours=6)
    assert world.ran("sweep") == 3

def test_it_ends_with_the_test(tenure_world):
    from tenure import Scheduler, every
    global left
    left = Scheduler("sqlite:///never.db")
    tenure_world(left)
    assert left.running

def test_as_here():
    assert not left.running

def test_that_fails(tenure_world, scheduler):
    scheduler.task(name="bad")(lambda: 1 / 0)
    world = tenure_world(scheduler)
    scheduler.add("bad", __import__("tenure").every(hours=1), task="bad")
    world.advance(hours=1)
    assert world.ran("bad") == 1
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:asyncio", "-W", "error", *options],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        text=True,
        capture_output=True,
        timeout=50,
        check=False,
    )


@pytest.mark.slow
def test_the_plugin_as_installed(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = run(tmp_path)
    assert "1 failed, 5 passed" in done.stdout, done.stdout + done.stderr
    assert "ZeroDivisionError" in done.stdout.split("where ran = ")[1].splitlines()[0]
    assert not (tmp_path / "never.db").exists()
    assert "Makes worlds that end with the test" in run(tmp_path, "--fixtures").stdout
