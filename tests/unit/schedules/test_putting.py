"""`put` and `rename`, and what a pause keeps; on the memory backend."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tenure import Conflict, Event, InvalidSchedule, NotFound, every
from tenure.backends.memory import MemoryBackend
from tenure.model import RunState
from tenure.schedules.changes import stopped
from tenure.schedules.drafts import Drafts, NewSchedule
from tenure.schedules.editor import Editor
from tenure.schedules.planning import SET_ASIDE
from tenure.tasks.registry import Tasks
from tenure.testing import FakeClock
from tenure.testing.contract.harness import replacing


def digest(user: int = 1) -> None: ...


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def backend(clock: FakeClock) -> MemoryBackend:
    return MemoryBackend(clock)


@pytest.fixture
def editor(backend: MemoryBackend) -> Editor:
    tasks = Tasks()
    tasks.declare(digest)
    return Editor(backend, Drafts(tasks))


def new(trigger: Any = "every 1h", name: str = "mine", **options: Any) -> NewSchedule:
    return NewSchedule(name, trigger, task=digest, **options)


@pytest.mark.parametrize(
    "trigger", ["every 1h", "every day", "0 7 * * *", "rrule FREQ=DAILY", "every 1h jitter=30"]
)
async def test_put_again_changes_nothing(editor: Editor, clock: FakeClock, trigger: str) -> None:
    first, is_new = await editor.put(new(trigger, retries=3))
    assert is_new
    clock.advance(60.5)  # an interval must not begin to count again: the process may restart often
    assert await editor.put(new(trigger, retries=3)) == (first, False)


async def test_put_makes_it_what_it_says(editor: Editor, clock: FakeClock) -> None:
    first, _ = await editor.put(new(kwargs={"user": 7}, tenant="acme", retries=3, lock="x"))
    clock.advance(60)
    changed, is_new = await editor.put(new(timeout=5))
    assert not is_new
    assert (changed.uid, changed.version) == (first.uid, 2)
    spec = changed.spec
    assert (spec.kwargs, spec.tenant, spec.retries, spec.timeout) == ("{}", None, 0, 5)
    assert spec.lock == f"schedule:{first.uid}"
    assert changed.next_nominal == first.next_nominal  # the same trigger: the same plan
    replanned, _ = await editor.put(new("every 2h", timeout=5))
    assert replanned.next_nominal == await editor.now() + timedelta(hours=2)


async def test_put_leaves_a_paused_schedule_paused(editor: Editor) -> None:
    await editor.put(new())
    paused = await editor.pause("mine", "stocktaking")
    assert await editor.put(new()) == (paused, False)
    changed, _ = await editor.put(new("every 2h", retries=1))
    assert (changed.active, changed.reason) == (False, "paused: stocktaking")


async def test_put_of_one_that_has_ended_changes_nothing(editor: Editor, clock: FakeClock) -> None:
    at = (await editor.now() + timedelta(hours=1)).isoformat()
    added, _ = await editor.put(new(f"at {at}"))
    await editor._schedules.change([replacing(added, next_nominal=None, next_due=None)])
    clock.advance(7200)
    ended = await editor.get("mine")
    assert await editor.put(new(f"at {at}")) == (ended, False)
    with pytest.raises(InvalidSchedule, match="would never occur"):
        await editor.put(new(f"at {at}", name="other"))


async def test_put_mends_one_that_was_set_aside(editor: Editor) -> None:
    added, _ = await editor.put(new())
    await editor._schedules.change([stopped(added, f"{SET_ASIDE}: its trigger cannot be read")])
    mended, is_new = await editor.put(new())
    assert (mended.active, mended.reason, is_new) == (True, None, False)


async def test_of_many_that_put_one_name_one_adds_it(editor: Editor) -> None:
    answers = await asyncio.gather(*(editor.put(new()) for _ in range(8)))
    assert sum(is_new for _, is_new in answers) == 1
    assert {schedule.version for schedule, _ in answers} == {1}


async def test_put_refuses_what_add_refuses(editor: Editor) -> None:
    with pytest.raises(InvalidSchedule, match="a schedule's name is 1 to 200"):
        await editor.put(new(name=""))
    await editor.put(new())
    with pytest.raises(InvalidSchedule, match="cannot be called with"):
        await editor.put(new(kwargs={"customer": 1}))
    assert (await editor.get("mine")).version == 1


async def test_name_that_is_taken_names_the_remedy(editor: Editor) -> None:
    await editor.add(new())
    with pytest.raises(Conflict, match=r"exists already.* update\(\) changes that one, put\(\)"):
        await editor.add(new())


async def test_renamed_schedule_keeps_its_plan_and_its_runs(editor: Editor) -> None:
    before = await editor.add(new(retries=3, lock="d:{user}", kwargs={"user": 2}, tenant="acme"))
    run = await editor.run_now("mine")
    after = await editor.rename("mine", "yours")
    assert (after.name, after.uid, after.version) == ("yours", before.uid, 2)
    assert (after.next_nominal, after.spec.lock) == (before.next_nominal, "d:2")
    assert (after.spec.retries, after.spec.tenant) == (3, "acme")
    [found] = await editor._runs.find(schedule="yours")
    assert run is not None
    assert (found.id, found.state) == (run.id, RunState.WAITING)
    with pytest.raises(NotFound, match="no schedule named 'mine'"):
        await editor.get("mine")
    assert (await editor.put(new()))[1]  # the name is free


async def test_rename_is_refused_with_the_reason(editor: Editor, backend: MemoryBackend) -> None:
    mine = await editor.add(new())
    await editor.add(new(name="other"))
    with pytest.raises(Conflict, match="'other' exists already, so 'mine' keeps its name"):
        await editor.rename("mine", "other")
    with pytest.raises(NotFound, match="no schedule named 'nobody'"):
        await editor.rename("nobody", "other")
    with pytest.raises(InvalidSchedule, match="a schedule's name is 1 to 200"):
        await editor.rename("mine", "a\nb")
    with pytest.raises(Conflict, match="has version 1 now, not 7"):
        await editor.rename("mine", "yours", expected_version=7)
    assert await editor.rename("mine", "mine") == mine
    [declared] = await backend.schedules.change(
        [replacing(mine, spec=type(mine.spec)(**_fields(mine.spec, app="shop")))]
    )
    with pytest.raises(InvalidSchedule, match=r"declared in the code of app 'shop'.* there"):
        await editor.rename("mine", "yours")
    assert await editor.get("mine") == declared


def _fields(spec: Any, **changes: Any) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in spec.__dataclass_fields__} | changes


async def test_paused_schedule_is_renamed_as_it_is(editor: Editor) -> None:
    await editor.add(new())
    await editor.pause("mine", "stocktaking")
    renamed = await editor.rename("mine", "yours")
    assert (renamed.active, renamed.reason) == (False, "paused: stocktaking")


async def test_second_pause_keeps_its_reason(editor: Editor) -> None:
    await editor.add(new())
    first = await editor.pause("mine", "stocktaking")
    assert await editor.pause("mine") == first  # it has none, so the first one stays
    assert await editor.pause("mine", "stocktaking") == first
    second = await editor.pause("mine", "the mail server is down")
    assert (second.reason, second.version) == ("paused: the mail server is down", 3)
    set_aside = stopped(second, f"{SET_ASIDE}: its trigger cannot be read")
    [broken] = await editor._schedules.change([set_aside])
    assert await editor.pause("mine", "anything") == broken  # that reason is not ours to replace


@pytest.mark.parametrize("change", [{"retries": 2}, {"trigger": every(hours=2)}, {"tenant": "a"}])
async def test_editing_a_paused_schedule_keeps_it_paused(
    editor: Editor, change: dict[str, Any]
) -> None:
    await editor.add(new())
    await editor.pause("mine", "stocktaking")
    edited = await editor.update("mine", **change)
    assert (edited.active, edited.reason) == (False, "paused: stocktaking")


async def test_event_schedules_are_put_and_renamed_too(editor: Editor) -> None:
    def emitting(data: dict[str, int]) -> NewSchedule:
        return NewSchedule("mine", "every 1h", emit=Event("topic", "type", data))

    first, is_new = await editor.put(emitting({"a": 1}))
    again, is_new_again = await editor.put(emitting({"a": 1}))
    assert (is_new, is_new_again, again.version) == (True, False, first.version)
    changed, _ = await editor.put(emitting({"a": 2}))
    assert changed.version == first.version + 1
    with pytest.raises(InvalidSchedule, match="emits an event"):
        await editor.put(new())
    renamed = await editor.rename("mine", "other")
    assert (renamed.uid, renamed.spec.event) == (first.uid, changed.spec.event)


async def test_schedule_of_a_task_does_not_become_one_of_an_event(editor: Editor) -> None:
    await editor.put(new())
    with pytest.raises(InvalidSchedule, match="runs the task"):
        await editor.put(NewSchedule("mine", "every 1h", emit=Event("topic", "type", {})))
