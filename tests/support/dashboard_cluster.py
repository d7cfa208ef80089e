"""Three real nodes on a file, with something of everything, and a dashboard beside them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.e2e.command import EXECUTABLE, PATIENCE, Node, at_hand, until

WAIT = PATIENCE * 1000
URL = "sqlite:///jobs.db"
HURT = "<img src=x onerror=document.title='owned'>"
FAILS, SLOW, PAUSED = "fails <b>&'\"", "slow", "paused"
APP = f"""
from pathlib import Path
from time import sleep
from tenure import Run, Scheduler, every

scheduler = Scheduler("{URL}", ttl=5)
HURT = {HURT!r}

@scheduler.task(every(seconds=1))
def sweep():
    return HURT

@scheduler.task(every(hours=1), name={FAILS!r}, kwargs={{"x": HURT}}, tenant=HURT)
def fails(run: Run, x: str):
    run.log(HURT)
    run.progress(0.5, HURT)
    raise ValueError(x)

@scheduler.task(every(seconds=1), name="{SLOW}")
def slow():
    while not Path("let-go").exists():
        sleep(0.05)
"""


class Served:
    """`tenure dashboard`, and where it is."""

    def __init__(self, folder: Path, *args: str) -> None:
        self.log = folder / "dashboard.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [EXECUTABLE, "dashboard", "--url", URL, *args],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        found = until(lambda: re.search(r"http://[^/\s]+", self.log.read_text()), "its address")
        self.address = found.group(0)

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=PATIENCE)


@contextmanager
def served(folder: Path, *args: str) -> Iterator[Served]:
    dashboard = Served(folder, *args)
    try:
        yield dashboard
    finally:
        dashboard.end()


@contextmanager
def cluster(folder: Path, size: int = 3) -> Iterator[list[Node]]:
    """Nodes that have fired: one run has failed, one goes on, and occurrences were skipped."""
    assert at_hand(folder, "migrate", "--url", URL).code == 0
    nodes: list[Node] = []
    try:
        for number in range(size):
            place = folder / f"node{number}"
            place.mkdir()
            (place / "app.py").write_text(APP.replace("///jobs.db", f"///{folder}/jobs.db"))
            nodes.append(Node(place, "app:scheduler"))
        until(lambda: any(node.said("leader.took_office") for node in nodes), "a leader")
        cron = ("--cron", "0 7 * * *", "--tz", "Europe/Berlin")
        event = json.dumps({"topic": "ledger", "type": "DayEnded", "data": HURT, "key": HURT})
        for command in (
            ("add", PAUSED, *cron, "--task", "sweep"),
            ("pause", PAUSED, "--reason", HURT),
            ("add", "emits", "--every", "1h", "--emit", event),
            ("run-now", "emits"),
            ("run-now", FAILS),
        ):
            done = at_hand(folder, "schedules", *command, "--url", URL)
            assert done.code == 0, done
        until(lambda: _stands(folder), "a run that failed, and one that was skipped")
        yield nodes
    finally:
        for place in folder.glob("node*"):
            (place / "let-go").touch()
        for node in nodes:
            if node.process.poll() is None:
                node.process.kill()
                node.process.wait(timeout=PATIENCE)


def _stands(folder: Path) -> bool:
    failed = at_hand(folder, "runs", "list", "--state", "failed", "--json", "--url", URL).json
    shown = at_hand(folder, "schedules", "show", SLOW, "--json", "--url", URL).out
    return bool(failed) and "skipped" in shown


@contextmanager
def watched(browser: Browser, address: str, *, but: str = "\0") -> Iterator[Page]:
    """A page whose browser complains about nothing: no refused script or style, no error, and
    nothing that is missing; `but` what is expected."""
    complaints: list[str] = []
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda said: (
                complaints.append(said.text)
                if said.type == "error" and but not in said.text
                else None
            ),
        )
        page.goto(address)
        yield page
        assert page.title() != "owned"
    assert not complaints, complaints
