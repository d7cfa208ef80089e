"""Queues on PostgreSQL under real concurrency: claims, results, new runs and removals of one lock
key at the same moment. In the end nothing is stuck, nothing ran twice, and the order was kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from itertools import count, product
from random import Random

import psycopg
import pytest

from tenure.backends.postgres import PostgresBackend
from tenure.backends.postgres import runs as postgres_runs
from tenure.model import Fence, NewRun, Overlap, Result, RunRecord, RunState, TaskRule
from tenure.testing.contract.harness import TASK, adding, firing

FENCE = Fence("leader", 1, "ann")
KEYS = ("k0", "k1", "k2")
ENOUGH = 300
"""How many runs must end until all that can meet has met."""


@pytest.fixture
async def backend(url: str) -> AsyncIterator[PostgresBackend]:
    backend = PostgresBackend(url, limit=10.0)
    await backend.open()
    assert await backend.office.take(FENCE) == FENCE
    try:
        yield backend
    finally:
        await backend.close()


async def test_queues_of_few_keys_under_load(
    backend: PostgresBackend, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As few as possible, so that what is in the way has to be taken out of it.
    monkeypatch.setattr(postgres_runs, "_SPARE", 2)
    load = _Load(backend, url)
    async with asyncio.TaskGroup() as group:
        for node in range(4):
            group.create_task(load.claim_and_finish(f"node{node}"))
        for place in range(2):
            group.create_task(load.run_now(place))
        group.create_task(load.fire())
        group.create_task(load.add_and_remove())
        group.create_task(load.recover())
        group.create_task(load.change_their_minds())
        async with asyncio.timeout(150):
            await load.enough.wait()
        load.over = True
    await load.drain()
    waiting = await backend.runs.find(state="waiting", limit=10)
    assert waiting == []
    assert await backend.runs.find(state="claimed", limit=10) == []
    assert not load.wrong


async def test_a_locked_run_does_not_hold_up_a_task_with_a_limit(
    backend: PostgresBackend, url: str
) -> None:
    await backend.editions.set_rules("shop", {"slow": TaskRule(max_running=1)})
    first, second = [(await backend.runs.enqueue(NewRun("slow", key)))[0].id for key in "ab"]
    with psycopg.connect(url) as other:
        other.execute("SELECT 1 FROM tenure.run WHERE id = %s FOR UPDATE", (first,))
        batch = await backend.runs.claim("node", ["slow"], 5)
        assert [run.id for run in batch.runs] == [second]
        assert (await backend.runs.claim("node", ["slow"], 5)).runs == []
    ended = Result(second, 1, "node", RunState.SUCCEEDED)
    batch = await backend.runs.claim("node", ["slow"], 5, [ended])
    assert [run.id for run in batch.runs] == [first]


async def test_rules_are_locked_in_the_order_of_their_names(
    backend: PostgresBackend, url: str
) -> None:
    """As claims do: else one would wait for the other."""
    await backend.editions.set_rules("shop", {name: TaskRule(max_running=1) for name in "ab"})
    lock = "SELECT 1 FROM tenure.task WHERE name = %s FOR NO KEY UPDATE"
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with psycopg.connect(url) as claim, psycopg.connect(url, autocommit=True) as watch:
        claim.execute(lock, ("a",))
        rules = {"b": TaskRule(), "a": TaskRule(max_running=2)}
        change = asyncio.create_task(backend.editions.set_rules("shop", rules))
        async with asyncio.timeout(30):
            while watch.execute(waits).fetchone() == (0,):  # noqa: ASYNC110 - the server's
                await asyncio.sleep(0.01)
        claim.execute("SET LOCAL lock_timeout = '200ms'")
        claim.execute(lock, ("b",))
        claim.commit()
        await change
    assert (await backend.editions.declared("shop")).rules == {"a": TaskRule(max_running=2)}


async def _add(backend: PostgresBackend, **schedules: tuple[str, int]) -> None:
    """Of one lock key: by name, the task and the priority."""
    changes = [
        adding(name, None, lock="k", overlap=Overlap.QUEUE, task=task, priority=priority)
        for name, (task, priority) in schedules.items()
    ]
    await backend.schedules.change(changes)


async def _claim(backend: PostgresBackend, task: str, *results: Result) -> list[RunRecord]:
    return (await backend.runs.claim("node", [task], 9, results)).runs


def _ended(run: RunRecord, state: RunState = RunState.SUCCEEDED) -> Result:
    delay = 0.0 if state is RunState.WAITING else None
    return Result(run.id, run.claim, "node", state, delay=delay)


async def test_claims_of_the_same_lock_keys_in_another_order(
    backend: PostgresBackend, url: str
) -> None:
    """Each waits for what the other has claimed. The server ends one of them, which looks again."""
    ids = {}
    for task, key in product("ab", "kl"):
        change = adding(task + key, None, lock=key, task=task, overlap=Overlap.QUEUE)
        await backend.schedules.change([change])
        ids[task + key], _ = await backend.schedules.run_now(task + key, "1")
    claiming = "UPDATE tenure.run SET state = 'claimed', node = 'other' WHERE id = %s"
    async with await psycopg.AsyncConnection.connect(url) as line:
        await line.execute(claiming, [ids["bl"]])
        claim = asyncio.create_task(_claim(backend, "a"))
        await _until_somebody_waits(url)
        # On a busy machine the claim may have waited for so long that the server ends this one.
        with suppress(psycopg.errors.DeadlockDetected):
            await line.execute(claiming, [ids["bk"]])
        await line.rollback()
    assert [run.id for run in await claim] == [ids["ak"], ids["al"]]


async def _until_somebody_waits(url: str) -> None:
    question = (
        "SELECT FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    async with (
        asyncio.timeout(60),
        await psycopg.AsyncConnection.connect(url, autocommit=True) as line,
    ):
        while not (await line.execute(question)).rowcount:
            pass


async def test_ready_run_of_another_task_makes_up_for_nothing(
    backend: PostgresBackend, url: str
) -> None:
    await _add(backend, a=("nobody has it", 0), b=("b", 0))
    await backend.schedules.run_now("a", "1")
    run_id, _ = await backend.schedules.run_now("b", "1")
    async with await psycopg.AsyncConnection.connect(url) as line:
        await line.execute("UPDATE tenure.run SET ready = false WHERE task = 'b'")
    assert await _claim(backend, "b") == []
    assert await backend.runs.claimants() == []
    assert [run.id for run in await _claim(backend, "b")] == [run_id]


async def test_removal_that_is_undone_while_a_run_ends(backend: PostgresBackend, url: str) -> None:
    """It had locked what comes next, and who ended the run passed over that."""
    await _add(backend, a=("nobody has it", 0), b=("b", 0))
    await backend.schedules.run_now("b", "1")
    next_, _ = await backend.schedules.run_now("b", "2")
    [run] = await _claim(backend, "b")
    await backend.schedules.run_now("a", "1")
    async with await psycopg.AsyncConnection.connect(url) as line:
        await line.execute("SELECT tenure.remove_schedule('a')")
        assert await _claim(backend, "b", _ended(run)) == []
        await line.rollback()
    await backend.runs.claimants()
    assert [run.id for run in await _claim(backend, "b")] == [next_]


@pytest.mark.parametrize("by", ["function", "backend"])
async def test_removal_of_what_is_not_ready_while_a_run_ends(
    backend: PostgresBackend, url: str, by: str
) -> None:
    """What is removed has begun, and holds up all of its task with a lower priority."""
    await _add(backend, begun=("a", 5), behind=("a", 0), other=("b", 0))
    await backend.schedules.run_now("begun", "1")
    [run] = await _claim(backend, "a")
    await backend.runs.claim("node", ["a"], 0, [_ended(run, RunState.WAITING)])
    behind, _ = await backend.schedules.run_now("behind", "1")
    await backend.schedules.run_now("other", "1")
    [other] = await _claim(backend, "b")
    async with await psycopg.AsyncConnection.connect(url) as line:
        if by == "function":
            await line.execute("SELECT tenure.remove_schedule('begun')")
        else:
            assert await backend.join(line).schedules.remove("begun")
        assert await _claim(backend, "b", _ended(other)) == []
        await line.commit()
    assert [run.id for run in await _claim(backend, "a")] == [behind]


class _Load:
    """Those who work at the same time."""

    def __init__(self, backend: PostgresBackend, url: str) -> None:
        self.backend, self.url = backend, url
        self.over, self.enough = False, asyncio.Event()
        self.claimed: dict[str, RunRecord] = {}
        self.ended: set[int] = set()
        self.last: dict[str, tuple[float, int]] = {}
        self.wrong: list[str] = []
        self._random = Random(13)
        self._numbers = count()

    def _begin(self, run: RunRecord) -> None:
        assert run.lock is not None
        if run.id in self.ended:
            self.wrong.append(f"{run.id} was run twice")
        if run.lock in self.claimed:
            self.wrong.append(f"{run.id} beside {self.claimed[run.lock].id} of {run.lock}")
        self.claimed[run.lock] = run

    async def claim_and_finish(self, node: str) -> None:
        results: list[Result] = []
        held: list[Result] = []  # their rows were locked for a moment
        while not self.over or results or held:
            limit = 0 if self.over else self._random.choice((1, 2, 5))
            for result in results:
                run = next(r for r in self.claimed.values() if r.id == result.run_id)
                del self.claimed[str(run.lock)]
                if result.state is not RunState.WAITING:
                    self.ended.add(run.id)
            if len(self.ended) > ENOUGH:
                self.enough.set()
            results = [*held, *results]
            batch = await self.backend.runs.claim(node, [TASK], limit, results)
            held = [result for result in results if result.run_id in batch.held]
            if batch.kept.count(False) > len(held):
                self.wrong.append(f"{node}: {results} was not kept")
            for run in batch.runs:
                self._begin(run)
            results = [self._result(run, node) for run in batch.runs]

    def _result(self, run: RunRecord, node: str) -> Result:
        state = self._random.choice([RunState.SUCCEEDED] * 5 + [RunState.WAITING])
        delay = self._random.choice((None, 0.01)) if state is RunState.WAITING else None
        begun = self._random.random() < 0.5
        return Result(run.id, run.claim, node, state, delay=delay, begun=begun)

    async def run_now(self, place: int) -> None:
        name = f"now{place}"
        options = {"overlap": Overlap.QUEUE, "priority": place}
        await self.backend.schedules.change([adding(name, None, lock=KEYS[place], **options)])
        for number in count():
            if self.over:
                return
            await self.backend.schedules.run_now(name, str(number))
            await asyncio.sleep(0.005)

    async def fire(self) -> None:
        now = await self.backend.now()
        changes = [
            adding(f"fired{n}", now, lock=KEYS[n % 3], overlap=Overlap.QUEUE, priority=n % 2)
            for n in range(6)
        ]
        schedules = await self.backend.schedules.change(changes)
        while not self.over:
            due = (await self.backend.schedules.find([s.name for s in schedules])).values()
            then = timedelta(milliseconds=50)
            await self.backend.schedules.fire(
                FENCE,
                [firing(s, next_nominal=s.next_nominal + then) for s in due if s.next_nominal],
            )
            await asyncio.sleep(0.02)

    async def add_and_remove(self) -> None:
        """Schedules whose waiting runs are cancelled, in transactions of their own and of ours."""
        while not self.over:
            name = f"gone{next(self._numbers)}"
            await self.backend.schedules.change(
                [adding(name, None, lock=self._random.choice(KEYS), overlap=Overlap.QUEUE)]
            )
            for key in "ab":
                await self.backend.schedules.run_now(name, key)
            if self._random.random() < 0.5:
                await self.backend.schedules.remove(name)
                continue
            async with await psycopg.AsyncConnection.connect(self.url) as line:
                await line.execute("SELECT tenure.remove_schedule(%s)", [name])
                await asyncio.sleep(0.02)
                await line.commit()

    async def change_their_minds(self) -> None:
        """A transaction that cancels what waits, and is undone."""
        async with await psycopg.AsyncConnection.connect(self.url) as line:
            while not self.over:
                await line.execute("SELECT tenure.remove_schedule('now0')")
                await asyncio.sleep(0.01)
                await line.rollback()
                await asyncio.sleep(0.1)

    async def recover(self) -> None:
        """A node that dies with what it has claimed; and the leader, who mends."""
        while not self.over:
            batch = await self.backend.runs.claim("mortal", [TASK], 2)
            for run in batch.runs:
                self._begin(run)
            for run in batch.runs:
                del self.claimed[str(run.lock)]
            done = await self.backend.runs.recover(FENCE, "mortal", 1_000_000)
            if done.rerun != len(batch.runs):
                self.wrong.append(f"{done} of {batch.runs}")
            await self.backend.runs.claimants()
            await asyncio.sleep(0.05)

    async def drain(self) -> None:
        """What is left is run, one of each key at a time; if anything is stuck, it stays."""
        await self.backend.runs.claimants()  # what somebody undid is mended by the leader
        while runs := (await self.backend.runs.claim("last", [TASK], 9)).runs:
            results = []
            for run in runs:
                self._begin(run)
                self.ended.add(run.id)
                del self.claimed[str(run.lock)]
                results.append(Result(run.id, run.claim, "last", RunState.SUCCEEDED))
            await self.backend.runs.claim("last", [TASK], 0, results)
