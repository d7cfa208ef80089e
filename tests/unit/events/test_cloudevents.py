"""Our CloudEvents are read by the CloudEvents library as what they are."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from tenure.events.cloudevents import STRUCTURED, attributes, binary, percent_encoded, structured
from tenure.model import LoggedEvent
from tenure.testing.sinks import event

EVENTS = [
    event(7),
    event(8, key=None, subject=None, data="null"),
    event(9, key="ä/ö", data='{"text":"☃ \\u0000 \\"x\\"","n":1e400}'.replace("1e400", "1.5")),
    event(10, traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
]


@pytest.mark.parametrize("sent", EVENTS, ids=lambda each: each.id)
def test_structured_mode_is_read_by_the_library(sent: LoggedEvent) -> None:
    message = HTTPMessage({"content-type": STRUCTURED}, structured(sent))
    _compare(from_http_event(message), sent)


@pytest.mark.parametrize("sent", EVENTS, ids=lambda each: each.id)
def test_binary_mode_is_read_by_the_library(sent: LoggedEvent) -> None:
    headers = {name: value.encode() for name, value in binary(sent).items()}
    message = KafkaMessage(headers, sent.key, sent.data.encode())
    _compare(from_kafka(message, JSONFormat(), CloudEvent), sent)


def _compare(read: object, sent: LoggedEvent) -> None:
    assert isinstance(read, CloudEvent)
    assert read.get_data() == json.loads(sent.data)
    found = {**read.get_attributes()}
    assert found.pop("datacontenttype") == "application/json"
    assert found.pop("time") == sent.time
    expected = attributes(sent)
    del expected["time"]
    assert found == expected


def test_sequence_is_in_order_as_text() -> None:
    texts = [attributes(event(position))["sequence"] for position in (2, 10, 999, 2**62)]
    assert texts == sorted(texts)


def test_time_is_in_utc() -> None:
    there = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert attributes(event(1, time=there))["time"] == "2025-12-31T23:00:00Z"
    assert there == datetime(2025, 12, 31, 23, tzinfo=UTC)


def test_data_is_passed_on_byte_for_byte() -> None:
    data = '{"a":12345678901234567890.10,"b":1.0}'
    assert data.encode() in structured(event(1, data=data))


@pytest.mark.parametrize("data", ["", "{", '1,"id":"7/planned/8"', "1}{", "[" * 100_000])
def test_data_that_would_end_the_text_is_refused(data: str) -> None:
    """It would be signed, with the id of another event."""
    with pytest.raises(ValueError, match=r"Expecting|Extra data|nested"):
        structured(event(1, data=data))


def test_values_in_http_headers_are_encoded() -> None:
    assert percent_encoded('Köln 50% "x"') == "K%C3%B6ln%2050%25%20%22x%22"
    assert percent_encoded("a\r\nHost: b") == "a%0D%0AHost:%20b"
