"""Every example is run as a user runs it: a process of its own, in an empty folder."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from textwrap import indent
from urllib.request import urlopen

import pytest

from tenure import Event, Scheduler
from tests.docs.markdown import ROOT, blocks
from tests.e2e.apps import books

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"
PATIENCE = 60.0


class Program:
    """An example at work, and what it prints."""

    def __init__(self, folder: Path, script: str, *arguments: str) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TENURE_")}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", str(EXAMPLES / script), *arguments],
            cwd=folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.pid = self.process.pid
        self.printed: list[str] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip())
        self._lines.put(None)

    def line(self, pattern: str) -> str:
        """The next line that matches; fails if none comes."""
        until = time.monotonic() + PATIENCE
        while True:
            line = self._next(until - time.monotonic())
            assert line is not None, f"no line {pattern!r} in {self.printed}"
            if re.search(pattern, line):
                return line

    def _next(self, seconds: float) -> str | None:
        try:
            line = self._lines.get(timeout=max(seconds, 0))
        except queue.Empty:
            return None
        if line is not None:
            self.printed.append(line)
        return line

    def catch_up(self) -> None:
        """Take note of what it has printed so far: `line` then waits for what comes."""
        while self._next(0) is not None:
            pass

    def end(self, number: int | None = None) -> int:
        """Its exit code, after a signal if one is given; all it printed is in `printed` then."""
        if number is not None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        while self._next(PATIENCE) is not None:
            pass
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


Start = Callable[..., Program]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(script: str, *arguments: str) -> Program:
            program = Program(tmp_path, script, *arguments)
            stack.callback(program.close)
            return program

        yield begin


def test_there_is_a_test_for_every_example() -> None:
    tested = set(re.findall(r'start\("(\w+\.py)"', Path(__file__).read_text()))
    assert tested == {path.name for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example_says_how_to_run_it(path: Path) -> None:
    assert f"python examples/{path.name}" in path.read_text().split('"""')[1]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="freezes processes: Linux")
def test_quickstart_fires_once_and_survives_a_kill(start: Start, tmp_path: Path) -> None:
    first = start("quickstart.py")
    first.line("swept")
    second = start("quickstart.py")
    first.line("swept")
    with books(f"sqlite:///{tmp_path / 'tenure.db'}") as store:
        store.kill(first.pid)
    first.end()
    second.catch_up()
    second.line("swept")
    second.line("swept")
    assert second.end(signal.SIGTERM) == 0
    swept = [line for line in first.printed + second.printed if "swept" in line]
    times = Counter(line.split()[0] for line in swept)
    assert set(times.values()) == {1}, swept
    assert not [line for line in second.printed if "swept" not in line]


def test_single_instance_fails_skips_and_stands_by(start: Start) -> None:
    first = start("single_instance.py")
    assert f"process {first.pid} is active, term 1" in first.line("active")

    failing = start("single_instance.py")
    assert failing.end() == 1
    (said,) = failing.printed
    assert f"held by process {first.pid} on host" in said

    skipping = start("single_instance.py", "skip")
    assert skipping.end() == 0
    assert skipping.printed == [f"process {first.pid} is active; going on without"]

    waiting = start("single_instance.py", "wait")
    first.end(signal.SIGKILL)
    assert f"process {waiting.pid} is active, term 2" in waiting.line("active")
    assert waiting.end(signal.SIGINT) == 0
    assert waiting.printed[-1] == "stopped; the guard is free"


def test_locks(start: Start) -> None:
    program = start("locks.py")
    assert program.end() == 0, program.printed
    said = "\n".join(program.printed)
    for expected in (
        "acquire: got it, term 1, trusted for 2",
        "acquire again: None",
        f"inspect: held by process {program.pid} on ",
        "renew: True, release: True, release again: False",
        "hold: term 2, greater than the one before",
        "hold again: refused after 0.2 s, term 2 holds it",
        "exclusive: ran; a second call meanwhile was skipped: True",
        "lead: leading, term 1",
        "lead: is_leader is True",
        "lead: stopped, on_stop was called: True, is_leader is False",
    ):
        assert expected in said
    assert len(program.printed) == 10


def test_background_scheduler_serves_and_hands_over(start: Start) -> None:
    program = start("flask_or_script_background.py", "0")
    address = program.line("^http://")
    program.line("refreshed by process")
    program.line("refreshed by process")
    with urlopen(address, timeout=PATIENCE) as answer:
        told = json.load(answer)
    assert told["leads"] is True
    assert {run["schedule"] for run in told["runs"]} == {"refresh"}
    assert "succeeded" in {run["state"] for run in told["runs"]}
    assert program.end(signal.SIGTERM) == 0


def test_async_app(start: Start) -> None:
    program = start("async_app.py")
    assert program.end() == 0, program.printed
    kinds = [line.split()[0] for line in program.printed]
    assert kinds == ["reading", "reading", "reading", "the"]
    times = [re.findall(r"\d\d:\d\d:\d\d\.\d+", line)[0] for line in program.printed[:3]]
    assert len(set(times)) == 3


def test_enqueue(start: Start) -> None:
    program = start("enqueue.py")
    assert program.end() == 0, program.printed
    assert program.printed == [
        "order 1 is packed, run 1",
        "asked again: run 1, nothing new",
        "order 100 is packed, run 2",
        "2 runs",
    ]


def test_exactly_once(start: Start) -> None:
    program = start("exactly_once.py")
    assert program.end() == 0, program.printed
    assert "the first node was killed inside its transaction (exit code 1)" in program.printed
    assert program.printed[-1] == "payments: 1, made by attempt 2"


def test_fenced_write(start: Start) -> None:
    program = start("fenced_write.py")
    assert program.end() == 0, program.printed
    assert program.printed[:2] == ["term 1 writes 100: written", "term 3 writes 200: written"]
    assert program.printed[2].startswith("term 1 writes 300: refused: ")
    assert program.printed[3] == "balance: 200"


def test_two_services(start: Start, tmp_path: Path) -> None:
    # As a run that was interrupted leaves it: an order that has no invoice yet.
    scheduler = Scheduler(f"sqlite:///{tmp_path / 'shop.db'}")
    scheduler.emit(Event("shop", "OrderPlaced", {"order": 1}, key="1"))
    scheduler.stop()
    program = start("two_services.py")
    assert program.end() == 0, program.printed
    assert program.printed[:2] == [
        "billing was killed (exit code -9), and is started again",
        "60 orders, 60 invoices for 60 of them",
    ]
    assert re.fullmatch(r"[1-9]\d* days were closed", program.printed[2])
    shown = [b.text for b in blocks(ROOT / "docs" / "events.md") if b.options == "compile"]
    example = (EXAMPLES / "two_services.py").read_text()
    assert len(shown) == 2
    for text in shown:
        assert any(indent(text, " " * spaces) in example for spaces in (4, 8)), text
