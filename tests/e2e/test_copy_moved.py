"""What goes on in the new store: claimed runs, readers of events, every namespace; and what a
copy needs before it begins."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Event, Relay, Scheduler, every
from tests.e2e.command import at_hand, until
from tests.faults.relaying import receiver, to_receiver
from tests.support.pgbouncer import PgBouncer, find_pgbouncer
from tests.support.roles import RoleStore
from tests.support.servers import PostgresServer


@pytest.fixture
def source(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/old.db"
    assert at_hand(tmp_path, "migrate", "--url", url).code == 0
    return url


@pytest.fixture
def target(postgres: PostgresServer) -> str:
    return postgres.create_database("moved")


@pytest.fixture
def opened() -> Iterator[Any]:
    """Schedulers that are stopped in the end."""
    with ExitStack() as stack:

        def scheduler(url: str, **options: Any) -> Scheduler:
            made = Scheduler(url, **options)
            stack.callback(made.stop)
            return made

        yield scheduler


def copy(folder: Path, *words: str) -> Any:
    answer = at_hand(folder, "copy", *words, "--json")
    assert answer.code == 0, answer
    return answer.json


# -- runs ------------------------------------------------------------------------------------------


def test_claimed_runs_follow_their_on_crash(
    source: str, target: str, tmp_path: Path, opened: Any
) -> None:
    """Their node died: on the new store each is run again, or recorded as lost."""
    old = opened(source)
    for name, on_crash in (("again", "rerun"), ("never", "abandon")):
        old.task(name=name, on_crash=on_crash)(lambda: None)
    runs = {name: old.enqueue(name).id for name in ("again", "never")}
    _claim(tmp_path / "old.db")
    told = copy(tmp_path, source, target, "--drain", "0")
    assert told["tables"]["run"]["rows"] == 2

    new, executed = opened(target, ttl=1.5), list[str]()
    for name, on_crash in (("again", "rerun"), ("never", "abandon")):
        new.task(name=name, on_crash=on_crash)(lambda name=name: executed.append(name))
    new.start()
    until(lambda: new.get_run(runs["again"]).state == "succeeded", "the run to be run again")
    until(lambda: new.get_run(runs["never"]).state == "lost", "the run to be lost")
    assert executed == ["again"]
    assert new.get_run(runs["again"]).crashes == 1


def _claim(path: Path) -> None:
    """As a node that died leaves them."""
    with closing(sqlite3.connect(path)) as c, c:
        c.execute(
            "UPDATE tenure_run SET state = 'claimed', node = 'gone', attempt = 1,"
            " claimed_at = 1790000000000000"
        )


# -- events ----------------------------------------------------------------------------------------


def read(scheduler: Scheduler) -> list[int]:
    """What a group reads now."""
    found: list[int] = []
    with scheduler.consumer("ledger", group="billing", wait=0.3) as consumer:
        for batch in consumer:
            with batch.transaction():
                found += [json.loads(event.data)["n"] for event in batch]
    return found


def test_each_event_is_read_once_across_both_stores(
    source: str, target: str, tmp_path: Path, opened: Any
) -> None:
    old = opened(source)
    for n in range(4):
        old.emit(Event("ledger", "Paid", {"n": n}, key=f"k{n}"))
    assert sorted(read(old)) == [0, 1, 2, 3]
    for n in range(4, 8):
        old.emit(Event("ledger", "Paid", {"n": n}, key=f"k{n}"))
    old.stop()
    copy(tmp_path, source, target)

    new = opened(target)
    new.start()
    for n in range(8, 12):
        new.emit(Event("ledger", "Paid", {"n": n}, key=f"k{n}"))
    found: list[int] = []

    def all_are_read() -> bool:
        found.extend(read(new))
        return len(found) >= 8

    until(all_are_read, "the events")
    assert sorted(found) == [4, 5, 6, 7, 8, 9, 10, 11]


def test_a_relay_goes_on_where_it_was(
    source: str, target: str, tmp_path: Path, opened: Any
) -> None:
    with receiver() as sink:
        for number, url in enumerate((source, target), 1):
            node = opened(url, relays=[Relay(**to_receiver(sink, name="out"))])
            node.start()
            node.emit(Event("ledger", "Paid"), id=f"event-{number}")
            assert sink.has_received(number)
            node.stop()  # which stores its position
            if url == source:
                copy(tmp_path, source, target)
        assert [each.attributes["id"] for each in sink.received] == ["event-1", "event-2"]


# -- namespaces ------------------------------------------------------------------------------------


def test_every_namespace_comes_over_and_back(
    source: str, target: str, tmp_path: Path, opened: Any
) -> None:
    for space in ("a", "b"):
        client = opened(source, namespace=space)
        client.add(f"of-{space}", every(hours=1), emit=Event("ledger", "Hour"))
    opened(source, namespace="only-events").emit(Event("ledger", "Paid", {"n": 1}))
    copy(tmp_path, source, target)
    # On the server, events get positions from a leader; these namespaces never had one there.
    opened(target, namespace="only-events").emit(Event("ledger", "Paid", {"n": 2}))
    opened(target, namespace="later").emit(Event("ledger", "Paid", {"n": 3}))
    back = f"sqlite:///{tmp_path}/back.db"
    copy(tmp_path, target, back)
    for space in ("a", "b"):
        (schedule,) = opened(back, namespace=space).schedules()
        assert schedule.name == f"of-{space}"
    assert sorted(read(opened(back, namespace="only-events"))) == [1, 2]
    assert read(opened(back, namespace="later")) == [3]


# -- before it begins ------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_role_that_does_not_own_the_tables(
    store: RoleStore, source: str, tmp_path: Path, more: tuple[str, ...]
) -> None:
    """Said before anything is copied, of a target and of a source."""
    for words in (
        (source, store.of("node")),
        (store.of("node"), f"sqlite:///{tmp_path}/new.db"),
    ):
        answer = at_hand(tmp_path, "copy", *words, *more)
        assert answer.code == 1, answer
        assert "the role 'tenure_node' does not own attempt, audit," in answer.err
        assert "Copy with the URL of the role that migrates" in answer.err
        assert "The target is reserved" not in answer.err
    assert at_hand(tmp_path, "status", "--url", source, "--json").json["moved"] is None


def test_a_role_that_may_not_create_the_schema(
    source: str, target: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS nobodys; CREATE ROLE nobodys LOGIN")
    url = target.replace("tenure@", "nobodys@")
    answer = at_hand(tmp_path, "copy", source, url, "--dry-run")
    assert answer.code == 1, answer
    assert "the role 'nobodys' may not create the schema tenure in this database" in answer.err


def test_through_a_pooler(
    source: str, target: str, postgres: PostgresServer, tmp_path: Path, opened: Any
) -> None:
    program = find_pgbouncer()
    if program is None:
        pytest.skip("needs PgBouncer")
    opened(source).add("kept", every(hours=1), emit=Event("ledger", "Hour"))
    with PgBouncer(program, postgres.port) as pooler:
        through = target.replace(f":{postgres.port}/", f":{pooler.port}/")
        assert copy(tmp_path, source, through)["tables"]["schedule"]["rows"] == 1
        back = f"sqlite:///{tmp_path}/back.db"
        copy(tmp_path, through, back)
    (schedule,) = opened(back).schedules()
    assert schedule.name == "kept"
    refused = at_hand(tmp_path, "enqueue", "work", "--url", target)
    assert "this store was moved to" in refused.err
