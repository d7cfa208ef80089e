"""Adding and changing schedules, on the memory backend."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import Conflict, InvalidSchedule, Scheduler, Settings, at, every
from tenure.backends.memory import MemoryBackend
from tenure.errors import ConfigError
from tenure.schedules.declarations import collect
from tenure.schedules.drafts import Drafts, NewSchedule
from tenure.schedules.editor import Editor
from tenure.tasks.registry import Tasks


def digest(user: int, dry: bool = False) -> None: ...


@pytest.fixture
def tasks() -> Tasks:
    tasks = Tasks()
    tasks.declare(digest)
    return tasks


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
def editor(backend: MemoryBackend, tasks: Tasks) -> Editor:
    return Editor(backend, Drafts(tasks))


async def add(editor: Editor, **policy: Any) -> None:
    await editor.add(NewSchedule("mine", every(hours=1), task=digest, kwargs={"user": 1}, **policy))


async def test_update_refuses_arguments_that_the_task_does_not_take(editor: Editor) -> None:
    await add(editor)
    with pytest.raises(InvalidSchedule, match="missing a required argument: 'user'"):
        await editor.update("mine", kwargs={"dry": True})
    assert (await editor.get("mine")).version == 1


async def test_update_fills_the_lock_in_from_the_new_arguments(editor: Editor) -> None:
    await add(editor, lock="digest:{user}")
    assert (await editor.get("mine")).spec.lock == "digest:1"
    assert (await editor.update("mine", kwargs={"user": 2})).spec.lock == "digest:2"
    assert (
        await editor.update("mine", lock="d:{user}:{dry}", kwargs={"user": 3, "dry": True})
    ).spec.lock == "d:3:True"
    with pytest.raises(InvalidSchedule, match="cannot be filled in"):
        await editor.update("mine", lock="digest:{customer}")


async def test_lock_that_is_filled_in_cannot_be_another_schedules_own(editor: Editor) -> None:
    await add(editor, lock="{user}")
    with pytest.raises(InvalidSchedule, match=r"filled in, lock='schedule:1'"):
        await editor.update("mine", kwargs={"user": "schedule:1"})
    assert (await editor.get("mine")).spec.lock == "1"


async def test_update_leaves_what_is_not_given(editor: Editor) -> None:
    await add(editor, retries=3, lock="digest:{user}")
    before = await editor.get("mine")
    after = await editor.update("mine", timeout=5)
    assert after.spec.timeout == 5
    assert (after.spec.retries, after.spec.lock) == (3, "digest:1")
    assert (after.next_due, after.uid) == (before.next_due, before.uid)


async def test_update_of_nothing_changes_nothing(editor: Editor) -> None:
    await add(editor)
    assert await editor.update("mine") == await editor.get("mine")
    assert (await editor.get("mine")).version == 1
    with pytest.raises(Conflict, match="'mine' has version 1 now, not 7"):
        await editor.update("mine", expected_version=7)
    assert (await editor.update("mine", tenant=None)).version == 2


def test_wrong_declaration_is_refused_before_a_store_is_opened() -> None:
    tasks = Tasks()
    tasks.declare(digest, trigger=every(hours=1), kwargs={"user": object()})
    with pytest.raises(InvalidSchedule, match=r"kwargs\['user'\] is of type object"):
        collect(tasks, Settings(), "default")


def test_ttl_beside_settings_is_refused() -> None:
    with pytest.raises(ConfigError, match="ttl and settings= were both given"):
        Scheduler("memory://", ttl=2, settings=Settings())


async def test_what_would_never_occur_is_refused(editor: Editor, backend: MemoryBackend) -> None:
    with pytest.raises(InvalidSchedule, match=r"would never occur: its last time lies before 20"):
        await editor.add(NewSchedule("past", at("2020-01-01"), task=digest, kwargs={"user": 1}))
    await add(editor)
    with pytest.raises(InvalidSchedule, match="would never occur"):
        await editor.update("mine", trigger=every(days=1, end="2020-01-01", start="2019-01-01"))
    assert [schedule.name for schedule in list((await backend.schedules.find()).values())] == [
        "mine"
    ]
    assert (await editor.get("mine")).version == 1
