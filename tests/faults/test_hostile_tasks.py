"""Tasks that behave badly in their node's process: the node lives on, and the history tells."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tenure import Scheduler
from tenure.model import RunState
from tests.e2e.command import at_hand
from tests.faults.hostile_client import client as client  # noqa: PLC0414 - a fixture
from tests.faults.hostile_client import error_of
from tests.faults.postgres import PostgresCluster
from tests.faults.programs.hostile_tasks import tasks
from tests.faults.support import PATIENCE, Cluster, until

pytestmark = pytest.mark.faults
BOTH = pytest.mark.parametrize("cluster", ["sqlite", "postgres"], indirect=True)


@BOTH
def test_the_node_lives_on_and_the_history_tells(cluster: Cluster, client: Scheduler) -> None:
    node = cluster.start("hostile", "node")
    names = {
        "exit": "SystemExit: 3",
        "interrupt": "KeyboardInterrupt: 3",
        "close": "GeneratorExit: 3",
        "cancel": "nobody cancelled this run",
    }
    for task in ("raises", "raises_in_a_coroutine"):
        for name, said in names.items():
            assert said in error_of(client, client.enqueue(task, kwargs={"name": name}))
    for name in ("exit", "interrupt"):
        run = client.enqueue("ends_the_loop", kwargs={"name": name})
        assert names[name] in error_of(client, run)
    assert "Mute" in error_of(client, client.enqueue("raises_what_cannot_be_shown"))
    client.result(client.enqueue("leaks_threads"), timeout=PATIENCE)
    assert client.result(client.enqueue("prints"), timeout=PATIENCE) == "printed"
    odd = client.enqueue("returns_what_is_not_json")
    until(lambda: client.get_run(odd).state is RunState.SUCCEEDED, "its success")
    assert "not kept" in (client.get_run(odd).error or "")
    client.result(client.enqueue("closes_standard_files"), timeout=PATIENCE)

    for task in ("fine", "fine_coroutine", "own_coroutine"):
        run = client.enqueue(task, kwargs={"number": 1})
        assert client.result(run, timeout=PATIENCE) == 2
        cluster.journal.fact("run.succeeded", "node", run=run.id)  # though a listener exits
    assert node.running
    assert isinstance(cluster, PostgresCluster) or cluster.store.sound()
    assert not cluster.journal.facts("service.failed")
    cluster.stop_all()


@BOTH
def test_a_task_that_ends_its_process_is_executed_again_by_another(
    cluster: Cluster, client: Scheduler
) -> None:
    first = cluster.start("hostile", "first")
    run = client.enqueue("ends_its_process_once")
    assert first.wait() == 3

    cluster.start("hostile", "second")

    assert client.result(run, timeout=PATIENCE) == 2
    assert client.get_run(run).crashes == 1
    cluster.stop_all()


@pytest.mark.parametrize(
    ("cluster", "task"),
    [("sqlite", "sticks"), ("postgres", "ignores_its_cancellation")],
    indirect=["cluster"],
)
def test_hung_runs_are_shown_from_any_process_and_take_no_node_down(
    cluster: Cluster, client: Scheduler, tmp_path: Path, task: str
) -> None:
    node = cluster.start("hostile", "node", settings={"concurrency": 2, "grace": 0.3})
    hung = [client.enqueue(task, kwargs={"folder": str(tmp_path)}) for _ in range(2)]

    for run in hung:
        fact = cluster.journal.fact("run.hung", "node", run=run.id)
        assert f"in {task}" in fact["stack"]
    cluster.journal.fact("node.unready", "node", hung=2)
    status = until(lambda: _nodes(cluster, tmp_path, ready=False), "the status to say so")
    assert [(each["pid"], each["hung"]) for each in status] == [(node.pid, 2)]
    text = at_hand(tmp_path, "status", "--url", cluster.url).out
    assert f"run {hung[0].id} ({task}): told to end, and goes on in pid {node.pid}" in text
    assert "UNREADY" in text
    shown = at_hand(tmp_path, "runs", "show", hung[0].id, "--url", cluster.url)
    assert re.search(r"^State\W+hung$", shown.out, re.MULTILINE), shown.out
    assert f"in {task}" in shown.out
    listed = at_hand(tmp_path, "runs", "list", "--url", cluster.url, "--json").json
    assert {each["id"]: each["hung"]["pid"] for each in listed} == {
        run.id: node.pid for run in hung
    }
    # Others go on meanwhile: it leads, and another executes.
    other = cluster.start("hostile", "other")
    run = client.enqueue("fine", kwargs={"number": 1})
    assert client.result(run, timeout=PATIENCE) == 2
    assert client.get_run(run).node != client.get_run(hung[0]).node

    node.signal(signal.SIGTERM)
    assert node.wait() == 0  # though they go on
    for run in hung:  # treated like those of a dead node
        until(lambda run=run: client.get_run(run).crashes == 1, "its recovery")  # type: ignore[misc]
    (tmp_path / "let-go").touch()
    other.signal(signal.SIGTERM)
    assert other.wait() == 0


@BOTH
def test_a_hung_run_keeps_its_lock_key(cluster: Cluster, client: Scheduler, tmp_path: Path) -> None:
    for who in ("first", "second"):
        cluster.start("hostile", who)
        cluster.journal.fact("node.started", who)
    hung = client.enqueue("sticks", kwargs={"folder": str(tmp_path)}, lock="mailbox")
    cluster.journal.fact("run.hung", run=hung.id)

    same, other = (client.enqueue("fine", kwargs={"number": 1}, lock=k) for k in ("mailbox", "x"))

    assert client.result(other, timeout=PATIENCE) == 2  # which was asked for later
    assert client.get_run(same).state is RunState.WAITING
    assert client.get_run(hung).state is RunState.CLAIMED
    (tmp_path / "let-go").touch()
    assert client.result(same, timeout=PATIENCE) == 2
    begun, ended = client.get_run(same).claimed_at, client.get_run(hung).finished_at
    assert begun is not None
    assert ended is not None
    assert begun >= ended
    cluster.stop_all()


def test_a_run_that_ends_after_all_is_hung_no_more(
    cluster: Cluster, client: Scheduler, tmp_path: Path
) -> None:
    cluster.start("hostile", "node", settings={"concurrency": 1})
    run = client.enqueue("sticks", kwargs={"folder": str(tmp_path)})
    cluster.journal.fact("node.unready", "node", hung=1)

    (tmp_path / "let-go").touch()

    assert "ran longer than its timeout of 0.3 s" in error_of(client, run)
    cluster.journal.fact("node.ready", "node", hung=0)
    (status,) = until(lambda: _nodes(cluster, tmp_path, ready=True), "the status to say so")
    assert status["hung"] == 0
    assert len(cluster.journal.facts("run.hung")) == 1
    assert client.result(client.enqueue("fine", kwargs={"number": 1}), timeout=PATIENCE) == 2
    cluster.stop_all()


def _nodes(cluster: Cluster, folder: Path, *, ready: bool) -> list[dict[str, object]]:
    """The nodes, once all of them are ready, or none is."""
    nodes = at_hand(folder, "status", "--url", cluster.url, "--json").json["nodes"]
    return nodes if all(each["ready"] is ready for each in nodes) else []


def test_a_web_process_with_a_hung_job_stops_its_scheduler(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/tenure.db")
    scheduler.include(tasks)
    scheduler.start()
    try:
        scheduler.enqueue("sticks", kwargs={"folder": str(tmp_path)})
        run = scheduler.enqueue("fine", kwargs={"number": 1})
        assert scheduler.result(run, timeout=PATIENCE) == 2
        scheduler.stop(grace=0.2)  # though it goes on
        assert not scheduler.running
    finally:
        (tmp_path / "let-go").touch()
