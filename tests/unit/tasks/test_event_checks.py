"""What an event may say."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import Event, InvalidEvent
from tenure.settings import EVENT_LIMIT
from tenure.tasks.event_checks import checked, emission


def test_an_event_is_stored_as_it_was_given() -> None:
    event = checked(Event("ledger", "MonthEnded", {"b": [1, None], "a": "ä"}, "k", {"x": "1"}))

    assert (event.topic, event.type, event.key) == ("ledger", "MonthEnded", "k")
    assert event.data == '{"a":"ä","b":[1,null]}'
    assert event.headers == '{"x":"1"}'


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("MonthEnded", "is not an Event"),
        (Event("", "t"), "a topic's name"),
        (Event("a b", "t"), "a topic's name"),
        (Event("ä", "t"), "a topic's name"),
        (Event("x" * 201, "t"), "a topic's name"),
        (Event("ledger\n", "t"), "a topic's name"),
        (Event("ledger", ""), "type is 1 to 200"),
        (Event("ledger", "a\nb"), "type is 1 to 200"),
        (Event("ledger", "t", {1: 2}), "JSON keys are strings"),
        (Event("ledger", "t", (1,)), "is a tuple"),
        (Event("ledger", "t", float("nan")), "JSON does not have"),
        (Event("ledger", "t", key=""), "not a text of 1 to 200"),
        (Event("ledger", "t", key="a\0"), "not a text of 1 to 200"),
        (Event("ledger", "t", key="\ud800"), "not a text of 1 to 200"),
        (Event("ledger", "t", headers={"ce-id": "1"}), "cannot be the name of a header"),
        (Event("ledger", "t", headers={"Content-Type": "1"}), "cannot be the name of a header"),
        (Event("ledger", "t", headers={"a b": "1"}), "cannot be the name of a header"),
        (Event("ledger", "t", headers={"a": "1\r\nb: 2"}), "not a text of printable"),
        (Event("ledger", "t", headers={"a": "x" * 9000}), "its headers are 9,008 bytes"),
    ],
)
def test_what_a_sink_or_a_store_would_refuse_is_refused(event: Any, words: str) -> None:
    with pytest.raises(InvalidEvent, match=words):
        checked(event)


def test_data_may_have_64_kib_and_not_a_byte_more() -> None:
    fits = "x" * (EVENT_LIMIT - 2)
    assert len(checked(Event("ledger", "t", fits)).data) == EVENT_LIMIT

    with pytest.raises(InvalidEvent, match="65,537 bytes of JSON; the limit is 65,536"):
        checked(Event("ledger", "t", fits + "x"))


def test_another_limit_is_obeyed_and_named() -> None:
    event = Event("ledger", "t", "x" * 100)
    assert emission(event, limit=102).content == checked(event)
    with pytest.raises(InvalidEvent) as caught:
        emission(event, limit=101)
    assert "data is 102 bytes of JSON; the limit is 101." in str(caught.value)
    assert "or raise event_limit" in str(caught.value)


def test_data_that_contains_itself_is_refused() -> None:
    data: list[Any] = []
    data.append(data)
    with pytest.raises(InvalidEvent, match="contains itself"):
        checked(Event("ledger", "t", data))
