"""What an editor can do, and that only a node leads, with the roles of `tenure migrate`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from psycopg.errors import InsufficientPrivilege

from tenure import Scheduler, StoreError, cron, every
from tenure.backends.postgres import PostgresBackend
from tenure.model import Cancelling, Edition, Fault, Fence, Grant, Result, RunState
from tenure.process.identity import new_holder
from tenure.testing.contract.harness import adding, finish, firing, forget_lines
from tests.e2e.command import at_hand
from tests.support.roles import RoleStore


def pack(order: str = "none") -> None: ...


@pytest.fixture
def editor(store: RoleStore) -> Iterator[Scheduler]:
    scheduler = Scheduler(store.of("editor"))
    scheduler.task(pack)
    yield scheduler
    scheduler.stop()


def test_editor_changes_schedules_in_python(store: RoleStore, editor: Scheduler) -> None:
    editor.add("a", cron("0 * * * *"), task=pack)
    editor.update("a", kwargs={"order": "7"})
    editor.pause("a", reason="stocktaking")
    editor.resume("a")
    assert editor.run_now("a", key="1") is not None
    now = datetime.now(UTC)
    assert editor.backfill("a", now - timedelta(hours=3), now)
    assert {run.kind for run in editor.runs()} == {"manual", "backfill"}
    editor.remove("a")
    assert {run.state for run in editor.runs()} == {RunState.CANCELLED}
    run = editor.enqueue(pack, key="once", lock="x", delay=60)
    assert editor.enqueue(pack, key="once") == run


def test_editor_changes_schedules_in_its_own_transactions(
    store: RoleStore, editor: Scheduler
) -> None:
    with store.connect("editor", autocommit=False) as own:
        editor.add("a", every(hours=1), task=pack, connection=own)
        editor.run_now("a", connection=own)
        editor.enqueue(pack, connection=own)
        own.rollback()
        assert editor.schedules() == []
        editor.add("a", every(hours=1), task=pack, connection=own)
        editor.run_now("a", connection=own)
        editor.enqueue(pack, connection=own)
        editor.pause("a", connection=own)
        own.commit()
    assert [run.kind for run in editor.runs()] == ["enqueued", "manual"]


@pytest.mark.parametrize("kind", ["editor", "node"])
async def test_runs_are_cancelled_and_retried(store: RoleStore, kind: str) -> None:
    node, other = PostgresBackend(store.of("node")), PostgresBackend(store.of(kind))
    await node.open(migrate=False)
    await other.open(migrate=False)
    try:
        for name in ("a", "b"):
            await node.schedules.change([adding(name, None, task=name)])
            await node.schedules.run_now(name, "1")
        [claimed] = (await node.runs.claim("node", ["a"], 1)).runs
        [waiting] = await node.runs.find(schedule="b")
        expected = {claimed.id: Cancelling.REQUESTED, waiting.id: Cancelling.CANCELLED}
        assert await other.runs.cancel([claimed.id, waiting.id]) == expected
        assert await other.runs.retry([waiting.id, claimed.id]) == {
            waiting.id: True,
            claimed.id: False,
        }
        # With plain SQL an editor still cannot touch what was claimed.
        if kind == "editor":
            with store.connect("editor") as line:
                line.execute("UPDATE tenure.run SET state = 'cancelled'")
                states = {run.id: run.state for run in await node.runs.find()}
                assert states[claimed.id] is RunState.CLAIMED
                assert line.execute(f"SELECT tenure.cancel_run({claimed.id})").fetchone() == (
                    "requested",
                )
    finally:
        await other.close()
        await node.close()


def test_editor_changes_schedules_by_command(store: RoleStore, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        f"from tenure import Scheduler\nscheduler = Scheduler({store.of('editor')!r})\n"
        "@scheduler.task\ndef pack(): ...\n"
    )
    where = ("--url", store.of("editor"))
    with store.connect("editor") as line:
        line.execute("SELECT tenure.add_schedule('a', 'every 1h', 'pack')")
    for command in (
        ("schedules", "pause", "a"),
        ("schedules", "resume", "a"),
        ("schedules", "run-now", "a"),
        ("enqueue", "pack"),
        ("schedules", "list"),
        ("runs", "list"),
        ("schedules", "remove", "a", "--yes"),
    ):
        answer = at_hand(tmp_path, *command, *where)
        assert answer.code == 0, (command, answer)


def test_editor_changes_schedules_in_sql(store: RoleStore) -> None:
    with store.connect("editor") as line:
        for call in (
            "add_schedule('a', 'every 1h', 'pack')",
            "pause_schedule('a')",
            "resume_schedule('a')",
            "run_now('a', 'key')",
            "rename_schedule('a', 'b')",
            "remove_schedule('b')",
            "enqueue('pack', key => 'key')",
            "enqueue('pack', key => 'key')",
        ):
            line.execute(f"SELECT tenure.{call}".encode())
        runs = line.execute("SELECT kind, state FROM tenure.run ORDER BY id").fetchall()
        assert runs == [("manual", "cancelled"), ("enqueued", "waiting")]


RUN = """
INSERT INTO tenure.run (
    namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs, state, due, attempt,
    crashes, priority, retries, on_crash, term, created_at)
VALUES ('default', 'a', 1, {kind}, 'k', now(), 'pack', '{{}}', {state}, now(), {attempt}, 0, 0, 0,
    'rerun', {term}, now())
"""
OCCURRENCE = """
INSERT INTO tenure.occurrence (
    namespace, schedule_uid, kind, key, nominal, last, state, recorded_at, term)
VALUES ('default', 1, {kind}, 'k', now(), now(), {state}, now(), {term})
"""

EVENT = """
INSERT INTO tenure.event (namespace, id, topic, type, time, data, recorded_at)
VALUES ('default', '{id}', 'news', 'Said', now(), '1', now())
"""


@pytest.mark.parametrize(
    "statement",
    [
        EVENT.format(id="1/planned/1767225600000000"),
        EVENT.format(id="run/7/1/0"),
        RUN.format(kind="'planned'", state="'waiting'", attempt=0, term=0),
        RUN.format(kind="'manual'", state="'claimed'", attempt=0, term=0),
        RUN.format(kind="'enqueued'", state="'claimed'", attempt=0, term=0),
        RUN.format(kind="'enqueued'", state="'waiting'", attempt=1, term=0),
        RUN.format(kind="'manual'", state="'succeeded'", attempt=0, term=0),
        RUN.format(kind="'manual'", state="'waiting'", attempt=1, term=0),
        RUN.format(kind="'manual'", state="'waiting'", attempt=0, term=7),
        OCCURRENCE.format(kind="'planned'", state="'fired'", term=0),
        OCCURRENCE.format(kind="'planned'", state="'missed'", term=7),
        "UPDATE tenure.run SET state = 'succeeded' WHERE state = 'waiting'",
        "UPDATE tenure.occurrence SET term = 7 WHERE state = 'missed'",
    ],
)
def test_editor_fires_nothing_and_ends_nothing(store: RoleStore, statement: str) -> None:
    store.admin.execute(RUN.format(kind="'manual'", state="'waiting'", attempt=0, term=0))
    store.admin.execute(OCCURRENCE.format(kind="'planned'", state="'missed'", term=0))
    with store.connect("editor") as line, pytest.raises(InsufficientPrivilege):
        line.execute(statement.replace("'k'", "'other'").encode())


@pytest.mark.parametrize("state", ["claimed", "succeeded", "failed", "lost"])
def test_runs_that_do_not_wait_are_out_of_an_editors_reach(store: RoleStore, state: str) -> None:
    store.admin.execute(RUN.format(kind="'manual'", state=f"'{state}'", attempt=1, term=1))
    with store.connect("editor") as line:
        for change in ("state = 'cancelled'", "error = 'forged'", "finished_at = now()"):
            done = line.execute(f"UPDATE tenure.run SET {change}".encode())
            assert done.rowcount == 0
        assert line.execute("SELECT state FROM tenure.run").fetchall() == [(state,)]


def test_occurrences_that_were_fired_are_out_of_an_editors_reach(store: RoleStore) -> None:
    store.admin.execute(OCCURRENCE.format(kind="'planned'", state="'fired'", term=3))
    with store.connect("editor") as line:
        assert line.execute("UPDATE tenure.occurrence SET reason = 'forged'").rowcount == 0


ANN = Fence("leader", 1, "ann")


async def _fire(backend: PostgresBackend) -> object:
    [due] = (await backend.schedules.due(10)).schedules
    return await backend.schedules.fire(ANN, [firing(due)])


ACTS: dict[str, Callable[[PostgresBackend], Awaitable[object]]] = {
    "take office": lambda b: b.office.take(Fence("leader", 2, "bob")),
    "fire": _fire,
    "set aside": lambda b: b.schedules.fire(ANN, [], [Fault(1, 1, "hers")]),
    "acquire": lambda b: b.leases.acquire("job", new_holder(), 5.0),
    "renew": lambda b: b.leases.renew([Grant("tenure/leader", "ann", 1, 5.0)]),
    "release": lambda b: b.leases.release(Grant("tenure/leader", "ann", 1, 5.0)),
    "evict": lambda b: b.leases.evict("tenure/leader", "hers"),
    "forget": lambda b: forget_lines(b.leases, 0.0),
    "announce": lambda b: b.editions.announce("app", Edition("digest", {})),
    "claim": lambda b: b.runs.claim("node", ["pack"], 10),
    "finish": lambda b: finish(b, [Result(1, 1, "node", RunState.SUCCEEDED)]),
    "recover": lambda b: b.runs.recover(ANN, "node", 3),
    "prune": lambda b: b.runs.prune(None, 0.0, 10),
}
"""What only nodes do. To set a schedule aside is to edit it, which is an editor's right."""


@pytest.mark.parametrize(
    ("kind", "act"),
    [
        *(("reader", act) for act in ACTS),
        *(("editor", act) for act in ACTS if act != "set aside"),
    ],
)
def test_only_a_node_leads(store: RoleStore, kind: str, act: str) -> None:
    """Also one that knows who is in office, and says that it is."""
    store.admin.execute("SELECT tenure.add_schedule('a', 'every 1h', 'pack')")
    store.admin.execute("UPDATE tenure.schedule SET next_nominal = next_due")
    store.admin.execute("INSERT INTO tenure.fence VALUES ('default', 'leader', 1, 'ann')")
    before = store.admin.execute("SELECT * FROM tenure.fence, tenure.schedule").fetchall()

    async def attempt() -> None:
        backend = PostgresBackend(store.of(kind))
        await backend.open(migrate=False)
        try:
            await ACTS[act](backend)
        finally:
            await backend.close()

    with pytest.raises(StoreError) as told:
        asyncio.run(attempt())
    text = str(told.value)
    assert f"refused the role 'tenure_{kind}'" in text
    assert "It lacks " in text
    assert "`tenure migrate --roles" in text
    assert store.admin.execute("SELECT * FROM tenure.fence, tenure.schedule").fetchall() == before


SQUAT = """
INSERT INTO tenure.schedule OVERRIDING SYSTEM VALUE
SELECT (json_populate_record(s, json_build_object('uid', s.uid + g, 'name', 'squat ' || g))).*
FROM tenure.schedule s, generate_series(1, 5) g WHERE s.name = 'a'
"""


def test_editor_cannot_take_the_numbers_of_schedules_to_come(
    store: RoleStore, editor: Scheduler
) -> None:
    editor.add("a", every(hours=1), task=pack)
    with store.connect("editor") as own, pytest.raises(InsufficientPrivilege):
        own.execute(SQUAT)
    editor.add("b", every(hours=1), task=pack)


def test_schedule_is_added_beside_numbers_that_are_taken(
    store: RoleStore, editor: Scheduler
) -> None:
    """As after a restore of the rows without the sequence."""
    editor.add("a", every(hours=1), task=pack)
    store.admin.execute(SQUAT)
    added = editor.add_many(
        {"name": f"b{n}", "trigger": every(hours=1), "task": pack} for n in "12"
    )
    with store.connect("editor") as own:
        row = own.execute("SELECT tenure.add_schedule('c', 'every 1h', 'pack')").fetchone()
    assert row is not None
    uids = [*(schedule.uid for schedule in added), row[0]]
    taken = store.admin.execute("SELECT uid FROM tenure.schedule WHERE name < 'b' OR name > 'd'")
    assert min(uids) > max(uid for (uid,) in taken)
    locks = dict(store.admin.execute("SELECT uid, lock FROM tenure.schedule").fetchall())
    assert [locks[uid] for uid in uids] == [f"schedule:{uid}" for uid in uids]
