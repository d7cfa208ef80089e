"""Real `celery beat` processes and a worker on a real broker, killed, frozen and cut off.

Beats reach their broker through a proxy, so that it can be away for them alone: what a worker makes
of a broker that is away is Celery's concern.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from tests.faults.beat_stores import BeatStore, beat_store
from tests.faults.support import ROOT, Journal, Program, until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer

BEATS = 3
BEAT = ("beat", "-S", "tenure", "--pidfile=")
AIM = (0.010, 0.080)
"""How long after a firing a kill is aimed at, in seconds."""
NEAR = 1.0
"""What is due up to so many seconds after a kill may be late because of it."""
SECOND = timedelta(seconds=1)


class Beats:
    """Three beats, one worker; `with Beats(folder, schedules=5) as beats`."""

    def __init__(self, folder: Path, *, schedules: int, ttl: float, store: str = "sqlite") -> None:
        self.folder = folder
        self.schedules = schedules
        self.ttl = ttl
        self.journal = Journal(folder / "journal")
        self.harm = Counter[str]()
        self.kills: list[float] = []
        """When, by the wall clock."""
        self._started = 0
        self._running: list[Program] = []
        self._stack = ExitStack()
        self._kind = store
        self._store: BeatStore
        self._broker = ValkeyServer()
        self._line = Proxy(self._broker.port)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._store = stack.enter_context(beat_store(self._kind, self.folder))
            stack.callback(self._broker.close)
            self._broker.start()
            stack.enter_context(self._line)
            stack.callback(self._end)
            self._start("worker", self._broker.port, "worker", "-P", "solo", "--without-mingle")
            for _ in range(BEATS):
                self._beat()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    # -- harms ----------------------------------------------------------------------------------

    def kill(self, delay: float) -> None:
        """Kill who leads so long after a firing; another takes its place on the list."""
        leader = self.leader()
        time.sleep(1.0 - time.time() % 1.0 + delay)
        self._kill(leader)

    def kill_any(self, source: random.Random) -> None:
        """Kill one of them at a random moment."""
        time.sleep(source.random())
        self._kill(source.choice(self._beats))

    def _kill(self, beat: Program) -> None:
        self.kills.append(time.time())
        beat.kill()
        self._running.remove(beat)
        self._beat()
        self.harm["killed"] += 1

    def freeze(self) -> None:
        """Freeze who leads past its ttl, and thaw it when another leads."""
        self._until_over_kills()
        leader = self.leader()
        self._store.freeze(leader)
        until(lambda: self._store.leading() not in (None, leader.pid), "another to lead")
        leader.thaw()
        self._until_caught_up()
        self.harm["frozen"] += 1

    @contextmanager
    def broker_away(self) -> Iterator[None]:
        self._until_over_kills()
        self._line.become("cut")
        yield
        self._line.become("pass")
        self._until_caught_up()
        self.harm["broker away"] += 1

    # -- what came of it ------------------------------------------------------------------------

    def leader(self) -> Program:
        def found() -> Program | None:
            leading = self._store.leading()
            return next((beat for beat in self._beats if beat.pid == leading), None)

        return until(found, "a beat to lead")

    def executed(self) -> list[tuple[str, str]]:
        """Each as its schedule and nominal time."""
        return [(e["schedule"], e["nominal"]) for e in self.journal.entries("executed")]

    def until_executed(self, more: int) -> None:
        enough = len(self.executed()) + more * self.schedules
        until(lambda: len(self.executed()) >= enough, f"{more} more seconds to be executed")

    def stop(self) -> None:
        """Stop the beats politely, and let the worker execute what was sent."""
        beats = self._beats
        for beat in beats:
            # Before, it has no handler for the signal.
            until(lambda up=beat: "node.started" in up.output, "a beat to be up")  # type: ignore[misc]
            beat.signal(signal.SIGTERM)
        codes = [beat.wait() for beat in beats]
        assert codes == [0] * len(beats), f"{codes}\n{self.logs()}"
        until(lambda: self._broker.command("LLEN", "celery") == 0, "an empty queue")
        sent = set(self._sent())
        until(lambda: sent <= set(self.executed()), "the worker to have executed all")

    def wrong(self) -> dict[str, list[tuple[str, str]]]:
        """What was executed twice, and what was not; empty if all is well. After `stop`."""
        counted = Counter(self.executed())
        twice = [occurrence for occurrence, times in counted.items() if times > 1]
        lost = []
        for schedule in {schedule for schedule, _ in counted}:
            times = sorted(datetime.fromisoformat(t) for name, t in counted if name == schedule)
            grid = (times[0] + n * SECOND for n in range((times[-1] - times[0]) // SECOND))
            lost += [(schedule, t.isoformat()) for t in grid if t not in times]
        # What a beat had to leave when it was stopped waits in the store for the next one.
        waiting = set(self._store.runs("waiting"))
        lost = [occurrence for occurrence in lost if occurrence not in waiting]
        lost += [occurrence for occurrence in self._sent() if occurrence not in counted]
        found = {"executed twice": twice, "lost": lost}
        return {what: names for what, names in found.items() if names}

    def ignored(self) -> int:
        """How often the guard kept a second message from being executed."""
        worker = next(program for program in self._running if program.who == "worker")
        return worker.output.count("was sent twice: ignored")

    def gap(self) -> float:
        """The greatest delay, in seconds, of what was due within a second of a kill."""
        return max((delay for _, delay in self._delays()), default=0.0)

    def late(self, limit: float) -> list[tuple[str, str]]:
        """What a kill has delayed by more than this."""
        return [occurrence for occurrence, delay in self._delays() if delay > limit]

    def _delays(self) -> Iterator[tuple[tuple[str, str], float]]:
        for entry in self.journal.entries("executed"):
            nominal = datetime.fromisoformat(entry["nominal"]).timestamp()
            if any(-0.2 < nominal - kill < NEAR for kill in self.kills):
                yield (entry["schedule"], entry["nominal"]), entry["wall"] - nominal

    def logs(self) -> str:
        return "\n".join(f"--- {p.who} {p.pid}\n{p.output[-3000:]}" for p in self._running)

    def _until_over_kills(self) -> None:
        """What was due around the last kill is executed: it cannot be late by what comes now."""
        if not self.kills:
            return
        over = datetime.fromtimestamp(self.kills[-1] + NEAR, UTC).isoformat()

        def executed() -> bool:
            latest = dict[str, str]()
            for schedule, nominal in self.executed():
                latest[schedule] = max(nominal, latest.get(schedule, ""))
            return len(latest) == self.schedules and min(latest.values()) >= over

        until(executed, "what is due after a kill to be executed")
        self._until_caught_up()

    def _until_caught_up(self) -> None:
        """What is late from now on is not so because of what was before."""

        def left() -> bool:
            ago = datetime.fromtimestamp(time.time() - 1.0, UTC).isoformat()
            unsent = self._store.runs("waiting") + self._store.runs("claimed")
            late = any(nominal < ago for _, nominal in unsent)
            return late or bool(self._broker.command("LLEN", "celery"))

        until(lambda: not left(), "the beats to have caught up")

    # -- within ---------------------------------------------------------------------------------

    @property
    def _beats(self) -> list[Program]:
        return [program for program in self._running if program.who == "beat"]

    def _beat(self) -> None:
        self._start("beat", self._line.port, *BEAT)

    def _start(self, who: str, port: int, *command: str) -> None:
        given = {
            "url": self._store.url,
            "broker": f"redis://127.0.0.1:{port}/0",
            "journal": str(self.journal.path),
            "ttl": self.ttl,
            "schedules": self.schedules,
        }
        self._started += 1  # each has a log of its own: `stop` goes by what is in it
        log = self.folder / f"{who}-{self._started}.log"
        self._running.append(start_celery(who, log, given, *command))

    def _sent(self) -> list[tuple[str, str]]:
        """What the store says was sent."""
        return self._store.runs("succeeded")

    def _end(self) -> None:
        for program in self._running:
            program.end()


def start_celery(who: str, log: Path, given: Mapping[str, object], *command: str) -> Program:
    """Start `celery` with the application of programs/beats.py, in the folder of its log."""
    kept = {name: v for name, v in os.environ.items() if not name.startswith("TENURE_")}
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    celery = str(Path(sys.executable).parent / "celery")
    with log.open("ab") as output:
        process = subprocess.Popen(
            [celery, "-A", "tests.faults.programs.beats", *command, "-l", "info"],
            env=kept | {"PYTHONPATH": path, "BEATS": json.dumps(given)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
        )
    return Program(who, process, log)
