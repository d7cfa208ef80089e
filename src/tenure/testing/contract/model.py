"""What leases, the fence and claims are, written down a second time and as simply as possible.

The models know nothing of any backend. They are told what was asked and what was answered, and say
whether that answer can be right. Where the specification leaves a choice (by how much a term grows,
which of two equally old runs goes first) so do they.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from tenure.model import Fence, Grant, LeaseRecord, Result, RunRecord, RunState


@dataclass
class LeaseModel:
    """One lease. `time` is any clock that the store's agrees with."""

    highest: int = 0
    """The greatest term ever seen, also of evictions."""
    grant: Grant | None = None
    expires: float = 0.0
    renewed_at: float = 0.0
    on_record: bool = False

    def live(self, time: float) -> bool:
        return self.grant is not None and time < self.expires

    def acquired(self, answer: Grant | LeaseRecord, holder: str, floor: int, time: float) -> None:
        free = not self.live(time) or (self.grant is not None and self.grant.holder == holder)
        if isinstance(answer, Grant):
            assert free, f"granted to {holder} while {self.grant} was live"
            assert answer.holder == holder
            assert answer.term > self.highest, "the term did not grow"
            assert answer.term > floor, "the term is not above the floor"
            self.grant, self.highest = answer, answer.term
            self.expires, self.renewed_at = time + answer.ttl, time
            self.on_record = True
        else:
            assert not free, f"refused to {holder} though it was free"
            assert self.grant is not None
            assert (answer.holder, answer.term) == (self.grant.holder, self.grant.term)

    def renewed(self, asked: Grant, yes: bool, time: float) -> None:
        assert yes == (asked == self.grant), f"renewal of {asked}: {yes}; it is {self.grant}"
        if yes:
            self.expires, self.renewed_at = time + asked.ttl, time

    def nearly(self, older_than: float, free_after: float, time: float, slack: float) -> bool:
        """Is it about as old as that?"""
        age = older_than if self.grant else free_after
        return self.on_record and abs(time - self.renewed_at - age) < slack

    def forgotten(self, older_than: float, free_after: float, time: float) -> bool:
        """Is it gone from here on? Its terms are not."""
        age = older_than if self.grant else free_after
        if not self.on_record or self.live(time) or time - self.renewed_at <= age:
            return False
        self.grant, self.on_record = None, False
        return True

    def released(self, asked: Grant, yes: bool) -> None:
        assert yes == (asked == self.grant), f"release of {asked}: {yes}; it is {self.grant}"
        if yes:
            self.grant = None

    def evicted(self, record: LeaseRecord | None) -> None:
        assert (record is None) == (self.grant is None)
        if record is not None and self.grant is not None:
            assert (record.holder, record.term) == (self.grant.holder, self.grant.term)
            self.grant = None
            self.highest += 1  # at least: the next record tells

    def seen(self, record: LeaseRecord | None, time: float) -> None:
        assert (record is not None) == self.on_record, f"it is on record: {record}"
        if record is None:
            return
        assert record.term >= self.highest, "the term went back"
        self.highest = record.term
        assert record.holder == (self.grant.holder if self.grant else None)
        assert record.live == self.live(time)


@dataclass
class FenceModel:
    """Who is in office."""

    fence: Fence | None = None

    def took_office(self, asked: Fence, answer: Fence) -> None:
        before = self.fence
        if before is None or asked.term > before.term:
            self.fence = asked
        assert answer == self.fence, f"{asked} took office: {answer}; in office was {before}"

    def wrote(self, asked: Fence, accepted: bool) -> None:
        assert accepted == (asked == self.fence), f"{asked}: {accepted}; in office {self.fence}"


@dataclass
class RunModel:
    """One run, as its claims and results say it must be."""

    schedule: str
    lock: str | None
    priority: int = 0
    claim: int = 0
    attempt: int = 0
    crashes: int = 0
    node: str | None = None
    """Who has claimed it."""
    ended_as: RunState | None = None
    ended_by: tuple[int, str] | None = None
    """The claim, and whose it was, whose result ended it."""
    put_back: tuple[int, str] | None = None
    """The same of the result that last made it wait again."""
    due: float = 0.0
    stored_due: datetime | None = None
    """As the store has it, until a result moves it."""

    @property
    def open(self) -> bool:
        return self.ended_as is None

    @property
    def waits(self) -> bool:
        return self.open and self.node is None

    def precedes(self, other: RunModel) -> bool | None:
        """Of one lock key: must it begin before the other? None if their due times say."""
        for mine, others in (
            (-self.priority, -other.priority),
            (not self.attempt, not other.attempt),
        ):
            if mine != others:
                return mine < others
        return None


@dataclass
class RunsModel:
    """All runs: which may be claimed, and whose results count."""

    runs: dict[int, RunModel] = field(default_factory=dict)

    def claimable(self, time: float) -> dict[int, RunModel]:
        """Those that may be claimed, but for the due times of others of their lock."""
        return {
            id_: run
            for id_, run in self.runs.items()
            if run.waits and run.due <= time and not (run.lock and self._held_up(run, time))
        }

    def _held_up(self, run: RunModel, time: float) -> bool:
        """Another of its lock is claimed, or goes first: it has begun, or is due as well."""
        others = [o for o in self.runs.values() if o.lock == run.lock and o is not run and o.open]
        return any(o.node or (o.precedes(run) and (o.attempt or o.due <= time)) for o in others)

    def claimed(self, answer: Iterable[RunRecord], node: str, limit: int, time: float) -> None:
        records = list(answer)
        claimable = self.claimable(time)
        ids = [record.id for record in records]
        assert len(ids) == len(set(ids)) <= limit
        assert set(ids) <= set(claimable), "claimed what could not be claimed"
        locks = [claimable[id_].lock for id_ in ids if claimable[id_].lock]
        assert len(locks) == len(set(locks)), "one lock was claimed twice"
        keys = {run.lock or f"run {id_}" for id_, run in claimable.items()}
        assert len(ids) == min(limit, len(keys)), "left something that could be claimed"
        for record in records:
            run = self.runs[record.id]
            run.node, run.claim, run.attempt = node, run.claim + 1, run.attempt + 1
            assert (record.node, record.claim, record.attempt) == (node, run.claim, run.attempt)
            assert record.crashes == run.crashes

    def finished(self, result: Result, yes: bool, time: float) -> None:
        """It counts if it ends the claim that there is, or has done so before."""
        run, claim = self.runs.get(result.run_id), (result.claim, result.node)
        again = run is not None and (
            claim == run.put_back
            if result.state is RunState.WAITING
            else (run.ended_as, run.ended_by) == (result.state, claim)
        )
        mine = run is not None and run.node is not None and (run.claim, run.node) == claim
        assert yes == (mine or again), f"{result}: {yes}; it is {run}"
        if run is None or not mine:
            return
        run.node = None
        if result.state is not RunState.WAITING:
            run.ended_as, run.ended_by = result.state, claim
            return
        run.put_back = claim
        run.attempt -= not result.begun
        if result.delay is not None:
            run.due, run.stored_due = time + result.delay, None

    def of(self, node: str) -> dict[int, RunModel]:
        return {id_: run for id_, run in self.runs.items() if run.node == node}
