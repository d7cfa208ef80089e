"""Values of the API: what is in rows that were edited breaks no answer, and tells no secret."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tenure.errors import (
    Conflict,
    InvalidTrigger,
    LeaseLost,
    NotFound,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
    UnknownTask,
)
from tenure.web.api.problems import entity_tag, problem_of
from tenure.web.api.values import Answer, encoded, stored_json


class Told(Answer):
    """Anything."""

    value: Any


@pytest.mark.parametrize("text", ['{"a": [1, 2.5, null]}', "12345678901234567890123", '"\\ud800"'])
def test_stored_json_is_told_as_it_is(text: str) -> None:
    assert encoded(Told(stored_json(text))) == f'{{"value":{text}}}'.encode()


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", "[Infinity]", "[" * 100_000, "x\0y", "\ud800", b"\xff", 7]
)
def test_what_is_no_json_is_told_as_text(text: object) -> None:
    told = json.loads(encoded(Told(stored_json(text))))["value"]
    assert isinstance(told, str)


def test_half_a_character_is_told_as_its_escape() -> None:
    raw = encoded(Told({"\ud800": ["\udfff", Told("a\ud800b"), msgspec.Raw(b"1")]}))
    assert json.loads(raw) == {"value": {"\\ud800": ["\\udfff", {"value": "a\\ud800b"}, 1]}}


@pytest.mark.parametrize("version", [None, True, "7", "7\r\nx: y", b"7", "\u202e", 7.0])
def test_version_that_is_no_number_is_no_etag(version: object) -> None:
    assert entity_tag(version) == {}
    assert entity_tag(7) == {"etag": '"7"'}


SECRET = "postgresql://app:hunter2@db.internal/app"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound("no schedule named 'a'"), 404),
        (Conflict("it exists"), 409),
        (InvalidTrigger("no"), 422),
        (UnknownTask("no"), 422),
        (LeaseLost("gone"), 409),
        (StoreUnavailable(SECRET), 503),
        (SchemaMismatch(SECRET), 503),
        (StoreError(SECRET), 503),
        (RuntimeError(SECRET), 500),
    ],
)
def test_each_error_is_a_problem_without_secrets(error: Exception, status: int) -> None:
    response = problem_of(error).response()
    assert response.status_code == status
    assert response.media_type == "application/problem+json"
    assert ("retry-after" in response.headers) is (status == 503)
    for secret in ("hunter2", "db.internal"):
        assert secret.encode() not in response.body
