"""The copier: moves all of a source to a target, step by step. ADR 62 describes the steps.

What has been done is on record in both stores, in the transaction that did it. So a copier that is
killed anywhere is started again, and reads there how to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar
from uuid import uuid4

from tenure.backends.base.copying import CopyMark, CopySide
from tenure.copying.preflight import Plan, check_empty, plan
from tenure.copying.transfer import Digest, bring_closer, digest_of, make_equal
from tenure.errors import Conflict, StoreError
from tenure.node.names import LEADER
from tenure.process.clock import Clock, SystemClock, to_micros

T = TypeVar("T")
POLL = 0.1
BEGUN, COPIED, DRAINING, DRAINED = "begun", "copied", "draining", "drained"
MOVED, WRITTEN, COMPARED, COMPLETE = "moved", "written", "compared", "complete"
CLEARED, ABORTED = "cleared", "aborted"
STEPS = (BEGUN, COPIED, DRAINING, DRAINED, MOVED, WRITTEN, COMPARED, COMPLETE)
"""Told as soon as they are done. `WRITTEN` and `COMPARED` are not committed yet."""


class Copier:
    """Moves one store to another."""

    def __init__(
        self,
        source: CopySide,
        target: CopySide,
        *,
        drain: float,
        told: Callable[[str], None] = lambda step: None,
        stepped: Callable[[int], None] = lambda rows: None,
        compared: Callable[[int], None] = lambda rows: None,
        clock: Clock | None = None,
    ) -> None:
        """`told` hears of each step; `stepped` of rows that were looked at before the handover, and
        `compared` of those after it: first the source's, then the target's."""
        self._source = source
        self._target = target
        self._drain_for = drain
        self._told = told
        self._stepped = stepped
        self._compared = compared
        self._clock = clock or SystemClock()
        self._mark: CopyMark | None = None
        """The target's, of this copy."""
        self.digests: dict[str, Digest] = {}

    def run(self) -> CopyMark:
        """From where the last one ended, to the end."""
        planned = plan(self._source, self._target)
        self._mark = mark = self._resumed() or self._begin()
        if mark.phase == "complete":
            return mark
        given = self._source.mark("source")
        if given is None:
            self._copy_history(planned)
            self._close_fence(mark)
        if given is None or given.phase == "draining":
            self._drain()
            self._close(mark)
        return self._finish(planned, mark)

    def abort(self) -> None:
        """Go back, unless the target is complete. First the target forgets what it was given: a
        copier that still runs can then no longer complete it."""
        given, kept = self._source.mark("source"), self._target.mark("target")
        if given is None and (kept is None or kept.source != self._source.location):
            raise Conflict(
                f"there is no copy from {self._source.location} to {self._target.location} to abort"
            )
        if given is not None and given.target != self._target.location:
            raise Conflict(
                f"{self._source.location} is being moved to {given.target}, not to"
                f" {self._target.location}: give that one. Nothing was changed."
            )
        self._target.write(lambda: self._clear(given))
        self._told(CLEARED)
        if given is not None:
            self._source.write(lambda: self._reopen(given))
        self._told(ABORTED)

    def _resumed(self) -> CopyMark | None:
        """The target's mark, if this copy has begun."""
        given, kept = self._source.mark("source"), self._target.mark("target")
        if given is not None and given.target != self._target.location:
            raise Conflict(
                f"{given.warning}. It is not being moved to {self._target.location}: nothing was"
                " changed."
            )
        if given is not None and (kept is None or kept.id != given.id):
            raise StoreError(
                f"{self._source.location} refuses writes, and {self._target.location} knows nothing"
                " of the copy: an --abort was interrupted, or the target was emptied. Run"
                " `tenure copy SOURCE TARGET --abort`, then begin again."
            )
        if kept is None:
            return None
        if kept.source != self._source.location or (given is None and kept.phase == "complete"):
            raise Conflict(
                f"{self._target.location} was filled from {kept.source} by an earlier copy. Give an"
                " empty target. Nothing was changed."
            )
        return kept

    def _begin(self) -> CopyMark:
        places = self._source.location, self._target.location
        mark = CopyMark(uuid4().hex, "copying", *places, self._now())

        def begin() -> None:
            self._target.refuse("all", LEADER, _warning(mark))
            check_empty(self._target)
            self._target.set_mark("target", mark)

        self._target.write(begin)
        self._told(BEGUN)
        return mark

    def _copy_history(self, planned: Plan) -> None:
        for table in planned.tables:
            bring_closer(self._source, self._target, table, self._write, self._stepped)
        self._told(COPIED)

    def _close_fence(self, mark: CopyMark) -> None:
        """From here on nothing fires; runs come to their ends."""
        draining = replace(mark, phase="draining", at=self._now())

        def close() -> None:
            self._source.refuse("fence", LEADER, _warning(draining))
            self._source.take_office(LEADER, _holder(mark))
            self._source.set_mark("source", draining)

        self._source.write(close)
        self._told(DRAINING)

    def _drain(self) -> None:
        until = self._clock.monotonic() + self._drain_for
        while self._source.claimed() or self._source.uneven():
            if self._clock.monotonic() > until:
                break
            self._clock.block(POLL)
        self._told(DRAINED)

    def _close(self, mark: CopyMark) -> None:
        """The handover: a greater term, and after it no write at all."""
        moved = replace(mark, phase="moved", at=self._now())

        def close() -> None:
            self._source.refuse("all", LEADER, _warning(moved))
            self._source.take_office(LEADER, _holder(mark))
            self._source.place_events(LEADER)
            if uneven := self._source.uneven():
                raise StoreError(
                    f"{', '.join(uneven)} of {self._source.location} has read events behind one"
                    " that it has not read: let its consumers catch up, then run this again, or"
                    " with --abort. Until then nothing fires."
                )
            self._source.set_mark("source", moved)

        self._source.write(close)
        self._told(MOVED)

    def _finish(self, planned: Plan, mark: CopyMark) -> CopyMark:
        complete = replace(mark, phase="complete", at=self._now())

        def finish() -> None:
            self._check()
            for table in planned.tables:
                self.digests[table.name] = make_equal(
                    self._source, self._target, table, self._compared
                )
            self._target.raise_counters(self._source.counters())
            self._told(WRITTEN)
            self._compare(planned)
            self._told(COMPARED)
            self._target.admit()
            self._target.set_mark("target", complete)

        self._target.write(finish)
        self._told(COMPLETE)
        return complete

    def _compare(self, planned: Plan) -> None:
        for table in planned.tables:
            ours = self.digests[table.name]
            theirs = digest_of(self._target, table, self._compared)
            if ours != theirs:
                raise StoreError(
                    f"table {table.name} differs: {ours.rows} rows, digest {ours}, in"
                    f" {self._source.location}; {theirs.rows} rows, digest {theirs}, in"
                    f" {self._target.location}. The target was not completed. Run this with --abort"
                    " to go on with the source, and report it."
                )

    def _clear(self, given: CopyMark | None) -> None:
        kept = self._target.mark("target")
        if kept is None:
            return
        if kept.phase == "complete" or (given is not None and kept.id != given.id):
            raise Conflict(
                f"{self._target.location} is complete and may have fired since: going back would"
                " fire again what it has fired. To return, copy it to a new store, in the other"
                " direction. Nothing was changed."
            )
        for table in self._target.tables():
            self._target.empty(table)
        self._target.admit()
        self._target.set_mark("target", None)

    def _reopen(self, given: CopyMark) -> None:
        self._source.admit()
        self._source.take_office(LEADER, _holder(given))
        self._source.set_mark("source", None)

    def _write(self, work: Callable[[], T]) -> T:
        """On the target, if it is still ours."""

        def checked() -> T:
            self._check()
            return work()

        return self._target.write(checked)

    def _check(self) -> None:
        now = self._target.mark("target")
        if now != self._mark:
            state = "was completed by another copier" if now is not None else "was aborted"
            raise Conflict(f"the copy to {self._target.location} {state} meanwhile.")

    def _now(self) -> int:
        return to_micros(self._clock.now())


def _warning(mark: CopyMark) -> str:
    assert mark.warning is not None
    return mark.warning


def _holder(mark: CopyMark) -> str:
    return f"copy/{mark.id}"
