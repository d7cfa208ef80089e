"""Answers to requests that have an `Idempotency-Key`, for clients that did not get them.

Runs keep their key in the store, so a repeat gives the same run from any process. Of a backfill
the store knows which times are fired, and fires none twice; but what a call fired is only known
here, in the process that did it, for the last so many calls.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from tenure.web.api.problems import unprocessable
from tenure.web.api.table import Call

KEPT = 1_000
Answered = msgspec.Struct


class Repeats:
    """The last answers of one path."""

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[str, ...], tuple[bytes, Answered]] = OrderedDict()

    def find(self, call: Call) -> Answered | None:
        """The answer that this request had before; a problem if the key was for another one."""
        if call.key is None:
            return None
        before = self._answers.get(_name(call))
        if before is None:
            return None
        asked, answer = before
        if asked != msgspec.json.encode(call.body):
            raise unprocessable("Idempotency-Key: it was used for another request.")
        return answer

    def keep(self, call: Call, answer: Answered) -> None:
        if call.key is None:
            return
        self._answers.setdefault(_name(call), (msgspec.json.encode(call.body), answer))
        while len(self._answers) > KEPT:
            self._answers.popitem(last=False)


def _name(call: Call) -> tuple[str, ...]:
    return (*call.path.values(), call.key or "")
