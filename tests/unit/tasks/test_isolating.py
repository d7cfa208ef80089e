"""What `isolate=True` refuses when it is declared, and where its process finds the task."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from tenure import InvalidSchedule, Scheduler, Tasks, every
from tenure.errors import ConfigError
from tenure.scheduler.task_locations import homes
from tenure.testing import testing


def job(number: int = 1) -> int:
    return number


class Callables:
    def method(self) -> None: ...

    def __call__(self) -> None: ...


def test_option_is_kept() -> None:
    tasks = Tasks()
    tasks.task(isolate=True, memory_mb=512)(job)
    assert (tasks["job"].options.isolate, tasks["job"].options.memory_mb) == (True, 512)


def nested() -> Callable[[], None]:
    def inner() -> None: ...

    return inner


@pytest.mark.parametrize("function", [nested(), lambda: None, partial(job, 2), Callables()])
def test_what_another_process_cannot_find_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidSchedule, match="isolate=True needs a function at the top of a"):
        Tasks().task(isolate=True, name="job")(function)


def test_what_was_typed_into_an_interpreter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    monkeypatch.setattr(job, "__module__", "__main__")
    with pytest.raises(InvalidSchedule, match=r"typed into an interpreter.*Put it into a file"):
        Tasks().task(isolate=True)(job)


@pytest.mark.parametrize("given", [{"isolate": 1}, {"isolate": "yes"}])
def test_isolate_is_yes_or_no(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule, match=r"isolate=.* must be True or False"):
        Tasks().task(**given)(job)


@pytest.mark.parametrize("size", [0, -1, 127, 1.5, "1 GB", True, 1 << 40])
def test_memory_is_a_number_of_megabytes(size: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"memory_mb=.* must be a whole number"):
        Tasks().task(isolate=True, memory_mb=size)(job)


def test_memory_needs_a_process_of_its_own() -> None:
    with pytest.raises(InvalidSchedule, match="give isolate=True as well"):
        Tasks().task(memory_mb=512)(job)


def a_scheduler(*, around: bool = False) -> Scheduler:
    scheduler = Scheduler("memory://")
    scheduler.task(isolate=True)(job)
    if around:
        scheduler.around(lambda call, run: call())
    return scheduler


def test_home_is_the_module_that_has_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = a_scheduler(around=True)
    monkeypatch.setattr(sys.modules["__main__"], "mine", scheduler, raising=False)
    assert homes(scheduler.tasks) == {"job": "__main__:mine"}
    monkeypatch.setattr(sys.modules[__name__], "found", scheduler, raising=False)
    assert homes(scheduler.tasks) == {"job": f"{__name__}:found"}


def test_home_may_be_the_tasks_that_a_scheduler_includes(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, scheduler = Tasks(), Scheduler("memory://")
    tasks.task(isolate=True)(job)
    scheduler.include(tasks)
    monkeypatch.setattr(sys.modules[__name__], "found", tasks, raising=False)
    assert homes(scheduler.tasks) == {"job": f"{__name__}:found"}
    scheduler.around(lambda call, run: call())
    with pytest.raises(ConfigError, match="functions around its tasks, which are needed there"):
        homes(scheduler.tasks)


def test_scheduler_that_no_module_has_is_refused_at_its_start() -> None:
    scheduler = a_scheduler()
    with pytest.raises(ConfigError, match=r"'job' has isolate=True.*at the top of a module"):
        scheduler.start()
    assert not scheduler.running


def test_scheduler_without_isolated_tasks_is_looked_for_nowhere() -> None:
    scheduler = Scheduler("memory://")
    scheduler.task(job)
    assert homes(scheduler.tasks) == {}


_executed_in: list[int] = []


def notes_its_process() -> None:
    _executed_in.append(os.getpid())


def test_in_a_world_it_is_executed_like_others() -> None:
    scheduler = Scheduler("memory://")
    scheduler.task(every(hours=1), isolate=True)(notes_its_process)
    with testing(scheduler) as world:
        world.advance(hours=2)
        assert world.ran("notes_its_process") == 2
    assert _executed_in == [os.getpid()] * 2
