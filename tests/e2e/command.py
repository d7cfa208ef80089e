"""The real `tenure` executable, on real files, with real nodes.

Starting a process takes a moment. Where one more of a kind would tell nothing new, `at_hand` runs
the same command in this process, on the same files.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from click.testing import CliRunner

from tenure.cli import main

T = TypeVar("T")

EXECUTABLE = Path(sys.executable).with_name("tenure")
PATIENCE = 60.0

APP = """
from pathlib import Path
from time import sleep
from tenure import Scheduler, every

scheduler = Scheduler("sqlite:///jobs.db", ttl=5)

@scheduler.task(every(seconds=1))
def sweep():
    pass

@scheduler.task(every(hours=1), kwargs={"customer": "acme"})
def broken(customer):
    raise ValueError(f"no such customer: {customer}")

@scheduler.task(every(hours=1), name="held", lock="report:{user}", kwargs={"user": 7})
def held(user):
    while not Path("let-go").exists():
        sleep(0.02)
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def __str__(self) -> str:
        return f"exit code {self.code}\n{self.out}\n{self.err}"


def tenure(folder: Path, *args: object, stdin: str = "", **environ: str) -> Answer:
    """Run a command in a folder, to its end."""
    done = subprocess.run(
        [EXECUTABLE, *map(str, args)],
        cwd=folder,
        env=_environment(environ),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def at_hand(folder: Path, *args: object, stdin: str = "", **environ: str) -> Answer:
    """The same, without starting a process."""
    # Also those that a command may set itself, for code that it imports: they go when it ends.
    gone = dict.fromkeys(("TENURE_URL", "TENURE_URL_FILE"))
    gone |= {name: None for name in os.environ if name.startswith(("TENURE_", "COLUMNS"))}
    sys.modules.pop("app", None)  # another test's, from another folder
    with chdir(folder):
        done = CliRunner().invoke(main, [*map(str, args)], input=stdin, env={**gone, **environ})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Answer(done.exit_code, done.stdout, done.stderr)


class Node:
    """`tenure run`, in the background."""

    def __init__(self, folder: Path, *args: str, name: str = "node", **environ: str) -> None:
        self.log = folder / f"{name}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [EXECUTABLE, "run", *args],
                cwd=folder,
                env=_environment(environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self, text: str) -> bool:
        if self.process.poll() is not None and text not in self.log.read_text():
            raise AssertionError(f"the node ended: {self.log.read_text()}")
        return text in self.log.read_text()

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE)


@contextmanager
def node(folder: Path, target: str = "app:scheduler", *args: str) -> Iterator[Node]:
    """A node that leads."""
    started = Node(folder, target, *args)
    try:
        until(lambda: started.said("leader.took_office"), "a leader")
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.wait(timeout=PATIENCE)


def until(condition: Callable[[], T | None], what: str) -> T:
    """Wait for the condition to hold, and return what it says."""
    deadline = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE:g} s for {what}")
        time.sleep(0.02)


def _environment(changes: dict[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TENURE_", "COLUMNS"))}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **changes}
