"""Errors as values: they can be copied, and sent to another process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from copy import copy
from datetime import UTC, datetime

import pytest

from tenure import errors
from tenure.errors import BeyondHistory, Retry, TenureError

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def _kinds(kind: type[TenureError]) -> Iterator[type[TenureError]]:
    yield kind
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from _kinds(each)


@pytest.mark.parametrize("kind", [*_kinds(TenureError), Retry])
def test_error_survives_a_pickle_and_a_copy(kind: type[Exception]) -> None:
    """A pool of processes, or a queue of tasks, sends back what was raised."""
    error = kind("what", NOW) if kind is BeyondHistory else kind("what")
    for other in (pickle.loads(pickle.dumps(error)), copy(error)):  # noqa: S301 - our own
        assert type(other) is kind
        assert (str(other), vars(other)) == (str(error), vars(error))
