"""The table of routes: each row is whole, and its description says what it does."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from tenure.schedules.changes import ORPHANED, PAUSED
from tenure.schedules.planning import SET_ASIDE
from tenure.web.api.description import description, possible_problems
from tenure.web.api.operations import TABLE
from tenure.web.api.page import readable
from tenure.web.api.schedules import State
from tenure.web.api.table import Operation, Version

every_operation = pytest.mark.parametrize("operation", TABLE, ids=lambda each: each.id)
TOLD = description("/api")


def test_operations_and_their_places_are_unique() -> None:
    assert len({each.id for each in TABLE}) == len(TABLE)
    assert len({(each.method, each.path) for each in TABLE}) == len(TABLE)


def test_no_two_paths_match_the_same_request() -> None:
    """A name could be the word of another path: then one of them could not be reached."""
    shapes = {tuple("{}" if s.startswith("{") else s for s in each.segments) for each in TABLE}
    for shape in shapes:
        for other in shapes - {shape}:
            pairs = zip(shape, other, strict=False)
            alike = all(a == b or "{}" in (a, b) for a, b in pairs)
            assert len(shape) != len(other) or not alike, (shape, other)


@every_operation
def test_change_of_what_has_a_version_needs_it(operation: Operation) -> None:
    versioned = operation.segments[0] in ("schedules", "leases")
    is_change = versioned and operation.method in ("PUT", "PATCH", "DELETE")
    is_change |= versioned and operation.path.endswith(("/pause", "/resume", "/rename", "/evict"))
    assert is_change is (operation.version is not Version.NONE)


@every_operation
def test_what_makes_something_takes_a_key(operation: Operation) -> None:
    makes = operation.id in ("runNow", "backfill", "enqueue")
    assert operation.idempotent is makes


@every_operation
def test_description_has_what_the_row_says(operation: Operation) -> None:
    told = TOLD["paths"][operation.path][operation.method.lower()]
    named = {(each["in"], each["name"]) for each in told["parameters"]}
    assert {name for place, name in named if place == "path"} == set(operation.parameters)
    fields = () if operation.query is None else operation.query.__struct_fields__
    assert {name for place, name in named if place == "query"} == set(fields)
    assert (("header", "If-Match") in named) is (operation.version is not Version.NONE)
    assert (("header", "Idempotency-Key") in named) is operation.idempotent
    statuses = {*operation.statuses, *possible_problems(operation)}
    assert set(told["responses"]) == {str(status.value) for status in statuses}
    assert ("requestBody" in told) is (operation.body is not None)
    if operation.parameters:
        assert "404" in told["responses"]


def test_all_that_is_referred_to_is_there() -> None:
    named = set(re.findall(r"'#/components/schemas/(\w+)'", str(TOLD)))
    assert named == set(TOLD["components"]["schemas"])


@every_operation
def test_page_has_the_operation(operation: Operation) -> None:
    page = readable("/api").decode()
    assert f"<code>{operation.method} {operation.path}</code>" in page
    assert operation.summary.replace("'", "&#x27;") in page


def test_page_has_contents_and_says_once_what_every_operation_may_answer() -> None:
    page = readable("/api").decode()
    for operation in TABLE:
        assert f'<a href="#{operation.id}">{operation.method} {operation.path}</a>' in page
        assert f'<section id="{operation.id}">' in page
    assert page.count("<code>401</code>") == page.count("<code>503</code>") == 1
    assert page.count("<code>412</code>") > 1, "only some may"
    assert "ProblemDetails" not in page, "errors are all alike, which it says at the top"


def test_page_has_neither_scripts_nor_styles() -> None:
    assert not re.search(r"<script|<style|style=|\son\w+=", readable("/api").decode())


def test_states_are_those_that_schedules_have() -> None:
    assert set(get_args(State)) == {"active", "ended", ORPHANED, PAUSED, SET_ASIDE}
