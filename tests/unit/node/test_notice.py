"""The notice: who watches, and what a leader's lease says of the cluster."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tenure.model import LeaseRecord
from tenure.node.notice import DEPUTIES, Notice, Place, deputies_among, notice_in

NODES: dict[str, Place] = {f"node-{number}": ("host", number) for number in range(100)}


def record(info: dict[str, Any], term: int = 7) -> LeaseRecord:
    return LeaseRecord(
        "leader", term, "ann", "host", 1, 10.0, True, 0, None, None, None, live=True, info=info
    )


def test_notice_is_read_as_it_was_written() -> None:
    notice = Notice(7, ("bob", "cat"), 12, {"app": frozenset({"e1", None}), "b": frozenset({"e2"})})
    assert notice_in(record(notice.as_info())) == notice


@pytest.mark.parametrize(
    "change",
    [
        {"deputies": None},
        {"deputies": "bob"},
        {"deputies": ["bob", 7]},
        {"nodes": "3"},
        {"nodes": True},
        {"editions": ["app"]},
        {"editions": {"app": "e1"}},
        {"editions": {"app": [{}]}},
    ],
)
def test_notice_that_somebody_edited_is_none(change: dict[str, Any]) -> None:
    info = Notice(7, ("bob",), 2, {"app": frozenset({"e1"})}).as_info()
    assert notice_in(record(info)) is not None
    assert notice_in(record({**info, **change})) is None


def test_lease_without_a_notice_has_none() -> None:
    assert notice_in(record({})) is None
    assert notice_in(None) is None


def test_deputies_are_few_and_the_same_in_any_order() -> None:
    chosen = deputies_among(NODES)
    assert len(set(chosen)) == DEPUTIES
    assert deputies_among({node: NODES[node] for node in reversed(NODES)}) == chosen


def test_node_that_goes_changes_no_deputy_but_itself() -> None:
    chosen = deputies_among(NODES)
    for gone in NODES:
        left = set(deputies_among({node: NODES[node] for node in NODES if node != gone}))
        assert left >= set(chosen) - {gone}


@pytest.mark.parametrize(
    ("others", "deputies"),
    [
        ({"a": 40, "b": 40, "c": 40, "d": 40}, {"b": 1, "c": 1, "d": 1}),
        ({"a": 40, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}),
        ({"a": 40, "b": 40}, {"a": 1, "b": 2}),
        ({"a": 40, "b": 1}, {"a": 2, "b": 1}),
        ({"b": 40}, {"b": 3}),
        ({"a": 2}, {"a": 2}),
    ],
)
def test_deputies_are_on_many_hosts_and_on_others_than_the_leader_first(
    others: dict[str, int], deputies: dict[str, int]
) -> None:
    places: dict[str, Place] = {
        f"{host}-{number}": (host, number)
        for host, count in others.items()
        for number in range(1, count + 1)
    }
    chosen = deputies_among(places, ("a", 0))
    assert Counter(places[node][0] for node in chosen) == deputies


@pytest.mark.parametrize(
    ("others", "deputies"),
    [
        ({1: 40, 2: 40}, {1: 1, 2: 2}),
        ({1: 40, 2: 1}, {1: 2, 2: 1}),
        ({1: 40, 2: 40, 3: 40, 4: 40}, {2: 1, 3: 1, 4: 1}),
        ({1: 40}, {1: 3}),
    ],
)
def test_deputies_of_one_host_are_in_many_processes_and_in_others_than_the_leader_first(
    others: dict[int, int], deputies: dict[int, int]
) -> None:
    places: dict[str, Place] = {
        f"{pid}-{number}": ("host", pid) for pid, count in others.items() for number in range(count)
    }
    chosen = deputies_among(places, ("host", 1))
    assert Counter(places[node][1] for node in chosen) == deputies


def test_in_a_small_cluster_everybody_watches() -> None:
    for nodes in range(1, DEPUTIES + 2):
        assert Notice(1, ("bob",), nodes, {}).appoints("new")
    large = Notice(1, ("bob",), DEPUTIES + 2, {})
    assert large.appoints("bob")
    assert not large.appoints("new")


def test_new_leader_is_none_of_its_own_deputies() -> None:
    notice = Notice(1, ("bob", "cat"), 9, {"app": frozenset({"e1"})})
    assert notice.in_term(2, "bob") == Notice(2, ("cat",), 9, {"app": frozenset({"e1"})})
