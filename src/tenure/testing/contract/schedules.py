"""Clauses of `ScheduleStore`: adding, editing, removing, finding; what is due."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tenure.errors import Conflict
from tenure.model import (
    Missed,
    OccurrenceState,
    OnCrash,
    Overlap,
    RunState,
    ScheduleSpec,
)
from tenure.testing.contract.harness import (
    TASK,
    Harness,
    adding,
    firing,
    renaming,
    replacing,
    together,
)


class ScheduleContract:
    """Change, remove, find, due, backlog."""

    # -- change: add ----------------------------------------------------------------------------

    async def test_schedule_is_stored_as_it_was_given(self, harness: Harness) -> None:
        now = await harness.now()
        nominal, due = now + timedelta(seconds=1, microseconds=1), now + timedelta(seconds=2)
        spec = ScheduleSpec(
            "full",
            trigger='{"type":"contract","n":"ü"}',
            task="task",
            kwargs='{"a":[1,"ü"]}',
            tenant="acme",
            app="shop",
            overlap=Overlap.QUEUE,
            lock="key",
            priority=-3,
            timeout=1.5,
            retries=2,
            on_crash=OnCrash.ABANDON,
            definition="abc",
        )
        change = adding("full", nominal)
        change = type(change)(spec, nominal, due)
        [added] = await harness.schedules.change([change])
        other = await harness.another()
        stored = (await other.schedules.find(["full"]))["full"]
        assert stored == added
        assert stored.spec == spec
        assert (stored.next_nominal, stored.next_due) == (nominal, due)
        assert (stored.active, stored.reason) == (True, None)
        assert now <= stored.created_at <= await harness.now()

    async def test_name_that_is_taken_is_a_conflict(self, harness: Harness) -> None:
        first = await harness.add("a")
        with pytest.raises(Conflict):
            await harness.add("a", task="another")
        assert await harness.the("a") == first

    async def test_of_many_simultaneous_adds_of_one_name_one_lands(self, harness: Harness) -> None:
        backends = await harness.backends(4)
        answers = await together(
            *(backends[i % 4].schedules.change([adding("a", None)]) for i in range(8))
        )
        assert sum(isinstance(answer, Conflict) for answer in answers) == 7
        assert len(await harness.schedules.find()) == 1

    async def test_uid_is_never_used_again(self, harness: Harness) -> None:
        """Occurrences are unique per uid: a namesake must not inherit them."""
        first = await harness.add("a")
        await harness.schedules.remove("a")
        second = await harness.add("a")
        assert second.uid != first.uid

    # -- change: replace ------------------------------------------------------------------------

    async def test_replacing_keeps_the_uid_and_bumps_the_version(self, harness: Harness) -> None:
        old = await harness.add("a", due_in=harness.ttl)
        await harness.advance(harness.ttl * 0.1)
        [new] = await harness.schedules.change([replacing(old, active=False, reason="paused")])
        assert (new.uid, new.created_at) == (old.uid, old.created_at)
        assert new.version > old.version
        assert new.updated_at > old.updated_at
        assert (new.active, new.reason) == (False, "paused")
        assert await harness.the("a") == new

    async def test_schedule_that_changed_since_it_was_read_is_a_conflict(
        self, harness: Harness
    ) -> None:
        old = await harness.add("a")
        [new] = await harness.schedules.change([replacing(old, reason="first")])
        with pytest.raises(Conflict):
            await harness.schedules.change([replacing(old, reason="second")])
        assert await harness.the("a") == new

    async def test_schedule_that_fired_since_it_was_read_is_a_conflict(
        self, harness: Harness
    ) -> None:
        """Firing does not bump the version: the next nominal time is compared too."""
        fence, old = await harness.in_office(), await harness.add("a")
        later = await harness.now() + timedelta(seconds=60)
        await harness.schedules.fire(fence, [firing(old, next_nominal=later)])
        with pytest.raises(Conflict):
            await harness.schedules.change([replacing(old, reason="edited")])
        assert (await harness.the("a")).next_nominal == later

    async def test_schedule_that_was_removed_or_replaced_by_a_namesake_is_a_conflict(
        self, harness: Harness
    ) -> None:
        old = await harness.add("a")
        await harness.schedules.remove("a")
        with pytest.raises(Conflict):
            await harness.schedules.change([replacing(old, reason="edited")])
        assert await harness.schedules.find(["a"]) == {}
        assert old.next_nominal is not None
        [namesake] = await harness.schedules.change([adding("a", old.next_nominal)])
        with pytest.raises(Conflict):
            await harness.schedules.change([replacing(old, reason="edited")])
        assert await harness.the("a") == namesake

    async def test_missed_stretch_is_recorded_with_the_change(self, harness: Harness) -> None:
        old = await harness.add("a")
        assert old.next_nominal is not None
        last = old.next_nominal + timedelta(hours=5)
        missed = Missed(old.next_nominal, last, "the trigger was edited")
        await harness.schedules.change([replacing(old, missed=missed)])
        [line] = await harness.schedules.occurrences("a")
        assert (line.nominal, line.last) == (missed.first, last)
        assert (line.state, line.reason) == (OccurrenceState.MISSED, missed.reason)
        assert (line.uid, line.run_id) == (old.uid, None)

    async def test_refused_change_records_no_missed_stretch(self, harness: Harness) -> None:
        old = await harness.add("a")
        assert old.next_nominal is not None
        await harness.schedules.change([replacing(old, reason="first")])
        missed = Missed(old.next_nominal, old.next_nominal, "edited")
        with pytest.raises(Conflict):
            await harness.schedules.change([replacing(old, missed=missed)])
        assert await harness.schedules.occurrences("a") == []

    async def test_change_is_all_or_nothing(self, harness: Harness) -> None:
        old = await harness.add("a")
        assert old.next_nominal is not None
        missed = Missed(old.next_nominal, old.next_nominal, "edited")
        with pytest.raises(Conflict):
            await harness.schedules.change(
                [adding("b", None), replacing(old, active=False, missed=missed), adding("a", None)]
            )
        assert list((await harness.schedules.find()).values()) == [old]
        assert await harness.schedules.occurrences("a") == []

    async def test_changes_of_one_call_conflict_with_each_other(self, harness: Harness) -> None:
        with pytest.raises(Conflict):
            await harness.schedules.change([adding("a", None), adding("a", None)])
        assert await harness.schedules.find() == {}
        old = await harness.add("b")
        with pytest.raises(Conflict):
            await harness.schedules.change([replacing(old, reason="1"), replacing(old, reason="2")])
        assert list((await harness.schedules.find()).values()) == [old]

    # -- change: rename ---------------------------------------------------------------------------

    async def test_renaming_keeps_what_is_on_record(self, harness: Harness) -> None:
        fence, old = await harness.in_office(), await harness.add("a")
        await harness.schedules.fire(fence, [firing(old, next_nominal=old.next_nominal)])
        before = await harness.the("a")
        [new] = await harness.schedules.change([renaming(before, "b")])
        assert (new.name, new.uid, new.created_at) == ("b", old.uid, old.created_at)
        assert new.version > before.version
        assert await harness.schedules.find(["a", "b"]) == {"b": new}
        [occurrence] = await harness.schedules.occurrences("b")
        [run] = await harness.runs.find(schedule="b")
        assert (occurrence.schedule, occurrence.run_id) == ("b", run.id)
        assert (run.schedule, run.uid) == ("b", old.uid)
        assert await harness.runs.find() == await harness.runs.find([run.id]) == [run]
        assert await harness.runs.find([run.id], schedule="b") == [run]
        assert await harness.runs.find([run.id], schedule="a") == []
        assert await harness.runs.find(schedule="a") == []
        assert await harness.schedules.occurrences("a") == []
        # Its run can be claimed and found as before.
        [claimed] = (await harness.runs.claim("node", [TASK], 10)).runs
        assert claimed.id == run.id

    async def test_renamed_schedule_fires_no_occurrence_twice(self, harness: Harness) -> None:
        fence, old = await harness.in_office(), await harness.add("a", overlap=Overlap.ALLOW)
        stale = firing(old)
        await harness.schedules.fire(fence, [firing(old, next_nominal=old.next_nominal)])
        [new] = await harness.schedules.change([renaming(await harness.the("a"), "b")])
        assert (await harness.schedules.fire(fence, [stale])).stale == 1
        assert (await harness.schedules.fire(fence, [firing(new)])).fired == 0
        assert len(await harness.runs.find(schedule="b")) == 1

    async def test_firing_that_was_planned_before_a_renaming_is_stale(
        self, harness: Harness
    ) -> None:
        """It is planned again, under the new version; so nothing is lost."""
        fence, old = await harness.in_office(), await harness.add("a")
        [new] = await harness.schedules.change([renaming(old, "b")])
        assert (await harness.schedules.fire(fence, [firing(old)])).stale == 1
        assert (await harness.schedules.fire(fence, [firing(new)])).fired == 1

    async def test_key_of_run_now_stays_with_a_renamed_schedule(self, harness: Harness) -> None:
        old = await harness.add("a", overlap=Overlap.ALLOW)
        first = await harness.schedules.run_now("a", "key")
        await harness.schedules.change([renaming(old, "b")])
        assert await harness.schedules.run_now("b", "key") == (first[0], False)
        namesake = await harness.add("a", overlap=Overlap.ALLOW)
        assert namesake.uid != old.uid
        again, new = await harness.schedules.run_now("a", "key")
        assert (new, again != first[0]) == (True, True)
        assert [run.schedule for run in await harness.runs.find()] == ["a", "b"]

    async def test_renaming_to_a_name_that_is_taken_is_a_conflict(self, harness: Harness) -> None:
        old, other = await harness.add("a"), await harness.add("b")
        with pytest.raises(Conflict):
            await harness.schedules.change([renaming(old, "b")])
        with pytest.raises(Conflict):
            await harness.schedules.change([adding("c", None), renaming(old, "c")])
        assert await harness.schedules.find() == {"a": old, "b": other}
        await harness.schedules.remove("b")
        [new] = await harness.schedules.change([renaming(old, "b")])
        assert await harness.schedules.find() == {"b": new}

    async def test_renaming_of_a_schedule_that_changed_is_a_conflict(
        self, harness: Harness
    ) -> None:
        old = await harness.add("a")
        [changed] = await harness.schedules.change([replacing(old, reason="first")])
        with pytest.raises(Conflict):
            await harness.schedules.change([renaming(old, "b")])
        assert await harness.schedules.find() == {"a": changed}

    async def test_of_many_simultaneous_renamings_to_one_name_one_lands(
        self, harness: Harness
    ) -> None:
        backends = await harness.backends(4)
        old = [await harness.add(f"a{n}") for n in range(8)]
        answers = await together(
            *(backends[n % 4].schedules.change([renaming(old[n], "b")]) for n in range(8))
        )
        assert sum(isinstance(answer, Conflict) for answer in answers) == 7
        found = await harness.schedules.find()
        assert (len(found), "b" in found) == (8, True)

    async def test_many_changes_land_together_in_the_order_given(self, harness: Harness) -> None:
        names = [f"s{i:03}" for i in range(300)]
        added = await harness.schedules.change([adding(name, None) for name in reversed(names)])
        assert [schedule.name for schedule in added] == names[::-1]
        assert len({schedule.uid for schedule in added}) == 300
        assert sorted(await harness.schedules.find(names)) == names

    # -- remove ---------------------------------------------------------------------------------

    async def test_only_the_version_that_was_read_is_removed(self, harness: Harness) -> None:
        old = await harness.add("a")
        [new] = await harness.schedules.change([replacing(old, reason="edited")])
        assert not await harness.schedules.remove("a", old.version)
        assert await harness.the("a") == new
        assert await harness.schedules.remove("a", new.version)
        assert not await harness.schedules.remove("a", new.version)
        assert await harness.schedules.find() == {}

    async def test_removed_schedule_is_gone_and_its_waiting_runs_are_cancelled(
        self, harness: Harness
    ) -> None:
        waiting = await harness.waiting_run("a", overlap=Overlap.ALLOW)
        bystander = await harness.waiting_run("b")
        assert await harness.schedules.remove("a")
        assert await harness.schedules.find(["a"]) == {}
        cancelled = await harness.run(waiting.id)
        assert cancelled.state is RunState.CANCELLED
        assert cancelled.finished_at is not None
        assert cancelled.error
        assert (await harness.runs.claim("node", [TASK], 10)).runs[0].id == bystander.id

    async def test_claimed_run_of_a_removed_schedule_goes_on(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        await harness.schedules.remove("a")
        assert (await harness.run(run.id)).state is RunState.CLAIMED

    async def test_schedule_is_removed_once(self, harness: Harness) -> None:
        await harness.add("a")
        assert await harness.schedules.remove("a")
        assert not await harness.schedules.remove("a")
        assert not await harness.schedules.remove("never")

    async def test_what_happened_to_a_removed_schedule_stays_on_record(
        self, harness: Harness
    ) -> None:
        fence, schedule = await harness.in_office(), await harness.add("a")
        await harness.schedules.fire(fence, [firing(schedule)])
        await harness.schedules.remove("a")
        assert [o.state for o in await harness.schedules.occurrences("a")] == ["fired"]
        assert len(await harness.runs.find(schedule="a")) == 1

    async def test_namesake_of_a_removed_schedule_begins_anew_and_hides_nothing(
        self, harness: Harness
    ) -> None:
        fence, first = await harness.in_office(), await harness.add("a")
        await harness.schedules.fire(fence, [firing(first)])
        await harness.schedules.remove("a")
        assert first.next_nominal is not None
        [second] = await harness.schedules.change([adding("a", first.next_nominal)])
        assert (await harness.schedules.fire(fence, [firing(second)])).fired == 1
        assert {run.uid for run in await harness.runs.find(schedule="a")} == {first.uid, second.uid}
        lines = await harness.schedules.occurrences("a")
        assert {line.uid for line in lines} == {first.uid, second.uid}

    # -- find, all ------------------------------------------------------------------------------

    async def test_find_gives_those_that_exist(self, harness: Harness) -> None:
        a, b = await harness.add("a"), await harness.add("b")
        await harness.add("c")
        assert await harness.schedules.find(["b", "x", "a"]) == {"a": a, "b": b}
        assert await harness.schedules.find([]) == {}

    async def test_all_are_listed_by_name_of_a_tenant_and_limited(self, harness: Harness) -> None:
        for name, tenant in (("c", "acme"), ("a", None), ("b", "acme"), ("d", "other")):
            await harness.add(name, tenant=tenant)
        assert list(await harness.schedules.find()) == ["a", "b", "c", "d"]
        assert list(await harness.schedules.find(tenant="acme")) == ["b", "c"]
        assert list(await harness.schedules.find(limit=2)) == ["a", "b"]
        assert list(await harness.schedules.find(limit=2, after="a")) == ["b", "c"]
        assert list(await harness.schedules.find(tenant="acme", after="b")) == ["c"]
        assert list(await harness.schedules.find(after="aa")) == ["b", "c", "d"]
        assert list(await harness.schedules.find(after="d")) == []
        assert list(await harness.schedules.find(tenant="nobody")) == []
        assert list(await harness.schedules.find(["d", "b", "x"])) == ["b", "d"]
        assert list(await harness.schedules.find(["d", "b"], limit=1)) == ["b", "d"]
        assert list(await harness.schedules.find(["d", "b"], tenant="acme")) == ["b"]
        assert await harness.schedules.find([]) == {}
