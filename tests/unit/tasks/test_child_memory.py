"""A limit of memory that the application does not fit into, in a real process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no such limit")

APPLICATION = """
from pathlib import Path
from tenure import Scheduler, Tasks

tasks = Tasks()
ballast = b"x" * int(Path(__file__).with_name("ballast").read_text())

@tasks.task(isolate=True, memory_mb=128)
def job() -> int:
    return 1
"""
NODE = """
import threading
import application
from tenure.tasks.isolation import Isolation
from tests.unit.tasks.test_executor import a_run

(application.Path(application.__file__).with_name("ballast")).write_text("{ballast}")
ended = threading.Event()

def take(error, kept):
    print(error if kept is None else kept.text)
    ended.set()

isolation = Isolation({{"job": "application:tasks"}}, 8_192, 0)
isolation.begin(application.tasks["job"], a_run("job"), 60.0, take)
assert ended.wait(60)
isolation.close()
"""


def outcome(folder: Path, ballast: int) -> str:
    (folder / "application.py").write_text(APPLICATION)
    (folder / "ballast").write_text("0")
    root = Path(__file__).parents[3]
    code = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(root)!r}]\n"
    node = [sys.executable, "-c", code + NODE.format(ballast=ballast)]
    return subprocess.run(node, capture_output=True, text=True, check=True, timeout=90).stdout


def test_least_memory_that_may_be_given_is_enough_to_begin(tmp_path: Path) -> None:
    assert outcome(tmp_path, 0) == "1\n"


def test_memory_error_while_the_application_is_imported_says_so(tmp_path: Path) -> None:
    last = outcome(tmp_path, 200 << 20).strip().splitlines()[-1]
    assert last.startswith("MemoryError: memory_mb=128 is too little to import the application")
