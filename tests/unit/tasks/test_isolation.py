"""A task in a real process: what it writes and tells reaches the run in the node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tenure.tasks.isolation import Isolation, _outcome, _replied
from tenure.tasks.results import Kept
from tenure.tasks.run import Run
from tests.faults.programs import hostile_tasks
from tests.unit.tasks.test_executor import a_run

HOME = f"{hostile_tasks.__name__}:isolated"


class Told(Run):
    """A run that keeps what it is told."""

    heard: list[Any]

    def log(self, text: object) -> None:
        self.heard.append(text)

    def progress(self, fraction: float | None, message: object = "") -> None:
        self.heard.append((fraction, message))


def a_told_run(task: str, **kwargs: Any) -> Told:
    plain = a_run(task)
    run = Told(
        id=plain.id,
        schedule=plain.schedule,
        task=task,
        nominal=plain.nominal,
        attempt=1,
        term=1,
        node="n",
        kwargs=kwargs,
    )
    run.heard = []
    return run


@pytest.fixture
def isolation() -> Iterator[Isolation]:
    homes = {task.name: HOME for task in hostile_tasks.isolated}
    made = Isolation(homes, 8_192, 0)
    yield made
    made.close()


async def executed(isolation: Isolation, run: Run) -> tuple[BaseException | None, Kept | None]:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[BaseException | None, Kept | None]] = loop.create_future()

    def take(error: BaseException | None, kept: Kept | None) -> None:
        loop.call_soon_threadsafe(ended.set_result, (error, kept))

    isolation.begin(hostile_tasks.isolated[run.task], run, None, take)
    return await asyncio.wait_for(ended, 60)


async def test_what_it_writes_logs_and_tells_is_heard(isolation: Isolation) -> None:
    run = a_told_run("own_reports")
    assert await executed(isolation, run) == (None, Kept('"reported"'))
    text = "\n".join(each for each in run.heard if isinstance(each, str))
    assert sorted(text.splitlines()) == ["WARNING app: logged", "an error", "told", "written"]
    assert (0.5, "half") in run.heard


async def test_words_of_any_length_are_heard(isolation: Isolation) -> None:
    run = a_told_run("own_long_words")
    error, _ = await executed(isolation, run)
    *log, (progress, message) = run.heard
    assert "".join(log) == "a" + 10_000_000 * "x" + "z"
    assert max(map(len, log)) < 200_000
    assert (progress, message) == (1 / 3, 500 * "m")
    assert str(error).endswith("eend")
    assert len(str(error)) < 10_000


async def test_progress_that_is_no_number_fails_the_run(isolation: Isolation) -> None:
    error, _ = await executed(isolation, a_told_run("own_no_number"))
    assert "run.progress takes a number" in str(error)


async def test_a_home_that_does_not_declare_it_is_told(isolation: Isolation) -> None:
    isolation._homes = {"own_reports": f"{hostile_tasks.__name__}:tasks"}
    error, _ = await executed(isolation, a_told_run("own_reports"))
    assert "Declare it when its module is imported" in str(error)


async def test_functions_around_it_that_are_missing_in_its_process_are_told(
    isolation: Isolation,
) -> None:
    isolation._wrappers = 1
    error, _ = await executed(isolation, a_told_run("own_reports"))
    assert "Call around() when the module is imported" in str(error)


@pytest.mark.parametrize("reply", [b"", b"[]", b"nonsense", b'{"kind": "returned"}', b"\xff"])
def test_reply_that_the_task_forged_fails_its_run_alone(reply: bytes) -> None:
    error, kept = _replied(reply)
    assert "replied what cannot be read" in str(error)
    assert kept is None


def test_ends_without_a_reply_say_how() -> None:
    from tenure.process.child_process import Ending

    for ending, said in (
        (Ending(code=-9), r"was killed by SIGKILL (the kernel does that when memory runs out)"),
        (Ending(code=-11, tail="boom\n"), "its last output was\nboom\nits process was killed by"),
        (Ending(code=None), "its process ended before the task was done"),
        (Ending(error="OSError: no"), "could not be started or watched: OSError: no"),
        (Ending(killed="reply"), "wrote to a socket that is Tenure's"),
        (Ending(killed="timeout"), "ran longer than its timeout of 3 s; its process was killed"),
    ):
        error, _ = _outcome(ending, 3.0)
        assert said in str(error)
    assert isinstance(_outcome(Ending(killed="told"), 3.0)[0], asyncio.CancelledError)
