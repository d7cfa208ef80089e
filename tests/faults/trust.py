"""The checker of locks: did two holders trust themselves at the same instant?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults.support import Journal


@dataclass(slots=True)
class _Span:
    """From when until when a process trusted its lease, on the boot clock."""

    term: int
    pid: int
    begun: float
    until: float


def trusted_twice(journal: Journal) -> Iterator[str]:
    """What `programs/holder.py` wrote, if it contradicts the promise.

    Each said until when it would trust its lease, before it could know what was to come; that it
    let go, or was killed, ends it sooner.
    """
    spans = _spans(journal)
    for one, two in itertools.combinations(spans, 2):
        both = min(one.until, two.until) - max(one.begun, two.begun)
        if both > 0 and (one.term, one.pid) != (two.term, two.pid):
            yield (
                f"terms {one.term} and {two.term} of the guard (pids {one.pid}, {two.pid})"
                f" were both trusted for {both:.3f} s"
            )


def trusted_until(journal: Journal, who: str) -> float:
    """How long this holder said that it would trust its lease, on the boot clock."""
    return max(float(entry["until"]) for entry in journal.entries("trusts", who))


def _spans(journal: Journal) -> list[_Span]:
    spans: list[_Span] = []
    for entry in journal.entries("trusts"):
        mine = [s for s in spans if (s.term, s.pid) == (entry["term"], entry.pid)]
        if mine and entry["boot"] <= mine[-1].until:
            mine[-1].until = max(mine[-1].until, entry["until"])
        else:  # its first, or one that was restored after it had run out
            spans.append(_Span(entry["term"], entry.pid, entry["boot"], entry["until"]))
    ends = [(entry["term"], entry.pid, entry["boot"]) for entry in journal.entries("lets go")]
    ends += [(None, entry["killed"], entry["boot"]) for entry in journal.entries("killed")]
    for term, pid, at in ends:
        for span in spans:
            if span.pid == pid and span.begun <= at and term in (None, span.term):
                span.until = min(span.until, at)
    return spans
