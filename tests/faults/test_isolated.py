"""Tasks in processes of their own: whatever they do, they end, and only they."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tenure import Scheduler
from tenure.model import RunState
from tests.faults.hostile_client import client as client  # noqa: PLC0414 - a fixture
from tests.faults.hostile_client import error_of
from tests.faults.support import PATIENCE, Cluster, until

pytestmark = pytest.mark.faults


def told(folder: Path, name: str) -> list[int]:
    """The numbers that a task left in a file."""
    path = folder / name
    until(path.exists, f"the task to write {name}")
    return [int(word) for word in path.read_text().split()]


def is_gone(pid: int) -> bool:
    """Nobody executes anything under this number; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


@pytest.mark.parametrize("cluster", ["postgres"], indirect=True)
def test_it_gets_its_arguments_and_its_run_and_what_it_returns_is_kept(
    cluster: Cluster, client: Scheduler
) -> None:
    node = cluster.start("hostile", "node", around=True)
    run = client.enqueue("own_process", kwargs={"number": 7})
    coroutine = client.enqueue("own_coroutine", kwargs={"number": 7})
    client.task(name="of_the_main_module")(_undeclared)
    main = client.enqueue("of_the_main_module")

    assert client.result(run, timeout=PATIENCE) == {
        "number": 7,
        "parent": node.pid,
        "run": run.id,
        "attempt": 1,
        "nominal": run.nominal.isoformat(),
        "task": "own_process",
        "cancelled": False,
    }
    assert client.result(coroutine, timeout=PATIENCE) == 8
    assert client.result(main, timeout=PATIENCE) == ["__mp_main__", "of_the_main_module"]
    cluster.stop_all()


def _undeclared() -> None:
    """Only its name is needed here."""


def test_its_timeout_kills_it_and_what_it_started(
    cluster: Cluster, client: Scheduler, tmp_path: Path
) -> None:
    cluster.start("hostile", "node")
    run = client.enqueue("own_forever", kwargs={"folder": str(tmp_path)})
    pids = told(tmp_path, "forever")

    assert "ran longer than its timeout of 6 s; its process was killed" in error_of(client, run)

    until(lambda: all(map(is_gone, pids)), "both processes to be gone")
    cluster.stop_all()


def test_whatever_it_does_its_node_lives_on_and_the_history_tells(
    cluster: Cluster, client: Scheduler, tmp_path: Path
) -> None:
    node = cluster.start("hostile", "node", settings={"concurrency": 3})
    folder = {"folder": str(tmp_path)}
    exits = client.enqueue("own_exit")
    raised = {
        name: client.enqueue("own_raises", kwargs={"name": name})
        for name in ("exit", "interrupt", "close", "cancel")
    }
    greedy = client.enqueue("own_memory")
    loud = client.enqueue("own_prints")
    odd = client.enqueue("own_not_json")
    closing = client.enqueue("own_closes", kwargs={"first": 0, "last": 3})
    mute = client.enqueue("own_closes", kwargs={"first": 0, "last": 200})
    thread = client.enqueue("own_thread")
    parent = client.enqueue("own_grandchild", kwargs=folder)
    gives_up = client.enqueue("own_gives_up")
    again = client.enqueue("own_retry")
    fences = client.enqueue("own_fence")
    reports = client.enqueue("own_reports")

    error = error_of(client, exits)
    assert "about to end" in error
    assert error.endswith("its process ended with exit code 3 before the task was done")
    assert "SystemExit: 3" in error_of(client, raised["exit"])
    assert "KeyboardInterrupt: 3" in error_of(client, raised["interrupt"])
    assert "GeneratorExit: 3" in error_of(client, raised["close"])
    assert "nobody cancelled this run" in error_of(client, raised["cancel"])
    assert "MemoryError" in error_of(client, greedy)
    assert client.result(loud, timeout=PATIENCE) == "printed"
    until(lambda: client.get_run(odd).state is RunState.SUCCEEDED, "its success")
    assert "not kept" in (client.get_run(odd).error or "")
    assert client.result(closing, timeout=PATIENCE) == "closed"
    assert "before the task was done" in error_of(client, mute)
    assert client.result(thread, timeout=PATIENCE) == "left a thread"
    assert client.result(parent, timeout=PATIENCE) == "left a child"
    (left,) = told(tmp_path, "grandchild")
    until(lambda: is_gone(left), "its child to be gone")
    error = error_of(client, gives_up)
    assert "OutOfPaper: no paper" in error
    assert "Not tried again" in error
    assert client.get_run(gives_up).attempt == 3
    assert client.result(again, timeout=PATIENCE) == 2
    assert "do not work in an isolated task" in error_of(client, fences)
    assert client.result(reports, timeout=PATIENCE) == "reported"
    (attempt,) = client.attempts(reports)
    assert {"written", "an error", "told"} <= set(attempt.log.splitlines())
    assert (attempt.progress, attempt.message) == (0.5, "half")
    (attempt,) = client.attempts(loud)
    assert len(attempt.log) < 70_000
    assert attempt.log_dropped > 9_000_000

    assert client.result(client.enqueue("fine", kwargs={"number": 1}), timeout=PATIENCE) == 2
    assert node.running
    assert not cluster.journal.facts("service.failed")
    cluster.stop_all()


@pytest.mark.parametrize("cluster", ["postgres"], indirect=True)
def test_it_is_told_of_its_cancellation_and_killed_if_it_does_not_listen(
    cluster: Cluster, client: Scheduler, tmp_path: Path
) -> None:
    cluster.start("hostile", "node")
    listens = client.enqueue("own_listener", kwargs={"folder": str(tmp_path)})
    long = client.enqueue("own_long", kwargs={"folder": str(tmp_path)})
    pids = told(tmp_path, "listener") + told(tmp_path, "long-1")

    for run in (listens, long):
        client.cancel(run)

    for run in (listens, long):
        until(lambda run=run: client.get_run(run).state is RunState.CANCELLED, "its end")  # type: ignore[misc]
    assert all(map(is_gone, pids))
    assert not cluster.journal.facts("run.hung")
    cluster.stop_all()


@pytest.mark.parametrize(
    ("cluster", "number"),
    [("postgres", signal.SIGKILL), ("sqlite", signal.SIGTERM)],
    indirect=["cluster"],
)
def test_it_ends_with_its_node_and_is_executed_elsewhere(
    cluster: Cluster, client: Scheduler, tmp_path: Path, number: signal.Signals
) -> None:
    first = cluster.start("hostile", "first", settings={"grace": 0.2})
    run = client.enqueue("own_long", kwargs={"folder": str(tmp_path)})
    (pid,) = told(tmp_path, "long-1")
    cluster.start("hostile", "second")

    first.signal(number)

    first.wait()
    until(lambda: is_gone(pid), "its process to be gone")
    assert client.result(run, timeout=PATIENCE) == 2
    crashes = client.get_run(run).crashes
    assert crashes == (1 if number is signal.SIGKILL else 0)
    cluster.stop_all()
