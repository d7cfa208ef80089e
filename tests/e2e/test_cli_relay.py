"""`tenure relay`, `tenure run --relay`, and what operators do about what was not delivered."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pytest
import redis

from tenure import Event, Scheduler
from tenure.backends.sqlite import SQLiteBackend
from tenure.model import Acknowledgement, Fence, HeldLane, Lane, Parked
from tests.e2e.command import EXECUTABLE, PATIENCE, at_hand, until
from tests.support.http_receiver import HttpReceiver
from tests.support.kafka_cluster import KafkaCluster
from tests.support.servers import PostgresServer, ValkeyServer

T = TypeVar("T")
STORE = ("--url", "sqlite:///jobs.db")
SECRET = "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"
FENCE = Fence("tenure/relay/hook", 1, "tests")
APP = """
from tenure import Scheduler

scheduler = Scheduler("sqlite:///jobs.db", ttl=5)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert at_hand(tmp_path, "migrate", *STORE).code == 0
    return tmp_path


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    made = HttpReceiver([SECRET]).start()
    try:
        yield made
    finally:
        made.close()


def emit(folder: Path, count: int) -> None:
    scheduler = Scheduler(f"sqlite:///{folder / 'jobs.db'}")
    for n in range(count):
        scheduler.emit(Event("ledger", "Said", n, key=f"k{n % 2}"), id=str(n))
    scheduler.stop()


def asked(folder: Path, *words: str) -> Any:
    answer = at_hand(folder, *words, *STORE, "--json")
    assert answer.code == 0, answer
    return answer.json


def stored(folder: Path, work: Callable[[SQLiteBackend], Awaitable[T]]) -> T:
    async def act() -> T:
        backend = SQLiteBackend(folder / "jobs.db")
        await backend.open()
        try:
            await backend.office.take(FENCE)
            return await work(backend)
        finally:
            await backend.close()

    return asyncio.run(act())


@pytest.fixture
def troubled(folder: Path) -> Path:
    """A relay that has parked the first event, passed over the second and delivered the others."""
    emit(folder, 4)

    async def work(backend: SQLiteBackend) -> None:
        relay = await backend.relays.resume(FENCE, "hook", "webhook+https://host", ["ledger"])
        held = HeldLane(Lane("ledger", "k0"), 1, 10, 0.0, "500: no", parked=True)
        told = Acknowledgement(4, (held,), (), (Parked(2, 3, "400: never"),), trouble="no answer")
        assert await backend.relays.acknowledge(FENCE, "hook", relay.revision, told)

    stored(folder, work)
    return folder


def test_relays_and_what_they_parked_are_shown(troubled: Path) -> None:
    [relay] = asked(troubled, "events", "relays")
    assert (relay["relay"], relay["sink"], relay["topics"]) == (
        "hook",
        "webhook+https://host",
        ["ledger"],
    )
    assert (relay["position"], relay["parked"], relay["trouble"]) == (4, 2, "no answer")
    assert "no answer" in at_hand(troubled, "events", "relays", *STORE).out
    assert at_hand(troubled, "status", *STORE).out.count("2 PARKED") == 1
    assert asked_status(troubled)["relays"][0]["relay"] == "hook"
    first, second = asked(troubled, "events", "parked")
    assert (first["event"]["id"], first["holds"], first["tries"]) == ("0", True, 10)
    assert (first["waiting"], first["waiting_is_more"], second["waiting"]) == (1, False, 0)
    assert (second["event"]["id"], second["holds"], second["reason"]) == ("1", False, "400: never")
    text = at_hand(troubled, "events", "parked", "--relay", "hook", *STORE).out
    assert "its key, 1 behind" in text
    assert "500: no" in text
    assert asked(troubled, "events", "parked", "--relay", "other") == []
    doctor = at_hand(troubled, "doctor", *STORE)
    assert "has parked 2 events" in doctor.out
    assert doctor.code == 1


def asked_status(folder: Path) -> Any:
    """Nobody leads: the exit code says so."""
    return at_hand(folder, "status", *STORE, "--json").json


def test_count_of_what_waits_ends(troubled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    emit(troubled, 8)
    shown = at_hand(troubled, "events", "parked", *STORE).out
    assert "its key, 3 behind" in shown
    for module in ("backends.sqlite.relays", "model.relays"):
        monkeypatch.setattr(import_module(f"tenure.{module}"), "WAITING_COUNTED", 2)
    assert "its key, 2+ behind" in at_hand(troubled, "events", "parked", *STORE).out
    first, _ = asked(troubled, "events", "parked")
    assert (first["waiting"], first["waiting_is_more"]) == (2, True)
    monkeypatch.setattr(import_module("tenure.backends.sqlite.relays"), "WAITING_LISTED", 0)
    assert "its key, " not in at_hand(troubled, "events", "parked", *STORE).out
    assert [each["waiting"] for each in asked(troubled, "events", "parked")] == [None, 0]


def test_parked_events_are_replayed_and_dropped(troubled: Path) -> None:
    shown = asked(troubled, "events", "parked", "--replay", "--dry-run")
    assert ([each["position"] for each in shown["events"]], shown["changed"]) == ([1, 2], 0)
    refused = at_hand(troubled, "events", "parked", "--drop", *STORE, stdin="n\n")
    assert (refused.code, "not confirmed" in refused.err) == (1, True)
    assert len(asked(troubled, "events", "parked")) == 2
    missing = at_hand(troubled, "events", "parked", "--position", "3", "--drop", "--yes", *STORE)
    assert (missing.code, "position 3" in missing.err) == (1, True)
    assert asked(troubled, "events", "parked", "--replay", "--position", "2")["changed"] == 1
    assert [each["replayed"] for each in asked(troubled, "events", "parked")] == [False, True]
    done = at_hand(troubled, "events", "parked", "--drop", "--position", "1", *STORE, stdin="y\n")
    assert "1 event given up" in done.out, done
    assert [each["position"] for each in asked(troubled, "events", "parked")] == [2]
    both = at_hand(troubled, "events", "parked", "--drop", "--replay", *STORE)
    assert both.code == 2


def test_relay_that_is_not_used_any_more_is_forgotten(troubled: Path) -> None:
    pruned = asked(troubled, "prune", "--older-than", "0.001s")["pruned"]
    assert pruned["events"] == 0, "a relay still needs the first of them"
    unknown = at_hand(troubled, "events", "relays", "--drop", "other", "--yes", *STORE)
    assert (unknown.code, "no relay 'other'" in unknown.err) == (1, True)
    assert asked(troubled, "events", "relays", "--drop", "hook", "--yes") == {"dropped": "hook"}
    assert asked(troubled, "events", "relays") == []
    assert asked(troubled, "prune", "--older-than", "0.001s")["pruned"]["events"] == 4


def test_relay_whose_sink_has_ended_is_resumed(folder: Path) -> None:
    async def work(backend: SQLiteBackend) -> None:
        relay = await backend.relays.resume(FENCE, "hook", "webhook+https://host")
        told = Acknowledgement(0, trouble="410: gone", ended="410: gone")
        assert await backend.relays.acknowledge(FENCE, "hook", relay.revision, told)

    stored(folder, work)
    assert "ended: 410: gone" in at_hand(folder, "events", "relays", *STORE).out
    assert "has ended" in at_hand(folder, "doctor", *STORE).out
    assert asked(folder, "events", "relays", "--resume", "hook") == {"resumed": "hook"}
    again = at_hand(folder, "events", "relays", "--resume", "hook", *STORE)
    assert (again.code, "has not ended" in again.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["relay"], "give one sink"),
        (["relay", "--to", "nothing"], "not a URL"),
        (["relay", "--to", "unknown://host"], "unknown sink"),
        (["relay", "--to", "kafka://host", "--topic", "a b"], "a topic's name"),
        (["relay", "--to", "webhook+http://host/"], "http"),
        (["relay", "--to-file", "missing"], "cannot be read"),
        (["run", "app:scheduler", "--relay", "unknown://host"], "unknown sink"),
        (["run", "app:scheduler", "--relay", "kafka://a", "--relay", "kafka://b"], "two relays"),
    ],
)
def test_wrong_sinks_are_told_at_once(folder: Path, words: list[str], why: str) -> None:
    (folder / "app.py").write_text(APP)
    answer = at_hand(folder, *words, *(STORE if words[0] == "relay" else ()))
    assert answer.code in (1, 2)
    assert why in answer.err


def test_relay_by_itself(folder: Path, receiver: HttpReceiver) -> None:
    url = f"webhook+http://127.0.0.1:{receiver.port}/t0ken#secret={SECRET}"
    (folder / "sink").write_text(url)
    alone = ["relay", "--to-file", "sink", "--allow-http", "--allow-private", *STORE]
    emit(folder, 3)
    with _running(folder, *alone) as process:
        assert receiver.has_received(3)
        until(lambda: asked(folder, "events", "relays")[0]["position"] == 3, "what is stored")
        running = at_hand(folder, "events", "relays", "--drop", "webhook", "--yes", *STORE)
        assert (running.code, "is running" in running.err) == (1, True)
        _, told = _stopped(process)
    assert process.returncode == 0, told
    assert "Stopped; handed over." in told
    assert f"webhook+http://127.0.0.1:{receiver.port}" in told
    assert not any(word in told for word in (SECRET, "t0ken"))


def test_node_with_relays(folder: Path, valkey: Streams, brokers: KafkaCluster) -> None:
    (folder / "app.py").write_text(APP)
    (folder / "sink").write_text(
        f"kafka://app:t0ken@{brokers.hosts}?security.protocol=PLAINTEXT#prefix=tenure."
    )
    emit(folder, 3)
    node = ["run", "app:scheduler", "--relay", valkey.streams, "--relay-file", "sink"]
    with _running(folder, *node) as process:
        until(lambda: valkey.entries() == ["0", "1", "2"], "what Valkey got")
        until(lambda: len(brokers.records(["tenure.ledger"])) == 3, "what Kafka got")
        emit(folder, 5)
        until(lambda: valkey.entries() == ["0", "1", "2", "3", "4"], "the new ones, each once")
        until(lambda: len(brokers.records(["tenure.ledger"])) == 5, "the same on Kafka")
        _, told = _stopped(process)
    assert process.returncode == 0, told
    for relay in (
        f"relay   kafka: kafka://{brokers.hosts}",
        "relay   redis-streams: redis-streams",
    ):
        assert relay in told
    assert "t0ken" not in told
    shown = {each["relay"]: each["position"] for each in asked(folder, "events", "relays")}
    assert shown == {"kafka": 5, "redis-streams": 5}, "a relay that is stopped has stored all"


def test_relay_by_itself_beside_a_leader_on_postgresql(
    tmp_path: Path, postgres: PostgresServer, valkey: Streams
) -> None:
    url = postgres.create_database("relay")
    (tmp_path / "app.py").write_text(APP.replace("sqlite:///jobs.db", url))
    assert at_hand(tmp_path, "migrate", "--url", url).code == 0
    scheduler = Scheduler(url)
    with _running(tmp_path, "relay", "--to", valkey.streams, "--url", url) as relay:
        for n in range(3):
            scheduler.emit(Event("ledger", "Said", n, key="k"), id=str(n))
        with _running(tmp_path, "run", "app:scheduler") as leader:  # it gives them positions
            until(lambda: valkey.entries() == ["0", "1", "2"], "what Valkey got")
            scheduler.emit(Event("ledger", "Said", 3, key="k"), id="3")
            until(lambda: valkey.entries() == ["0", "1", "2", "3"], "the new one")
            for process in (leader, relay):
                _, told = _stopped(process)
                assert process.returncode == 0, told
    scheduler.stop()
    doctor = at_hand(tmp_path, "events", "relays", "--url", url, "--json")
    assert [each["unread"] for each in doctor.json] == [0]


class Streams(ValkeyServer):
    """A server, and what its stream `ledger` has."""

    @property
    def streams(self) -> str:
        return f"redis-streams://127.0.0.1:{self.port}/0"

    def entries(self) -> list[str]:
        with redis.Redis(port=self.port, decode_responses=True) as line:
            return [str(fields["ce_id"]) for _, fields in line.xrange("ledger")]


@pytest.fixture
def valkey() -> Iterator[Streams]:
    server = Streams()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def brokers() -> Iterator[KafkaCluster]:
    made = KafkaCluster().start()
    try:
        yield made
    finally:
        made.close()


def _stopped(process: subprocess.Popen[str]) -> tuple[str, str]:
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=PATIENCE)


def _running(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(EXECUTABLE), *words], cwd=folder, stderr=subprocess.PIPE, text=True
    )
