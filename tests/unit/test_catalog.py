"""Adding and changing schedules, on the memory backend."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import Conflict, InvalidSchedule, Scheduler, Settings, at, every
from tenure.backends.memory import MemoryBackend
from tenure.catalog import Catalog
from tenure.declarations import collect
from tenure.errors import ConfigError
from tenure.tasks import Policy, Tasks


def digest(user: int, dry: bool = False) -> None: ...


@pytest.fixture
def tasks() -> Tasks:
    tasks = Tasks()
    tasks.declare(digest)
    return tasks


@pytest.fixture
def catalog(tasks: Tasks) -> Catalog:
    return Catalog(MemoryBackend().schedules, tasks, Settings())


async def add(catalog: Catalog, tasks: Tasks, **policy: Any) -> None:
    parsed = Policy.parse("schedule", policy)
    await catalog.add("mine", every(hours=1), tasks["digest"], {"user": 1}, None, parsed)


async def test_update_refuses_arguments_that_the_task_does_not_take(
    catalog: Catalog, tasks: Tasks
) -> None:
    await add(catalog, tasks)
    with pytest.raises(InvalidSchedule, match="missing a required argument: 'user'"):
        await catalog.update("mine", kwargs={"dry": True})
    assert (await catalog.get("mine")).version == 1


async def test_update_fills_the_lock_in_from_the_new_arguments(
    catalog: Catalog, tasks: Tasks
) -> None:
    await add(catalog, tasks, lock="digest:{user}")
    assert (await catalog.get("mine")).spec.lock == "digest:1"
    assert (await catalog.update("mine", kwargs={"user": 2})).spec.lock == "digest:2"
    assert (
        await catalog.update("mine", lock="d:{user}:{dry}", kwargs={"user": 3, "dry": True})
    ).spec.lock == "d:3:True"
    with pytest.raises(InvalidSchedule, match="cannot be filled in"):
        await catalog.update("mine", lock="digest:{customer}")


async def test_update_leaves_what_is_not_given(catalog: Catalog, tasks: Tasks) -> None:
    await add(catalog, tasks, retries=3, lock="digest:{user}")
    before = await catalog.get("mine")
    after = await catalog.update("mine", timeout=5)
    assert after.spec.timeout == 5
    assert (after.spec.retries, after.spec.lock) == (3, "digest:1")
    assert (after.next_due, after.uid) == (before.next_due, before.uid)


async def test_update_of_nothing_changes_nothing(catalog: Catalog, tasks: Tasks) -> None:
    await add(catalog, tasks)
    assert await catalog.update("mine") == await catalog.get("mine")
    assert (await catalog.get("mine")).version == 1
    with pytest.raises(Conflict, match="'mine' has version 1 now, not 7"):
        await catalog.update("mine", expected_version=7)
    assert (await catalog.update("mine", tenant=None)).version == 2


def test_wrong_declaration_is_refused_before_a_store_is_opened() -> None:
    tasks = Tasks()
    tasks.declare(digest, trigger=every(hours=1), kwargs={"user": object()})
    with pytest.raises(InvalidSchedule, match=r"kwargs\['user'\] is of type object"):
        collect(tasks, Settings(), "default")


def test_ttl_beside_settings_is_refused() -> None:
    with pytest.raises(ConfigError, match="ttl and settings= were both given"):
        Scheduler("memory://", ttl=2, settings=Settings())


async def test_what_would_never_occur_is_refused(catalog: Catalog, tasks: Tasks) -> None:
    with pytest.raises(InvalidSchedule, match=r"would never occur: its last time lies before 20"):
        await catalog.add("past", at("2020-01-01"), tasks["digest"], {"user": 1}, None, Policy())
    await add(catalog, tasks)
    with pytest.raises(InvalidSchedule, match="would never occur"):
        await catalog.update("mine", trigger=every(days=1, end="2020-01-01", start="2019-01-01"))
    assert [schedule.name for schedule in await catalog._store.all()] == ["mine"]
    assert (await catalog.get("mine")).version == 1
