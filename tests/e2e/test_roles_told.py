"""What a role is told, by doctor, at a start and when something is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.errors import InsufficientPrivilege

from tenure import Leases, Scheduler, StoreError, every
from tests.e2e.command import at_hand, until
from tests.support.roles import RoleStore, rights_of


def pack(order: str = "none") -> None: ...


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("reader", "is a reader"),
        ("editor", "is an editor"),
        ("node", "all that a node needs"),
        ("migrator", "all that a node needs"),
    ],
)
def test_doctor_says_what_a_role_is_for(
    store: RoleStore, kind: str, says: str, tmp_path: Path
) -> None:
    answer = at_hand(tmp_path, "doctor", "--json", "--url", store.of(kind))
    assert says in rights_of(store.of(kind), tmp_path)["text"]
    problems = {f["check"] for f in answer.json["findings"] if f["severity"] == "problem"}
    assert problems <= {"durability"}, answer  # this server has no fsync
    for command in (("status",), ("schedules", "list"), ("runs", "list"), ("leases", "list")):
        found = at_hand(tmp_path, *command, "--url", store.of(kind))
        assert found.code in (0, 1), (command, found)  # 1: nobody leads
        assert "refused" not in found.err


def test_doctor_of_a_role_withoutrights_of(store: RoleStore, tmp_path: Path) -> None:
    store.admin.execute("CREATE ROLE nobody_yet LOGIN")
    url = store.url.replace("tenure@", "nobody_yet@")
    found = rights_of(url, tmp_path)
    assert found["severity"] == "problem"
    assert "'nobody_yet' may not even read: it lacks" in found["text"]
    assert "USAGE on schema tenure" in found["text"]
    assert "migrate --roles" in found["remedy"]


def test_doctor_of_half_a_node(store: RoleStore, tmp_path: Path) -> None:
    store.admin.execute("REVOKE DELETE ON tenure.run FROM tenure_node")
    found = rights_of(store.of("node"), tmp_path)
    # It may not read the views: those are not a node's.
    assert found["severity"] == "problem"
    store.admin.execute("GRANT tenure_reader TO tenure_node")
    try:
        found = rights_of(store.of("node"), tmp_path)
        assert found["severity"] == "warning"
        assert "it lacks DELETE on tenure.run" in found["text"]
    finally:
        store.admin.execute("REVOKE tenure_reader FROM tenure_node")


@pytest.mark.parametrize(
    ("kind", "revoked", "says"),
    [
        ("reader", "", "DELETE, INSERT, UPDATE on tenure.attempt, tenure.audit, tenure.edition,"),
        ("editor", "", "INSERT, UPDATE on tenure.event_log, tenure.fence"),
        ("node", "DELETE ON tenure.run", "it lacks DELETE on tenure.run."),
        ("node", "USAGE ON tenure.run_id_seq", "it lacks USAGE on tenure.run_id_seq."),
    ],
)
def test_node_without_its_rights_does_not_start(
    store: RoleStore, kind: str, revoked: str, says: str
) -> None:
    """What would fail hours later, such as pruning, is told at once, and nothing was changed."""
    if revoked:
        what = "SEQUENCE " if "_seq" in revoked else ""
        store.admin.execute(
            f"REVOKE {revoked.replace('ON ', f'ON {what}')} FROM tenure_node".encode()
        )
    scheduler = Scheduler(store.of(kind), migrate=False)
    scheduler.task(every(seconds=1))(pack)
    with pytest.raises(StoreError, match="may not run a node") as told:
        scheduler.start()
    assert told.value.stage == "check"
    assert f"the role 'tenure_{kind}'" in str(told.value)
    assert says in str(told.value)
    assert "`tenure migrate --roles --url postgresql://" in str(told.value)
    assert store.admin.execute("SELECT count(*) FROM tenure.schedule").fetchall() == [(0,)]


@pytest.mark.parametrize("kind", ["reader", "editor"])
def test_lock_that_a_role_may_not_take(store: RoleStore, kind: str) -> None:
    with Leases(store.of(kind)) as leases, pytest.raises(StoreError) as told:
        leases.acquire("job")
    assert f"refused the role 'tenure_{kind}'" in str(told.value)
    assert "DELETE, INSERT, UPDATE on tenure.lease" in str(told.value)
    assert "`tenure migrate --roles" in str(told.value)


def test_reader_that_changes_schedules_is_told_the_remedy(store: RoleStore) -> None:
    scheduler = Scheduler(store.of("reader"))
    scheduler.task(pack)
    with pytest.raises(StoreError, match=r"'tenure_reader'.* lacks .*tenure\.schedule"):
        scheduler.add("a", every(hours=1), task=pack)
    with store.connect("reader", autocommit=False) as own:
        with pytest.raises(InsufficientPrivilege) as told:
            scheduler.add("a", every(hours=1), task=pack, connection=own)
        assert "tenure migrate --roles" in told.value.__notes__[0]
        own.execute("SELECT 1")  # the transaction is usable
    scheduler.stop()


@pytest.mark.parametrize("kind", ["reader", "editor"])
def test_fence_needs_the_rights_of_a_node(store: RoleStore, kind: str) -> None:
    with Leases(store.of("node")) as leases, store.connect(kind, autocommit=False) as own:
        lease = leases.acquire("job")
        assert lease is not None
        with pytest.raises(InsufficientPrivilege) as told:
            lease.fence(own)
        assert "rights of a node" in told.value.__notes__[0]
        assert "tenure migrate --roles" in told.value.__notes__[0]
        own.rollback()
        with store.connect("node", autocommit=False) as another:
            lease.fence(another)
        lease.release()


def test_pending_migration_and_a_role_that_may_not(role_url: str) -> None:
    store = RoleStore(role_url)
    with pytest.raises(StoreError, match=r"'tenure_node'.*`tenure migrate .*as the owner"):
        Leases(store.of("node")).acquire("job")
    store.close()


def test_who_is_editor_and_node_is_a_node(store: RoleStore) -> None:
    """What limits an editor does not hide a node's runs from it."""
    store.admin.execute("CREATE ROLE app LOGIN IN ROLE tenure_editor, tenure_node")
    done: list[str] = []
    scheduler = Scheduler(store.url.replace("tenure@", "app@"), migrate=False, ttl=5.0)

    @scheduler.task(every(seconds=1))
    def tick() -> None:
        done.append("tick")

    with scheduler:
        until(lambda: done, "a run")
        until(lambda: scheduler.runs(state="succeeded"), "a result")
