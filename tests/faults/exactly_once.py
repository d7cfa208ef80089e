"""A shop whose nodes write bills with their runs, and are killed, frozen and cut off meanwhile."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tenure import Scheduler
from tests.faults.support import until
from tests.support.proxy import Mode, Proxy

NODES = 3
PATIENCE = 90.0


class Shop:
    """Its table of bills has nothing that keeps a row from being there twice."""

    def __init__(self, url: str, how: str, rests: float = 0.3) -> None:
        """`how`: complete or transactional, as the program `billing` has it; and how often it
        rests."""
        self.url = url
        self.on_server = url.startswith("postgresql")
        self.run = "tenure.run" if self.on_server else "tenure_run"
        self.harm = {"killed": 0, "frozen": 0}
        if self.on_server:
            self.harm["cut off"] = 0
        self._how = how, str(rests)
        self.ask("CREATE TABLE bill (run bigint)")

    def ask(self, text: str) -> int:
        connection: Any = (
            psycopg.connect(self.url)
            if self.on_server
            else sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=20)
        )
        try:
            cursor = connection.execute(text)
            answer = int(cursor.fetchone()[0]) if cursor.description else 0
            connection.commit()
            return answer
        finally:
            connection.close()

    @property
    def bills(self) -> int:
        with suppress(psycopg.Error, sqlite3.Error):
            return self.ask("SELECT count(*) FROM bill")
        return 0

    @property
    def open_runs(self) -> int:
        return self.ask(f"SELECT count(*) FROM {self.run} WHERE state IN ('waiting', 'claimed')")

    def enqueue(self, runs: int, pace: float | None = None) -> None:
        """So many, due at once, or so many a second."""
        scheduler = Scheduler(self.url, concurrency=0)

        @scheduler.task
        def bill() -> None: ...

        for number in range(runs):
            scheduler.enqueue(bill, retries=1_000, delay=number / pace if pace else 0)
        scheduler.stop()

    def _line(self) -> Proxy:
        """Of a node to the server."""
        return Proxy(urlsplit(self.url).port or 5432)

    @contextmanager
    def _node(self, line: Proxy | None) -> Iterator[subprocess.Popen[bytes]]:
        url = self.url
        if line is not None:
            url = url.replace(f":{urlsplit(url).port}/", f":{line.port}/")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.programs.billing", url, *self._how],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait(timeout=20)

    def harm_nodes(self, source: random.Random, runs: int) -> None:
        """Nodes work, and are harmed until so many runs are billed and none is open. Between one
        harm and the next they do a hundredth of it, however slow they are."""
        with ExitStack() as stack:
            lines: list[Proxy | None] = [None] * NODES
            if self.on_server:
                lines = [stack.enter_context(self._line()) for _ in range(NODES)]
            nodes = [stack.enter_context(self._node(line)) for line in lines]
            while (before := self.bills) < runs or not all(self.harm.values()):
                enough = min(runs, before + max(1, runs // 100))
                until(partial(self._has, enough), f"bill {enough} after {self.harm}", PATIENCE)
                time.sleep(source.random() / 2)
                place, what = source.randrange(NODES), source.random()
                line = lines[place]
                if what < 0.7:
                    nodes[place].kill()
                    nodes[place].wait(timeout=20)
                    nodes[place] = stack.enter_context(self._node(line))
                    self.harm["killed"] += 1
                elif line is not None and what < 0.85:
                    _cut_off(line, source.choice(("mute", "half-open", "cut")))
                    self.harm["cut off"] += 1
                else:
                    nodes[place].send_signal(signal.SIGSTOP)
                    # Longer than its ttl where others can go on; a frozen writer of SQLite stops
                    # them.
                    time.sleep(2.5 if self.on_server else 0.5)
                    nodes[place].send_signal(signal.SIGCONT)
                    self.harm["frozen"] += 1
            until(lambda: not self.open_runs, "all runs to end", PATIENCE)

    def _has(self, bills: int) -> bool:
        return self.bills >= bills

    def wrong(self) -> dict[str, int]:
        """What is not exactly once, by what it is; empty if all is well. When no run is open."""
        bad = {
            "billed twice": "SELECT count(*) - count(DISTINCT run) FROM bill",
            "billed without success": "SELECT count(*) FROM bill WHERE run NOT IN"
            f" (SELECT id FROM {self.run} WHERE state = 'succeeded')",
            "succeeded without a bill": f"SELECT count(*) FROM {self.run} WHERE state = 'succeeded'"
            " AND id NOT IN (SELECT run FROM bill)",
            "not succeeded": f"SELECT count(*) FROM {self.run} WHERE state <> 'succeeded'",
        }
        found = {what: self.ask(text) for what, text in bad.items()}
        return {what: number for what, number in found.items() if number}


def _cut_off(line: Proxy, how: Mode) -> None:
    """For longer than its ttl. What was lost on the way is lost: in the end the server learns that
    its sessions are over."""
    line.become(how)
    time.sleep(2.0)
    line.become("cut")
    time.sleep(0.5)
    line.become("pass")
