"""One run, and one mishap at every point of its way: fired, claimed, executed, finished, committed.

The history without a mishap tells which points there are. Then each has a history of its own, in
which the node dies there, or only the request or the reply is lost. With SQLite, which has no
network, nodes die inside of transactions, too.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import pytest

from tenure.model import RunRecord, RunState
from tenure.node.node import Node
from tenure.tasks.registry import Tasks
from tenure.tasks.run import Run
from tenure.testing.simulation import History, check
from tenure.testing.simulation.faults import Fault, Plan
from tenure.testing.simulation.history import BODY, EFFECT, END, EPOCH, STORE, TRANSACTIONAL
from tenure.testing.simulation.network import CALM, Link
from tenure.testing.simulation.node import BuildNode
from tenure.testing.simulation.run import SETTINGS, STORES, Simulation
from tenure.triggers import every
from tests.simulation.transactional import BelievesTheCommit

DUE, QUIET_FROM, UNTIL = 2.0, 4.0, 12.0
CALLS = ("fire", "claim")
"""What makes a run, hands it out, and takes its result, with a transactional task's effects."""
BEFORE, AFTER, LOST_REQUEST, LOST_REPLY = "dies before", "dies after", "request lost", "reply lost"
INSIDE, WITHIN = "dies in the task", "dies at a statement"


@dataclass(frozen=True, slots=True)
class Point:
    """Something that goes wrong, once."""

    harm: str
    call: int = 0
    """Of those calls, the how many-th."""
    number: int = 0
    """Of a statement of it, or of a step of the task."""
    what: str = ""


class OneRun(Simulation):
    """Two nodes, a schedule that occurs once, and a mishap, or none."""

    def __init__(
        self,
        store: str,
        task: str,
        on_crash: str,
        point: Point | None = None,
        build_node: BuildNode = Node,
    ) -> None:
        self.points: list[Point] = []
        """Those that this history came to, before its mishap."""
        self.happened = False
        self._point = point
        self._task, self._on_crash = task, on_crash
        self._harms = [BEFORE, AFTER]
        if store == "memory":
            self._harms += [LOST_REQUEST, LOST_REPLY]
        self._calls: dict[int, int] = {}
        self._requests: list[Any] = []
        self._over = False
        self._executing = 0
        plan = Plan(
            nodes=2,
            quiet_from=QUIET_FROM,
            until=UNTIL,
            weather=CALM,
            embedded=float(store == "sqlite"),
            hints=False,
            guard=False,
            retention=None,
            rates=[1.0, 1.0],
            wall_offsets=[0.0, 0.0],
        )
        super().__init__(0, plan, (), self._tasks, SETTINGS, build_node, STORES[store])
        network: Any = self.network
        self._inner = network._send, network._execute, network._executed
        network._send, network._execute, network._executed = self._send, self._execute, self._done
        network.trap = self._at_statement

    def _tasks(self, _: Random) -> Tasks:
        async def plain(run: Run) -> None:
            for number in (1, 2, 3):
                if self._comes_to(Point(INSIDE, 0, number)):
                    self._kill(next(n.link for n in self.chaos.nodes if run.node in n.holders))
                await asyncio.sleep(0.05)

        async def transactional(run: Run, connection: None) -> None:
            await plain(run)

        tasks = Tasks()
        work = transactional if self._task == TRANSACTIONAL else plain
        tasks.declare(
            work,
            name=self._task,
            trigger=every(hours=1, start=EPOCH + timedelta(seconds=DUE)),
            policy={"on_crash": self._on_crash, "retries": 1},
            transactional=work is transactional,
        )
        return tasks

    def _comes_to(self, point: Point) -> bool:
        """Does it go wrong here?"""
        if self.happened or self._over:
            return False
        self.points.append(point)
        self.happened = point == self._point
        return self.happened

    def _kill(self, link: Link) -> None:
        place, node = next((p, n) for p, n in self.chaos._places.items() if n.link is link)
        self.chaos._happen(Fault(self.loop.now, "crash", place, 1.0, "restart"), node)

    def _send(self, request: Any) -> None:
        link, harm = request.link, None
        if request.op in CALLS and self.loop.now > DUE - 0.1:
            self._requests.append(request)  # so that its id stays its own
            number = self._calls[id(request)] = len(self._requests)
            points = [Point(harm, number, 0, request.op) for harm in self._harms]
            harm = next((point.harm for point in points if self._comes_to(point)), None)
        if harm == BEFORE:
            self._kill(link)
            return
        link.cut = "requests" if harm == LOST_REQUEST else None
        self._inner[0](request)
        link.cut = None
        if harm == LOST_REPLY:
            request.fate = "lost_reply"

    def _execute(self, request: Any) -> None:
        self._executing = self._calls.get(id(request), 0)
        self._inner[1](request)

    def _at_statement(self, link: Link, op: str, when: str) -> None:
        if self._executing and when.startswith("at statement"):
            number = int(when.split()[2])
            if self._comes_to(Point(WITHIN, self._executing, number, op)):
                self._kill(link)

    def _done(self, request: Any, result: Any, error: Exception | None) -> None:
        self._inner[2](request, result, error)
        number, point = self._calls.get(id(request)), self._point
        if point is not None and (point.harm, point.call) == (AFTER, number) and not self._over:
            self._kill(request.link)
        self._over = self._over or bool(
            request.op == "claim" and request.args[3:] and request.args[3]
        )


def the_run(history: History) -> RunRecord:
    [state] = [event.detail for _, event in history.of(END) if event.what == "schedules"]
    [run] = state["runs"]
    assert isinstance(run, RunRecord)
    return run


def begun(history: History) -> int:
    return sum(event.what == "began" for _, event in history.of(BODY))


def effects(history: History) -> int:
    """How often they were committed."""
    claims = [event.detail for _, event in history.of(STORE) if event.detail.op == "claim"]
    return sum(
        kept and result.value == EFFECT
        for call in claims
        if call.args[3:]
        for result, kept in zip(call.args[3], call.result.kept, strict=True)
    )


def histories(make: Any) -> list[tuple[Point, History]]:
    """One for each point, after that without a mishap."""
    calm = make()
    history = calm.run()
    assert not list(check(history))
    assert (the_run(history).state, begun(history)) == (RunState.SUCCEEDED, 1)
    found = []
    for point in calm.points:
        harmed = make(point=point)
        found.append((point, harmed.run()))
        assert harmed.happened
    return found


@pytest.mark.slow
@pytest.mark.parametrize("on_crash", ["rerun", "abandon"])
@pytest.mark.parametrize("task", ["plain", TRANSACTIONAL])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_mishap_at_every_point(store: str, task: str, on_crash: str) -> None:
    found = histories(partial(OneRun, store, task, on_crash))
    transactional = task == TRANSACTIONAL
    for point, history in found:
        assert not [str(violation) for violation in check(history)], point
        run, times = the_run(history), begun(history)
        succeeded = run.state is RunState.SUCCEEDED
        assert effects(history) == (succeeded and transactional), point
        if not point.harm.startswith("dies"):  # an attempt whose commit was lost has failed
            assert (succeeded, run.crashes) == (True, 0), point
            assert times == 1 or (transactional and point.harm == LOST_REQUEST), point
        elif on_crash == "rerun":
            assert (succeeded, times <= 2) == (True, True), point
        else:
            assert (times <= 1, succeeded or run.state is RunState.LOST) == (True, True), point
        assert times <= run.attempt <= times + run.crashes, point
    harms = {point.harm for point, _ in found}
    assert {BEFORE, AFTER, INSIDE, WITHIN if store == "sqlite" else LOST_REPLY} <= harms
    reruns = {begun(history) for point, history in found if point.harm == INSIDE}
    assert reruns == ({2} if on_crash == "rerun" else {1})


def test_is_caught() -> None:
    make = partial(OneRun, "memory", TRANSACTIONAL, "rerun", build_node=BelievesTheCommit)
    wrong = {v.invariant for _, history in histories(make) for v in check(history)}
    assert "effects" in wrong
