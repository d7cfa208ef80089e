"""Nodes that do a part of the work: they execute some queues, or do not lead, or only schedule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tenure import AsyncScheduler, Scheduler, Settings, every
from tenure.errors import ConfigError, InvalidSchedule
from tests.e2e.command import Node, at_hand, node, tenure, until

PROGRAM = """
from tenure import Scheduler, every
scheduler = Scheduler()
@scheduler.task(every(seconds=0.2), queue="mail")
def send(): print("sent", flush=True)
@scheduler.task(every(seconds=0.2))
def sweep(): print("swept", flush=True)
"""


class Nodes:
    """Schedulers of the same code on one store. `executed` has the tasks of each."""

    def __init__(self, url: str) -> None:
        self.executed: dict[str, set[str]] = defaultdict(set)
        self._url = url

    def make(self, name: str, **role: object) -> Scheduler:
        scheduler = Scheduler(self._url, ttl=2, **role)  # type: ignore[arg-type]

        def send() -> None:
            self.executed[name].add("send")

        def sweep() -> None:
            self.executed[name].add("sweep")

        scheduler.task(every(seconds=0.1), queue="mail")(send)
        scheduler.task(every(seconds=0.1))(sweep)
        return scheduler


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    return Nodes(f"sqlite:///{tmp_path}/roles.db")


@pytest.fixture(params=["sqlite", "postgres"])
def on_both(request: pytest.FixtureRequest) -> Nodes:
    if request.param == "postgres":
        return Nodes(request.getfixturevalue("postgres").create_database())
    found: Nodes = request.getfixturevalue("nodes")
    return found


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_each_does_its_part(on_both: Nodes, stack: ExitStack) -> None:
    mail = stack.enter_context(on_both.make("mail", queues=["mail"], leads=False))
    rest = stack.enter_context(on_both.make("rest", queues=["default"], leads=False))
    assert not on_both.executed  # nobody leads
    head = stack.enter_context(on_both.make("head", concurrency=0))
    until(lambda: len(on_both.executed) == 2, "both queues")
    until(lambda: head.is_leader, "a leader")
    assert dict(on_both.executed) == {"mail": {"send"}, "rest": {"sweep"}}
    assert not mail.is_leader
    assert not rest.is_leader


def test_one_that_does_not_lead_leaves_the_office_to_others(
    on_both: Nodes, stack: ExitStack
) -> None:
    """Not when the leader stops, either: its wake-up is for those who may lead."""
    head = stack.enter_context(on_both.make("head", concurrency=0))
    until(lambda: head.is_leader, "a leader")
    worker = stack.enter_context(on_both.make("worker", leads=False))
    until(lambda: on_both.executed["worker"], "a run")
    head.stop()
    spare = stack.enter_context(on_both.make("spare", concurrency=0))
    until(lambda: spare.is_leader, "the next leader")
    assert not worker.is_leader


def test_what_a_process_does_can_be_said_late() -> None:
    scheduler = Scheduler("sqlite:///unused.db")
    scheduler.configure(queues=["mail", "mail"], leads=False, concurrency=3)
    assert scheduler.settings == Settings(queues=("mail",), leads=False, concurrency=3)


@pytest.mark.parametrize("queues", ["mail", [""], [7], ["x" * 201], ["a\n"]])
def test_queues_are_a_list_of_names(queues: object) -> None:
    with pytest.raises(ConfigError, match="queue"):
        Scheduler("sqlite:///unused.db", queues=queues)  # type: ignore[arg-type]


def test_queue_of_a_task_is_a_name() -> None:
    with pytest.raises(InvalidSchedule, match="a queue's name is 1 to 200 printable characters"):
        Scheduler("sqlite:///unused.db").task(queue="")(print)


def test_a_queue_that_no_task_has_is_refused(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    answer = tenure(tmp_path, "run", "app:scheduler", "--queue", "mial")
    assert answer.code == 1, answer
    assert "no task has the queue 'mial'. This code has: default, mail." in answer.err
    assert not (tmp_path / "tenure.db").exists()


def test_command_executes_its_queue_only_and_status_shows_it(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    with node(tmp_path, "app:scheduler", "--queue", "mail") as running:
        until(lambda: running.log.read_text().count("sent") > 5, "some runs")
        said = running.log.read_text()
        [told] = at_hand(tmp_path, "status", "--json").json["nodes"]
        asked = at_hand(tmp_path, "enqueue", "sweep")
    assert "does not execute task 'sweep' (not declared there, or in a queue" in asked.err
    assert "swept" not in said
    assert "role    executes queue mail" in said
    assert (told["queues"], told["leads"], told["tasks"]) == (["mail"], True, 1)


def test_status_says_when_no_node_may_lead(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    running = Node(tmp_path, "app:scheduler", "--no-lead")
    try:
        until(lambda: running.said("node.started"), "its start")
        until(lambda: at_hand(tmp_path, "status", "--json").json["nodes"], "its presence")
        answer, doctor = at_hand(tmp_path, "status"), at_hand(tmp_path, "doctor")
        assert running.stop() == 0
    finally:
        running.process.kill()
        running.process.wait()
    assert "NOBODY LEADS" in answer.out
    assert "start one that leads" in answer.out
    assert "every node here only executes (leads=False, --no-lead)" in doctor.out


def test_queue_that_no_task_has_is_refused_at_start(nodes: Nodes, tmp_path: Path) -> None:
    for role in ({"queues": ["mial"]}, {"queues": ["mail", "mial"], "leads": False}):
        scheduler = nodes.make("wrong", **role)
        with pytest.raises(ConfigError, match=r"no task has the queue 'mial'.*: default, mail\."):
            scheduler.start()
        assert not scheduler.running
        scheduler.stop()
    with pytest.raises(ConfigError, match="This code has no tasks"):
        Scheduler("memory://", queues=["mail"]).start()
    assert not (tmp_path / "roles.db").exists()


def test_queue_of_a_task_that_is_declared_before_the_start(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/later.db", queues=["late"])
    scheduler.task(queue="late", name="work")(lambda: None)
    with scheduler:
        assert scheduler.running


def test_node_that_would_do_nothing_is_refused_at_start(nodes: Nodes, tmp_path: Path) -> None:
    scheduler = nodes.make("idle", concurrency=0, leads=False)  # it may add and enqueue
    with pytest.raises(ConfigError, match=r"neither schedules nor executes.*concurrency.*leads"):
        scheduler.start()
    assert not (tmp_path / "roles.db").exists()
    (tmp_path / "app.py").write_text(PROGRAM)
    answer = tenure(tmp_path, "run", "app:scheduler", "--concurrency", "0", "--no-lead")
    assert answer.code == 1, answer
    assert "neither schedules nor executes" in answer.err


async def test_async_scheduler_refuses_the_same(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/async.db"
    with pytest.raises(ConfigError, match="no task has the queue 'mail'"):
        await AsyncScheduler(url, queues=["mail"]).start()
    with pytest.raises(ConfigError, match="neither schedules nor executes"):
        await AsyncScheduler(url, concurrency=0, leads=False).start()
