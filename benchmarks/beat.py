"""Beat: three `celery beat`, the one that leads killed with -9; how long until a message is sent?

Tenure's scheduler with default settings, and RedBeat in the same run: as it is, where the lock of a
beat that died lasts 25 minutes, and with a lock of 5 seconds, tried each second. All send to one
Valkey; nobody executes what is sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import redis

from benchmarks import peers
from benchmarks.figures import Figure, Say
from benchmarks.stores import Place, Store, lease_backend
from tenure.contrib.celery.sending import OCCURRENCE
from tenure.node.node import LEADER
from tests.support.servers import ValkeyServer

BEATS = 3
PATIENCE = 60.0
WATCHED = 45.0
"""How many seconds RedBeat's own settings are watched: they would need 25 minutes."""
TUNED = {"beat_max_loop_interval": 1, "redbeat_lock_timeout": 5}
PEER = "redbeat"
_SENDER = re.compile(r"gen(\d+)@")


@dataclass(frozen=True)
class Kind:
    """A scheduler of beats."""

    celery: Path
    scheduler: str
    up: str
    """What a beat has written to its log when it leads or waits for its turn."""
    settings: Mapping[str, object]


@dataclass(frozen=True)
class Message:
    at: float
    pid: int
    """Of the beat that sent it."""
    nominal: float | None
    """When it was due; RedBeat does not say."""

    def fired_since(self, killed: float, pid: int) -> bool:
        """Is it from after this beat was killed? Another may still send what that one fired."""
        due = self.at if self.nominal is None else self.nominal
        return self.pid != pid and min(self.at, due) > killed


class Beats:
    """Beats of which none outlives the block, and what they send."""

    def __init__(self, kind: Kind, count: int, broker: ValkeyServer, folder: Path) -> None:
        self._kind = kind
        self._count = count
        self._broker = broker
        self._folder = folder
        self._running: dict[int, tuple[subprocess.Popen[bytes], Path]] = {}
        self._started = 0
        self._messages: list[Message] = []
        self._came = threading.Condition()
        self._ends = threading.Event()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reader.start()
        for _ in range(self._count):
            self.join()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ends.set()
        for process, _ in self._running.values():
            process.kill()
            process.wait()
        self._reader.join()

    def join(self) -> None:
        """Start a beat, and do not wait for it yet: see `complete`."""
        self._started += 1
        log = self._folder / f"{self._started}.log"
        url = self._broker.url
        settings = {"broker_url": url, "redbeat_redis_url": url, **self._kind.settings}
        kept = {name: v for name, v in os.environ.items() if not name.startswith("TENURE_")}
        program = [str(self._kind.celery), "-A", f"{peers.__name__}.{PEER}", "beat"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*program, "-S", self._kind.scheduler, "--pidfile=", "--loglevel", "debug"],
                env=kept | {"PYTHONPATH": str(peers.ROOT), "BEAT": json.dumps(settings)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
            )
        self._running[process.pid] = process, log

    def complete(self) -> None:
        """Wait until all of them take part."""
        until = time.monotonic() + PATIENCE
        for process, log in self._running.values():
            while self._kind.up not in (text := log.read_text(errors="replace")):
                if time.monotonic() > until or process.poll() is not None:
                    raise TimeoutError(f"a beat is not up: {text[-2000:]}")
                time.sleep(0.05)

    def kill(self, pid: int) -> float:
        """kill -9; returns when."""
        process, _ = self._running.pop(pid)
        at = time.time()
        process.kill()
        process.wait()
        return at

    def first(self, wanted: Callable[[Message], bool], within: float = PATIENCE) -> Message | None:
        """The first such message, past or to come; None if there is none in that time."""
        until = time.monotonic() + within
        with self._came:
            while True:
                for message in self._messages:
                    if wanted(message):
                        return message
                if not self._came.wait(timeout=max(0.0, until - time.monotonic())):
                    return None

    def sender(self) -> int:
        """Who has sent the last message that came."""
        begun = time.time()
        message = self.first(lambda m: m.at > begun)
        if message is None:
            raise TimeoutError(f"nothing was sent for {PATIENCE:g} s")
        return message.pid

    def _read(self) -> None:
        with redis.Redis(port=self._broker.port) as client:
            while not self._ends.is_set():
                taken: Any = client.brpop(["celery"], timeout=1)
                if taken is not None:
                    with self._came:
                        self._messages.append(_message(taken[1]))
                        self._came.notify_all()


def _message(text: bytes) -> Message:
    headers = json.loads(text)["headers"]
    sender = _SENDER.match(headers["origin"])
    assert sender is not None, headers
    nominal = None
    if OCCURRENCE in headers:
        nominal = datetime.fromisoformat(json.loads(headers[OCCURRENCE])[4]).timestamp()
    return Message(time.time(), int(sender[1]), nominal)


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    what = "beat: kill -9 to the next message"
    with store.place() as place:
        kind = Kind(
            Path(sys.executable).with_name("celery"),
            "tenure",
            "node.started",
            {"tenure_url": place.url},
        )
        kills, count = (1, 2) if quick else (10, BEATS)
        waits = _waits("Tenure", kind, kills, say, lambda _: _leader(place), count)
        took = [wait or WATCHED for wait in waits]
    figures = [Figure(f"{what}, Tenure", "s", took, target=1.0)]
    if quick:
        say("left out of a quick run: RedBeat, which needs an environment of its own")
        return figures
    name = peers.version(PEER)
    tuned = [w or WATCHED for w in _waits(f"{name}, tuned", redbeat(say, **TUNED), 3, say)]
    told = ", ".join(f"{setting}={value}" for setting, value in TUNED.items())
    figures.append(Figure(f"{what}, {name}, {told}", "s", tuned))
    (wait,) = _waits(f"{name}, as it is", redbeat(say), 1, say)
    more = "" if wait is not None else f": more than {WATCHED:g} s"
    figures.append(Figure(f"{what}, {name}, as it is{more}", "s", [wait or WATCHED]))
    return figures


def redbeat(say: Say, **settings: object) -> Kind:
    celery = peers.python(PEER, say).with_name("celery")
    return Kind(celery, "redbeat.RedBeatScheduler", "beat: Acquiring lock", settings)


def _waits(
    title: str,
    kind: Kind,
    kills: int,
    say: Say,
    leader: Callable[[Beats], int] = Beats.sender,
    count: int = BEATS,
) -> list[float | None]:
    """How long each kill was felt; None: longer than it was watched."""
    chance = random.Random(4)
    found: list[float | None] = []
    with started(kind, count) as beats:
        for number in range(1, kills + 1):
            beats.sender()
            beats.complete()
            time.sleep(chance.random())
            pid = leader(beats)
            killed = beats.kill(pid)
            next_one = beats.first(lambda m, k=killed, p=pid: m.fired_since(k, p), WATCHED)  # type: ignore[misc]
            found.append(None if next_one is None else next_one.at - killed)
            said = f"nothing for {WATCHED:g} s" if next_one is None else f"{found[-1]:.3f} s"
            say(f"{title}, kill {number} of {kills}: {said}")
            if number < kills:
                beats.join()
    return found


@contextmanager
def started(kind: Kind, count: int) -> Iterator[Beats]:
    """So many beats, on a broker of their own."""
    broker = ValkeyServer()
    try:
        broker.start()
        with (
            tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder,
            Beats(kind, count, broker, Path(folder)) as beats,
        ):
            yield beats
    finally:
        broker.close()


def _leader(place: Place) -> int:
    return asyncio.run(_read_leader(place))


async def _read_leader(place: Place) -> int:
    store = lease_backend(place)
    await store.open(migrate=False)
    try:
        lease = await store.leases.read(LEADER)
    finally:
        await store.close()
    assert lease is not None
    assert lease.pid is not None
    return lease.pid
