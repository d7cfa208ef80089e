"""A shop whose nodes write bills with their runs, and are killed, frozen and cut off meanwhile."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tenure import Scheduler
from tests.faults.support import Program, Store, until
from tests.support.proxy import Mode, Proxy

NODES = 3
PATIENCE = 90.0


class Shop:
    """Its table of bills has nothing that keeps a row from being there twice."""

    def __init__(self, url: str, ways: Sequence[str], rests: float = 0.6) -> None:
        """`ways`: complete, transactional or engine, as the program `billing` has them, one node
        after the other; and how often it rests."""
        self.url = url
        self.on_server = url.startswith("postgresql")
        self.run = "tenure.run" if self.on_server else "tenure_run"
        self.harm = {"killed": 0, "frozen": 0}
        if self.on_server:
            self.harm["cut off"] = 0
        self.taken = 0
        """How many claims were taken from frozen nodes."""
        self._ways = ways
        self._rests = str(rests)
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

    def enqueue(self, runs: int, pace: int | None = None) -> None:
        """So many, due at once, or so many each second."""
        scheduler = Scheduler(self.url, concurrency=0)

        @scheduler.task
        def bill() -> None: ...

        for number in range(runs):
            scheduler.enqueue(bill, retries=1_000, delay=number // pace if pace else 0)
        scheduler.stop()

    def _line(self) -> Proxy:
        """Of a node to the server."""
        return Proxy(urlsplit(self.url).port or 5432)

    @contextmanager
    def _node(self, place: int, line: Proxy | None) -> Iterator[Program]:
        url, way = self.url, self._ways[place % len(self._ways)]
        if line is not None:
            url = url.replace(f":{urlsplit(url).port}/", f":{line.port}/")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.programs.billing", url, way, self._rests],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        program = Program(f"node {place}", process, Path(os.devnull))
        try:
            yield program
        finally:
            program.end()

    def harm_nodes(self, source: Random, runs: int) -> None:
        """Nodes work, and are harmed until so many runs are billed and none is open. Between one
        harm and the next they do a hundredth of it, however slow they are."""
        with ExitStack() as stack:
            lines: list[Proxy | None] = [None] * NODES
            if self.on_server:
                lines = [stack.enter_context(self._line()) for _ in range(NODES)]
            nodes = [
                stack.enter_context(self._node(place, line)) for place, line in enumerate(lines)
            ]
            first = [*source.sample(sorted(self.harm), len(self.harm)), "frozen"]
            while (before := self.bills) < runs or first:
                enough = min(runs, before + max(1, runs // 100))
                until(partial(self._has, enough), f"bill {enough} after {self.harm}", PATIENCE)
                time.sleep(source.random() / 2)
                place = source.randrange(NODES)
                line, what = lines[place], first.pop() if first else self._any(source)
                if what == "killed" or not nodes[place].running:  # its start may have failed
                    what = "killed"
                    nodes[place].kill()
                    nodes[place] = stack.enter_context(self._node(place, line))
                elif line is not None and what == "cut off":
                    _cut_off(line, source.choice(("mute", "half-open", "cut")))
                else:
                    self._freeze([*nodes[place:], *nodes[:place]])
                self.harm[what] += 1
            until(lambda: not self.open_runs, "all runs to end", PATIENCE)

    def _any(self, source: Random) -> str:
        kinds = {"killed": 70, "frozen": 15 if self.on_server else 30, "cut off": 15}
        return source.choices(list(self.harm), [kinds[kind] for kind in self.harm])[0]

    def _freeze(self, nodes: Sequence[Program]) -> None:
        """One that has claims, until others have taken them, except those that it keeps by the
        locks of its transactions, on a server."""
        while self.open_runs:
            for node in nodes:
                if not self._claims(node):
                    continue
                with self._between_writes():
                    node.freeze()
                held, free = self._claims(node), self._claims(node, free=True)
                if free:
                    until(partial(self._is_without, node), "its claims to be taken", PATIENCE)
                    self.taken += held - self._claims(node)
                node.thaw()
                if free:
                    return

    @contextmanager
    def _between_writes(self) -> Iterator[None]:
        """A frozen writer of SQLite would stop all others."""
        if self.on_server:
            yield
            return
        with Store(Path(self.url.removeprefix("sqlite:///"))).write_lock():
            yield

    def _claims(self, node: Program, *, free: bool = False) -> int:
        """How many it has; or only those that no transaction locks."""
        mine = f"SELECT 1 FROM {self.run} WHERE state = 'claimed' AND node LIKE '%:{node.pid}:%'"
        skipping = " FOR UPDATE SKIP LOCKED" if free and self.on_server else ""
        return self.ask(f"SELECT count(*) FROM ({mine}{skipping}) AS claims")

    def _is_without(self, node: Program) -> bool:
        return self._claims(node, free=True) == 0

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
