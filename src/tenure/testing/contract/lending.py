"""Clauses of `Lends`: transactions of the store's own, for transactional tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import replace

import pytest

from tenure.backends.base import Joins, Lender, Lends
from tenure.backends.shared.lending import to_its_end
from tenure.errors import ConfigError, TransactionLost
from tenure.model import AttemptOutcome, Overlap, Report, Result, RunRecord, RunState
from tenure.testing.contract.harness import Harness, adding

HOLD = 5.0


class LendingContract:
    """The effect of a task is a schedule here, that it adds on its connection."""

    async def test_effects_and_result_commit_together(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        with lending(harness) as lender, lender.lend(None) as lent:
            effect(harness, lent.connection)
            assert lent.commit(succeeded(run, value="7"))
        after = await harness.run(run.id)
        assert (after.state, after.result) == (RunState.SUCCEEDED, "7")
        assert list(await harness.schedules.find(["effect"])) == ["effect"]
        assert await harness.finish([succeeded(run)]) == [True]

    async def test_transaction_holds_up_nobody_until_it_is_used(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        elsewhere = copy_context()  # what a task changes beside its own transaction is refused
        with lending(harness) as lender:
            with lender.lend(None) as lent:
                used = [lent.used]
                change = harness.schedules.change([adding("another", None)])
                await asyncio.create_task(change, context=elsewhere)
                effect(harness, lent.connection)
                used.append(lent.used)
                assert used == [False, True]
                assert lent.commit(succeeded(run))
            with lender.lend(None) as lent:
                assert not lent.used
        found = await harness.schedules.find(["another", "effect"])
        assert sorted(found) == ["another", "effect"]

    async def test_transaction_that_was_not_used_is_committed(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        with lending(harness) as lender, lender.lend(None) as lent:
            assert lent.commit(succeeded(run, value="7"))
        assert (await harness.run(run.id)).result == "7"

    async def test_what_is_not_committed_never_was(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        with lending(harness) as lender:
            with lender.lend(None) as lent:
                effect(harness, lent.connection)
            with suppress(ZeroDivisionError), lender.lend(None) as lent:
                effect(harness, lent.connection)
                raise ZeroDivisionError
        assert (await harness.run(run.id)).state is RunState.CLAIMED
        assert await harness.schedules.find(["effect"]) == {}

    async def test_failure_amid_a_result_holds_up_nobody(self, harness: Harness) -> None:
        """Also while somebody has the cursor, as a traceback does."""
        with lending(harness) as lender:
            with suppress(ZeroDivisionError), lender.lend(None) as lent:
                effect(harness, lent.connection)
                half_read = lent.connection.execute("SELECT 1 UNION ALL SELECT 2")
                assert half_read.fetchone()
                raise ZeroDivisionError
            await harness.schedules.change([adding("another", None)])
        assert list(await harness.schedules.find(["another", "effect"])) == ["another"]

    async def test_attempt_that_lost_its_claim_changes_nothing(self, harness: Harness) -> None:
        fence = await harness.in_office()
        run = await harness.claimed_run("a", "dead")
        await harness.runs.recover(fence, "dead", 3)
        with lending(harness) as lender, lender.lend(None) as lent:
            effect(harness, lent.connection)
            assert not lent.commit(succeeded(run, "dead"))
        assert (await harness.run(run.id)).state is RunState.WAITING
        assert await harness.schedules.find(["effect"]) == {}

    async def test_claim_that_has_ended_is_not_committed_again(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        with lending(harness) as lender:
            with lender.lend(None) as lent:
                assert lent.commit(succeeded(run))
            with lender.lend(None) as lent:
                effect(harness, lent.connection)
                assert not lent.commit(succeeded(run))
        assert (await harness.run(run.id)).state is RunState.SUCCEEDED
        assert await harness.schedules.find(["effect"]) == {}

    async def test_each_of_many_in_a_row_counts_once(self, harness: Harness) -> None:
        """Whatever a store keeps from one transaction for the next."""
        fence = await harness.in_office()
        runs = [await harness.claimed_run(f"a{number}", f"node-{number}") for number in range(6)]
        ends = []
        with lending(harness) as lender:
            for number, run in enumerate(runs):
                if number == 2:
                    await harness.runs.recover(fence, f"node-{number}", 3)
                with suppress(ZeroDivisionError), lender.lend(None) as lent:
                    effect(harness, lent.connection, f"effect-{number}")
                    if number == 4:
                        raise ZeroDivisionError
                    result = succeeded(run, f"node-{number}", value=str(number))
                    ends.append((number, lent.commit(result)))
        assert ends == [(0, True), (1, True), (2, False), (3, True), (5, True)]
        after = [await harness.run(run.id) for run in runs]
        assert [run.result for run in after] == ["0", "1", None, "3", None, "5"]
        effects = [f"effect-{number}" for number in range(6)]
        assert list(await harness.schedules.find(effects)) == [
            f"effect-{number}" for number in (0, 1, 3, 5)
        ]

    async def test_commit_frees_the_lock_key(self, harness: Harness) -> None:
        first = await harness.claimed_run("a", lock="key", overlap=Overlap.QUEUE)
        waiting = [(await harness.waiting_run("a", key)).id for key in "234"]
        with lending(harness) as lender:
            for expected in waiting:
                assert (await harness.runs.claim("node", ["a"], 1)).runs == []
                with lender.lend(None) as lent:
                    assert lent.commit(succeeded(first))
                [first] = (await harness.runs.claim("node", ["a"], 1)).runs
                assert first.id == expected

    async def test_what_the_attempt_told_is_recorded(self, harness: Harness) -> None:
        with lending(harness) as lender:
            for name in "abc":
                run = await harness.claimed_run(name)
                told = replace(succeeded(run), report=Report(0.5, name, f"log of {name}"))
                with lender.lend(None) as lent:
                    assert lent.commit(told)
                [attempt] = await harness.runs.attempts(run.id)
                assert (attempt.outcome, attempt.message, attempt.log) == (
                    AttemptOutcome.SUCCEEDED,
                    name,
                    f"log of {name}",
                )

    async def test_transaction_is_not_the_task_s_to_end(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        with lending(harness) as lender, lender.lend(None) as lent:
            effect(harness, lent.connection)
            for end in ("commit", "rollback", "close"):
                with pytest.raises(ConfigError, match="lent to a transactional task"):
                    getattr(lent.connection, end)()
            assert await harness.schedules.find(["effect"]) == {}
            assert lent.commit(succeeded(run))
        assert list(await harness.schedules.find(["effect"])) == ["effect"]

    @pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK"])
    @pytest.mark.parametrize("then", [(), ("BEGIN",)])
    async def test_task_that_ends_it_all_the_same_is_found_out(
        self, harness: Harness, ending: str, then: tuple[str, ...]
    ) -> None:
        run = await harness.claimed_run("a")
        with lending(harness) as lender:
            with lender.lend(None) as lent:
                with suppress(Exception):  # it may be refused at once
                    for text in (ending, *then):
                        lent.connection.execute(text)
                    if then:
                        effect(harness, lent.connection)
                with pytest.raises(TransactionLost, match="ended the transaction"):
                    lent.commit(succeeded(run))
            with lender.lend(None) as lent:
                pass
        assert (await harness.run(run.id)).state is RunState.CLAIMED
        assert await harness.schedules.find(["effect"]) == {}

    async def test_connection_is_of_no_use_afterwards(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        with lending(harness) as lender:
            with lender.lend(None) as lent:
                kept = lent.connection
                assert lent.commit(succeeded(run))
            for _ in range(2):
                with pytest.raises(Exception, match=r"is over|closed"):
                    kept.execute("SELECT 1")
                with lender.lend(None) as other:
                    other.connection.execute("SELECT 1")

    async def test_those_who_find_none_wait(self, harness: Harness) -> None:
        begun, order = asyncio.Event(), []
        loop = asyncio.get_running_loop()

        def second(lender: Lender) -> None:
            loop.call_soon_threadsafe(begun.set)
            with lender.lend(None):
                order.append("second")

        with lending(harness) as lender:
            with lender.lend(None):
                waiting = asyncio.ensure_future(asyncio.to_thread(second, lender))
                await begun.wait()
                order.append("first")
            await waiting
        assert order == ["first", "second"]

    async def test_wait_ends_with_the_limit_of_the_task(self, harness: Harness) -> None:
        def second(lender: Lender) -> None:
            with lender.lend(0.05):
                pass

        with lending(harness) as lender:
            with lender.lend(None), pytest.raises(TimeoutError, match=r"0\.05 s .* not begun"):
                await asyncio.to_thread(second, lender)
            with lender.lend(1.0) as lent:
                lent.connection.execute("SELECT 1")

    async def test_coroutine_has_the_same(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        with lending(harness) as lender:
            refusal = lender.refusal(coroutine=True)
            if refusal is not None:
                pytest.skip(refusal)
            async with lender.lend_async(None) as lent:
                await effect_later(harness, lent.connection)
            assert await harness.schedules.find(["effect"]) == {}
            async with lender.lend_async(None) as lent:
                await effect_later(harness, lent.connection)
                with pytest.raises(ConfigError, match="lent to a transactional task"):
                    await lent.connection.commit()
                assert await lent.commit(succeeded(run))
            with lender.lend(None) as blocking:  # one line serves both
                blocking.connection.execute("SELECT 1")
        assert (await harness.run(run.id)).state is RunState.SUCCEEDED
        assert list(await harness.schedules.find(["effect"])) == ["effect"]


@contextmanager
def lending(harness: Harness) -> Iterator[Lender]:
    """One connection at a time."""
    backend = harness.backend
    if not isinstance(backend, Lends):
        pytest.skip("this store lends no connections")
    lender = backend.lender(1, HOLD)
    yield lender
    lender.close()


def effect(harness: Harness, connection: object, name: str = "effect") -> None:
    to_its_end(effect_later(harness, connection, name))


async def effect_later(harness: Harness, connection: object, name: str = "effect") -> None:
    backend = harness.backend
    assert isinstance(backend, Joins)
    await backend.join(connection).schedules.change([adding(name, None)])


def succeeded(run: RunRecord, node: str = "node", value: str | None = None) -> Result:
    return Result(run.id, run.claim, node, RunState.SUCCEEDED, value=value)
