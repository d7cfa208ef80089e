"""Events from rows that somebody edited: a sink can send whatever they become."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tenure.backends.shared.event_rows import logged

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def headers_of(stored: object) -> dict[str, str]:
    row = dict.fromkeys(("subject", "key", "traceparent")) | {
        **dict.fromkeys(("id", "topic", "type", "namespace", "data"), "x"),
        "time": NOW,
        "recorded_at": NOW,
        "position": 1,
        "key_number": 0,
        "headers": stored,
    }
    return dict(logged(row, lambda value: value).headers)


def test_headers_are_as_they_were_given() -> None:
    given = {"x-shop.id_7": "ä \u0378 ☃", "b": ""}
    assert headers_of(json.dumps(given)) == given
    assert headers_of("{}") == {}


@pytest.mark.parametrize(
    "stored",
    [
        *(None, 7, "", "{", "[]", '{"a": 1}', "[" * 100_000),
        json.dumps({"a: b\r\nwebhook-id": "forged"}),
        json.dumps({"ä": "not ASCII"}),
        json.dumps({"": "no name"}),
        '{"a": "\\ud800"}',
        json.dumps({f"h{n}": "x" for n in range(2_000)}),
    ],
    ids=lambda stored: repr(stored)[:30],
)
def test_headers_that_nobody_can_have_given_are_none(stored: object) -> None:
    """They are sent as they are: a line break would begin another header, and an odd character
    would keep the relay from sending anything."""
    assert headers_of(stored) == {}
