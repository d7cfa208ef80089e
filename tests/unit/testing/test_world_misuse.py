"""What is wrong is said at once, with what to do."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest

from tenure import (
    ConfigError,
    Conflict,
    InvalidSchedule,
    NotFound,
    Scheduler,
    TaskFailed,
    UnknownTask,
    every,
)
from tenure.testing import testing
from tenure.testing.world import World

NAIVE = datetime(2026, 1, 2)  # noqa: DTZ001 - it is to be wrong


@pytest.fixture
def scheduler() -> Scheduler:
    made = Scheduler("sqlite:///never.db")
    made.task(every(hours=1), name="tick")(lambda: None)
    return made


def test_unknown_names(scheduler: Scheduler) -> None:
    with testing(scheduler) as world:
        with pytest.raises(NotFound, match=r"no schedule and no task is named 'tock'.*: tick\."):
            world.ran("tock")
        with pytest.raises(UnknownTask, match="is not a task of this scheduler"):
            world.ran(test_unknown_names)
        with pytest.raises(NotFound, match=r"no node is named 'b': there are a\."):
            world.node("b")
        with pytest.raises(UnknownTask, match="'tock'"):
            world.kill_during("tock")


def test_time_does_not_go_back(scheduler: Scheduler) -> None:
    with testing(scheduler) as world:
        with pytest.raises(ConfigError, match="time does not go back"):
            world.advance(hours=-1)
        with pytest.raises(ConfigError, match="time does not go back"):
            world.advance_to(world.now - timedelta(seconds=1))
        with pytest.raises(ConfigError, match="with a time zone"):
            world.advance_to(NAIVE)
        with pytest.raises(ConfigError, match=r"such as advance\(hours=6\)"):
            world.advance(months=1)
        with pytest.raises(ConfigError, match="out of range"):
            world.advance(days=100_000_000)
        with pytest.raises(ConfigError, match="of how much"):
            world.advance()
        world.advance(timedelta(hours=1))
        assert world.ran("tick") == 1


def test_nested_worlds(scheduler: Scheduler) -> None:
    with testing(scheduler) as world:
        with pytest.raises(ConfigError, match="in a world already"), testing(scheduler):
            pass
        world.advance(hours=1)
        assert world.ran("tick") == 1


def test_two_schedulers_have_worlds_of_their_own(scheduler: Scheduler) -> None:
    other = Scheduler("sqlite:///never.db")
    other.task(every(minutes=1), name="tock")(lambda: None)
    with testing(scheduler) as one, testing(other) as two:
        one.advance(hours=1)
        two.advance(minutes=1)
        assert (one.ran("tick"), two.ran("tock")) == (1, 1)


def test_a_scheduler_that_runs() -> None:
    scheduler = Scheduler("memory://")
    with scheduler, pytest.raises(ConfigError, match=r"running: call stop\(\)"), testing(scheduler):
        pass


def test_arguments(scheduler: Scheduler) -> None:
    anything: Any = "scheduler"
    with pytest.raises(ConfigError, match="takes your Scheduler"):
        testing(anything)
    with pytest.raises(ConfigError, match="nodes=0 must be between 1 and 26"):
        testing(scheduler, nodes=0)
    with pytest.raises(ConfigError, match=r"start: .* with a time zone"):
        testing(scheduler, start=NAIVE)


def test_a_world_that_is_not_open(scheduler: Scheduler) -> None:
    world = testing(scheduler)
    with pytest.raises(ConfigError, match="is not open"):
        world.advance(hours=1)
    with world:
        pass
    assert repr(world) == "<World, closed>"
    with pytest.raises(ConfigError, match="is not open"):
        world.ran("tick")


def test_starting_is_nothing_to_do_and_running_would_never_end(scheduler: Scheduler) -> None:
    with testing(scheduler) as world:
        with scheduler:
            world.advance(hours=1)
        world.advance(hours=1)
        assert world.ran("tick") == 2
        with pytest.raises(ConfigError, match="would wait for ever"):
            scheduler.run()
    assert "run" not in vars(scheduler)


def test_a_wrong_declaration_is_refused_and_leaves_no_world(scheduler: Scheduler) -> None:
    scheduler.task(every(hours=1), name="bad", kwargs={"what": object()})(lambda what: None)
    with pytest.raises(InvalidSchedule, match="JSON cannot carry"), testing(scheduler):
        pass
    assert not scheduler.running


def test_a_task_cannot_move_the_time(scheduler: Scheduler) -> None:
    worlds: list[World] = []
    scheduler.task(every(hours=1), name="mover")(lambda: worlds[0].advance(hours=1))
    with testing(scheduler) as world:
        worlds.append(world)
        world.advance(hours=1)
        (failure,) = world.failures
        assert "a task cannot move it" in str(failure.error)


def test_a_node_in_another_state(scheduler: Scheduler) -> None:
    with testing(scheduler) as world:
        node = world.node("a")
        with pytest.raises(ConfigError, match="'a' is running, not frozen or dead"):
            node.revive()
        node.freeze()
        with pytest.raises(ConfigError, match="'a' is frozen, not running"):
            node.freeze()
        node.kill()
        with pytest.raises(ConfigError, match="'a' is dead, not running or frozen"):
            node.kill()


def test_the_outside_world_of_asyncio(scheduler: Scheduler) -> None:
    @scheduler.task(every(hours=1))
    async def fetch() -> None:
        await asyncio.open_connection("127.0.0.1", 1)

    with testing(scheduler) as world:
        world.advance(hours=1)
        (failure,) = world.failures
        assert isinstance(failure.error, ConfigError)
        assert "virtual time does not wait" in str(failure.error)


def test_a_thread_that_a_coroutine_waits_for(scheduler: Scheduler) -> None:
    answered = threading.Event()

    @scheduler.task(every(hours=1))
    async def ask() -> None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[None] = loop.create_future()

        def work() -> None:
            loop.call_soon_threadsafe(answer.set_result, None)
            answered.set()

        threading.Thread(target=work, name="a driver").start()
        answered.wait(30)
        await answer

    with testing(scheduler) as world, pytest.raises(ConfigError, match="thread 'a driver'"):
        world.advance(hours=1)


def test_a_task_that_starts_itself_for_ever(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.testing.world.runtime.AT_ONE_INSTANT", 100)

    @scheduler.task(every(hours=1), overlap="allow")
    def again() -> None:
        scheduler.run_now("again")

    with testing(scheduler) as world, pytest.raises(ConfigError, match="'again' was executed 100"):
        world.advance(hours=1)


def test_a_coroutine_that_never_waits(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.testing.world.loop._AT_ONE_INSTANT", 20_000)

    @scheduler.task(every(hours=1))
    async def spin() -> None:
        for _ in count():
            await asyncio.sleep(0)

    with testing(scheduler) as world, pytest.raises(ConfigError, match="time stands still"):
        world.advance(hours=1)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, pytest.fail.Exception])
def test_what_is_for_the_test_is_raised_in_the_test(
    scheduler: Scheduler, kind: type[BaseException]
) -> None:
    @scheduler.task(every(hours=2))
    def interrupted() -> None:
        raise kind

    with testing(scheduler) as world, pytest.raises(kind):
        world.advance(hours=2)


@pytest.mark.parametrize("hours", [float("nan"), float("inf"), "6"])
def test_advance_by_no_time_at_all(scheduler: Scheduler, hours: Any) -> None:
    with testing(scheduler) as world:
        with pytest.raises(ConfigError, match=r"advance\(hours=.*\).*such as advance\(hours=6\)"):
            world.advance(hours=hours)
        with pytest.raises(ConfigError, match=r"such as advance\(hours=6\)"):
            world.advance(hours)
        assert world.ran("tick") == 0


def test_advance_by_an_unknown_unit(scheduler: Scheduler) -> None:
    with testing(scheduler) as world, pytest.raises(ConfigError) as caught:
        world.advance(hour=1)
    assert str(caught.value).startswith("advance(hour=1): there is no unit 'hour'. ")
    assert "__new__" not in str(caught.value)


def test_errors_in_a_world_suggest_nothing_about_the_real_store(scheduler: Scheduler) -> None:
    @scheduler.task
    def fails() -> None:
        raise RuntimeError("no")

    with testing(scheduler) as world:
        run = scheduler.enqueue(fails)
        world.run_due()
        schedule = scheduler.get("tick")
        scheduler.pause("tick")
        errors: list[tuple[type[Exception], str, Any]] = [
            (TaskFailed, "`world.runs()` shows it", lambda: scheduler.result(run)),
            (NotFound, "`world.runs()` shows", lambda: scheduler.result(99)),
            (NotFound, "`scheduler.schedules()` shows", lambda: scheduler.get("tock")),
            (
                Conflict,
                "`scheduler.get('tick')`",
                lambda: scheduler.remove("tick", expected_version=schedule.version),
            ),
        ]
        for error, says, call in errors:
            with pytest.raises(error) as caught:
                call()
            assert says in str(caught.value)
            assert "sqlite" not in str(caught.value)
            assert "tenure " not in str(caught.value)
