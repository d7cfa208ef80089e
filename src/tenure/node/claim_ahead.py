"""How many runs a worker claims in advance of their slots.

Every claim is a transaction, which takes longer than a short run. So while runs are short, a claim
takes as many more as ended since the last one, and no fewer than the last one took. What gets no
slot soon is given back: so it does not grow beyond what ends in half of that time. If runs become
slower some are given back, and it begins anew.
"""

from __future__ import annotations

SHORT = 0.02
"""Runs that take less than this are short: others may be claimed for their slots in advance."""
AHEAD = 8
"""At most so many times `concurrency` are claimed in advance."""
AHEAD_FOR = 0.1
"""If they get no slot within so many seconds, they are given back."""


class ClaimAhead:
    """Those of one worker, whose clock's times it is given."""

    def __init__(self, concurrency: int) -> None:
        self._most = AHEAD * concurrency
        self._count = 0
        self._ended = 0
        """How many short runs have ended since the last claim."""
        self._claimed_at = float("-inf")

    def ended(self, took: float, *, may: bool) -> None:
        """A run took so long. May those like it be claimed in advance?"""
        if may and took < SHORT:
            self._ended += 1
        else:
            self.none()

    def none(self) -> None:
        """Begin anew: no more than there is room for, until short runs end again."""
        self._count = self._ended = 0

    def claim(self, now: float) -> int:
        """How many the claim that begins now may take."""
        took, enough = now - self._claimed_at, AHEAD_FOR / 2
        ended = self._ended if took <= enough else int(self._ended * enough / took)
        self._count = min(max(self._count, ended), self._most)
        self._ended, self._claimed_at = 0, now
        return self._count
