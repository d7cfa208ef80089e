"""Stateful property tests: any sequence of calls, each answer judged by a model.

Hypothesis drives the rules, which are plain functions: each runs its calls on a loop of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, TypeVar, cast

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tenure.backends.base import Backend
from tenure.errors import Fenced
from tenure.model import Fence, Grant, Overlap, Result, RunState
from tenure.testing.contract.harness import (
    SCOPE,
    TASK,
    Harness,
    LeaseHarness,
    adding,
    finish,
    forget_lines,
)
from tenure.testing.contract.model import FenceModel, LeaseModel, RunModel, RunsModel

T = TypeVar("T")
OpenHarness = Callable[[], AbstractAsyncContextManager[Harness]]
OpenLeaseHarness = Callable[[], AbstractAsyncContextManager[LeaseHarness]]

_NAMES = st.sampled_from(["one", "two"])
_HOLDERS = st.sampled_from(["ann", "bob", "cat"])
_NODES = st.sampled_from(["node 1", "node 2", "node 3"])
_TERMS = st.integers(1, 6)
EXAMPLES = 100
_SETTINGS = settings(
    deadline=None,
    stateful_step_count=40,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # "explain" takes minutes
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)


class _Machine(RuleBasedStateMachine):
    """Opens a harness and closes it. No sum of the waits below meets an expiry or a due time, so
    that a store whose time really passes may be a little late."""

    open_harness: OpenLeaseHarness

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.context = type(self).open_harness()
        self.harness = self.do(self.context.__aenter__())
        self.stores = self.do(self.harness.backends(2))
        self.time = 0.0

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        # Not runner.run(), which sets up signal handlers at every call.
        return self.runner.get_loop().run_until_complete(call)

    @property
    def whole(self) -> Harness:
        """Of a backend with schedules and runs."""
        return cast(Harness, self.harness)

    def at(self, other: bool) -> Backend:
        return cast(Backend, self.stores[other])

    @rule(part=st.sampled_from([0.3, 0.6, 1.2]))
    def pass_time(self, part: float) -> None:
        self.do(self.harness.advance(part * self.harness.ttl))
        self.time += part * self.harness.ttl

    def teardown(self) -> None:
        self.do(self.context.__aexit__(None, None, None))
        self.runner.close()


class _LeasesOnlyMachine(_Machine):
    """Leases: terms only grow, one live holder."""

    def __init__(self) -> None:
        super().__init__()
        self.leases = {"one": LeaseModel(), "two": LeaseModel()}
        self.grants: list[Grant] = []
        self.dropped: set[tuple[str, int]] = set()
        """Name and term of the lines of history that were forgotten."""

    @rule(name=_NAMES, holder=_HOLDERS, floor=st.sampled_from([0, 0, 3, 50]), at=st.booleans())
    def acquire(self, name: str, holder: str, floor: int, at: bool) -> None:
        leases, who = self.stores[at].leases, self.harness.holder(holder)
        answer = self.do(leases.acquire(name, who, self.harness.ttl, floor=floor))
        if isinstance(answer, Grant):
            assert (answer.name, answer.ttl) == (name, self.harness.ttl)
            self.grants.append(answer)
        self.leases[name].acquired(answer, holder, floor, self.time)

    def _anyones(self) -> st.SearchStrategy[Grant]:
        """Often the one that is stored; else any that was made, or one in another's name."""
        made = st.sampled_from(self.grants)
        stored = [model.grant for model in self.leases.values() if model.grant]
        forged = st.builds(lambda grant, holder: replace(grant, holder=holder), made, _HOLDERS)
        return _often(stored, made, forged)

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), at=st.booleans())
    def renew(self, data: st.DataObject, at: bool) -> None:
        asked = data.draw(st.sets(self._anyones(), min_size=1, max_size=4))
        renewed = self.do(self.stores[at].leases.renew(list(asked)))
        assert renewed <= asked
        for grant in asked:
            self.leases[grant.name].renewed(grant, grant in renewed, self.time)

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), at=st.booleans())
    def release(self, data: st.DataObject, at: bool) -> None:
        grant = data.draw(self._anyones())
        self.leases[grant.name].released(grant, self.do(self.stores[at].leases.release(grant)))

    @rule(name=_NAMES, at=st.booleans())
    def evict(self, name: str, at: bool) -> None:
        self.leases[name].evicted(self.do(self.stores[at].leases.evict(name, "why not")))

    @rule(free_sooner=st.booleans(), at=st.booleans())
    def forget(self, free_sooner: bool, at: bool) -> None:
        """Whatever goes, and whenever: the next term of the name is above all before it."""
        older_than, free_after = self.harness.ttl * 3.5, self.harness.ttl * 2
        ages = (older_than, free_after if free_sooner else older_than)
        slack = self.harness.ttl / 2
        if any(model.nearly(*ages, self.time, slack) for model in self.leases.values()):
            return  # where real time passes too, either answer may be right
        gone = [model.forgotten(*ages, self.time) for model in self.leases.values()]
        answer = self.do(self.stores[at].leases.forget("", ages[0], free_after=ages[1]))
        assert (answer.count, answer.after) == (sum(gone), "")

    @rule(at=st.booleans())
    def forget_history(self, at: bool) -> None:
        before = self.do(self.harness.leases.history(limit=1_000))
        age = self.harness.ttl * 2.05
        count = self.do(forget_lines(self.stores[at].leases, age))
        left = {(x.name, x.term) for x in self.do(self.harness.leases.history(limit=1_000))}
        gone = [line for line in before if (line.name, line.term) not in left]
        assert len(gone) == count
        assert all(line.ended_at for line in gone)
        now = self.do(self.harness.backend.now())
        ages = [(now - line.ended_at).total_seconds() for line in gone if line.ended_at]
        assert all(found > age - self.harness.ttl / 2 for found in ages)
        self.dropped |= {(line.name, line.term) for line in gone}

    @invariant()
    def records_agree(self) -> None:
        for name, model in self.leases.items():
            model.seen(self.do(self.harness.leases.read(name)), self.time)

    @invariant()
    def history_agrees(self) -> None:
        """One line for each grant that is remembered, and only the stored one is open."""
        lines = self.do(self.harness.leases.history(limit=1_000))
        assert {(x.name, x.holder, x.term) for x in lines} == {
            (g.name, g.holder, g.term) for g in self.grants if (g.name, g.term) not in self.dropped
        }
        held = {model.grant for model in self.leases.values() if model.grant}
        assert {(x.name, x.term) for x in lines if x.ended_at is None} == {
            (grant.name, grant.term) for grant in held
        }


class _LeaseMachine(_LeasesOnlyMachine):
    """Leases and the fence: of that, writes of one term only."""

    def __init__(self) -> None:
        super().__init__()
        self.fence = FenceModel()

    @rule(term=_TERMS, holder=_HOLDERS, at=st.booleans())
    def take_office(self, term: int, holder: str, at: bool) -> None:
        fence = Fence(SCOPE, term, holder)
        self.fence.took_office(fence, self.do(self.at(at).office.take(fence)))

    @rule(term=_TERMS, holder=_HOLDERS, at=st.booleans())
    def write(self, term: int, holder: str, at: bool) -> None:
        fence, accepted = Fence(SCOPE, term, holder), True
        try:
            self.do(self.at(at).schedules.fire(fence, []))
        except Fenced:
            accepted = False
        self.fence.wrote(fence, accepted)

    @invariant()
    def term_agrees(self) -> None:
        term = self.do(self.whole.schedules.backlog(SCOPE)).term
        assert term == (self.fence.fence.term if self.fence.fence else 0)


_SCHEDULES: dict[str, tuple[Overlap, str | None, int]] = {
    "skip": (Overlap.SKIP, None, 0),
    "queue": (Overlap.QUEUE, None, 0),
    "allow": (Overlap.ALLOW, None, 0),
    "shared": (Overlap.QUEUE, "shared", 0),
    "urgent": (Overlap.QUEUE, "shared", 5),
}


class _RunMachine(_Machine):
    """Claims: one node at a time, one claim per lock, only the claim can finish the run."""

    max_crashes = 2

    def __init__(self) -> None:
        super().__init__()
        self.model = RunsModel()
        self.claims: list[tuple[int, int, str]] = []
        self.keys = 0
        self.fence = self.do(self.whole.in_office())
        changes = [
            adding(name, None, overlap=overlap, lock=lock, priority=priority)
            for name, (overlap, lock, priority) in _SCHEDULES.items()
        ]
        self.do(self.whole.schedules.change(changes))
        # Begin in the middle of things: short histories would hardly get there.
        for name in _SCHEDULES:
            self.run_now(name, at=False)
        self.claim("node 1", 4, at=False)

    @rule(name=st.sampled_from(sorted(_SCHEDULES)), at=st.booleans())
    def run_now(self, name: str, at: bool) -> None:
        overlap, lock, _ = _SCHEDULES[name]
        key = None if overlap is Overlap.ALLOW else lock or name
        self.keys += 1
        run_id, new = self.do(self.at(at).schedules.run_now(name, str(self.keys)))
        assert new
        busy = any(run.open and run.lock == key for run in self.model.runs.values())
        assert (run_id is None) == (overlap is Overlap.SKIP and busy)
        if run_id is not None:
            assert run_id not in self.model.runs
            self.model.runs[run_id] = RunModel(name, key, _SCHEDULES[name][2])

    @rule(node=_NODES, limit=st.sampled_from([4, 2, 1, 0]), at=st.booleans())
    def claim(self, node: str, limit: int, at: bool) -> None:
        batch = self.do(self.at(at).runs.claim(node, [TASK], limit))
        self._check_order({run.id for run in batch.runs})
        self.model.claimed(batch.runs, node, limit, self.time)
        self.claims += [(run.id, run.claim, node) for run in batch.runs]

    def _check_order(self, taken: set[int]) -> None:
        """Nothing that was left, and could have been taken instead, goes before what was taken."""
        claimable = self.model.claimable(self.time)
        records = {id_: self.do(self.whole.run(id_)) for id_ in claimable}
        locks = {claimable[id_].lock for id_ in taken if id_ in claimable}
        for left in set(claimable) - taken:
            lock = claimable[left].lock
            rivals = [
                id_ for id_ in taken & set(claimable) if not lock or claimable[id_].lock == lock
            ]
            if lock and lock not in locks:
                rivals = list(taken & set(claimable))
            rank = -records[left].priority, records[left].due
            for rival in rivals:
                assert (-records[rival].priority, records[rival].due) <= rank

    @precondition(lambda self: self.claims)
    @rule(
        data=st.data(),
        state=st.sampled_from([RunState.WAITING, RunState.SUCCEEDED, RunState.FAILED]),
        delay=st.sampled_from([None, 0.5, 0.0]),
        begun=st.booleans(),
        at=st.booleans(),
    )
    def finish(
        self, data: st.DataObject, state: RunState, delay: float | None, begun: bool, at: bool
    ) -> None:
        """Any claim that ever was may report, however late, and any node in its name."""
        made = st.sampled_from(self.claims)
        runs = self.model.runs.items()
        current = [(id_, run.claim, run.node) for id_, run in runs if run.node]
        forged = st.builds(lambda claim, node: (*claim[:2], node), made, _NODES)
        id_, claim, node = data.draw(_often(current, made, forged))
        result = Result(
            id_,
            claim,
            node,
            state,
            delay=None if delay is None else delay * self.harness.ttl,
            begun=begun or state is not RunState.WAITING,
        )
        [yes] = self.do(finish(self.at(at), [result]))
        self.model.finished(result, yes, self.time)

    @rule(node=_NODES, at=st.booleans())
    def bury(self, node: str, at: bool) -> None:
        done = self.do(self.at(at).runs.recover(self.fence, node, self.max_crashes))
        lost = 0
        mine = self.model.of(node)
        for run in mine.values():
            if run.crashes + 1 >= self.max_crashes:
                run.ended_as, run.ended_by = RunState.LOST, (run.claim, node)
                lost += 1
            run.node, run.crashes = None, run.crashes + 1
        assert (done.rerun, done.lost) == (len(mine) - lost, lost)

    @invariant()
    def records_agree(self) -> None:
        records = {run.id: run for run in self.do(self.whole.runs.find(limit=1_000))}
        assert set(records) == set(self.model.runs)
        for id_, run in self.model.runs.items():
            record = records[id_]
            assert (record.claim, record.attempt) == (run.claim, run.attempt)
            assert record.crashes == run.crashes
            assert record.due == (run.stored_due or record.due), "it was moved in its queue"
            run.stored_due = record.due
            assert (record.state is RunState.CLAIMED) == (run.node is not None)
            assert (record.state is RunState.WAITING) == (run.open and run.node is None)
            if run.open:
                assert record.node == run.node
        claimants = {run.node for run in self.model.runs.values() if run.node}
        assert set(self.do(self.whole.runs.claimants())) == claimants

    @invariant()
    def locks_are_exclusive(self) -> None:
        claimed = self.do(self.whole.runs.find(state=RunState.CLAIMED, limit=1_000))
        locks = [run.lock for run in claimed if run.lock]
        assert len(locks) == len(set(locks))


def _often(likely: list[Any], *others: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One of the likely ones as often as not: else the calls that count would be rare."""
    if not likely:
        return st.one_of(*others)
    return st.one_of(*[st.sampled_from(likely)] * len(others), *others)


def lease_machine(
    open_harness: OpenHarness, examples: int = EXAMPLES
) -> type[RuleBasedStateMachine]:
    """The property test of leases and fence for this backend: use its `.TestCase`.

    `examples`: how many stories; fewer for a store where each step is a round trip.
    """
    return _bound(_LeaseMachine, open_harness, examples)


def leases_only_machine(
    open_harness: OpenLeaseHarness, examples: int = EXAMPLES
) -> type[RuleBasedStateMachine]:
    """The same for a backend that has leases only, and no fence."""
    return _bound(_LeasesOnlyMachine, open_harness, examples)


def run_machine(open_harness: OpenHarness, examples: int = EXAMPLES) -> type[RuleBasedStateMachine]:
    """The property test of runs and claims for this backend: use its `.TestCase`."""
    return _bound(_RunMachine, open_harness, examples)


def _bound(
    machine: type[_Machine], open_harness: OpenLeaseHarness, examples: int
) -> type[RuleBasedStateMachine]:
    members = {"open_harness": staticmethod(open_harness)}
    bound: type[_Machine] = type(machine.__name__, (machine,), members)
    bound.TestCase.settings = settings(_SETTINGS, max_examples=examples)
    return bound
